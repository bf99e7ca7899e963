"""Compiled loops over tree paths."""
