"""Dirichlet-process mixtures: births, merges and deletes on streams of rows."""
