"""Compiled loops that several systems share: arrays in, arrays out."""
