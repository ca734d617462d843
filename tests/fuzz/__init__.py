"""Whatever is read from outside, on texts that nobody meant: `make fuzz`."""
