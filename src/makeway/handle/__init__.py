"""Makeway from Python: jobs of commands and of functions, without a terminal."""
