"""Compiled samplers of topics."""
