"""What the engine was told and what it decided, in order: written down, read back, replayed."""
