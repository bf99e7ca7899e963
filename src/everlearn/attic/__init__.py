"""Modules that are about to be deleted."""
