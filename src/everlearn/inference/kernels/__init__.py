"""Compiled loops: arrays in, arrays out, each closed in one file."""
