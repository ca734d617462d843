"""Makeway on a cluster: the driver behind `makeway controller`."""
