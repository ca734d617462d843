"""Who runs, at whose expense, and why. No clock, log, disk, network or randomness in here."""
