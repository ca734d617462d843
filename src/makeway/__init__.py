"""Makeway decides which batch workloads run now, on which hardware, and who makes way for whom."""
