"""Keeps a cluster and the engine in step: hears of objects, decides, writes what was decided."""
