"""The part of Makeway that runs as root: it starts and ends pods under their accounts."""
