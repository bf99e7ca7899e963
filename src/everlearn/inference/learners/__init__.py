"""Learners: how statistics of batches enter the state, and when structure may change."""
