"""Measurements: `make bench` writes docs/benchmarks.md, `make reproduce` writes docs/papers/."""
