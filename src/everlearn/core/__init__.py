"""Statistics, families, priors and trees: NumPy in, NumPy out, no I/O."""
