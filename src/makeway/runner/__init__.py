"""Runs pods as local processes, and reports what became of them."""
