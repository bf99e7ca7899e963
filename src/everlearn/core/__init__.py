"""What is believed: statistics, families and priors. NumPy in, NumPy out; no I/O."""
