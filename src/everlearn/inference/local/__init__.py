"""Local steps: pure functions from a posterior and rows to statistics."""
