"""Makeway on one machine: the driver behind `makeway up`."""
