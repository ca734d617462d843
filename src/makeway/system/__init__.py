"""Makeway for every account of a machine: where things lie, what is kept, what root checks."""
