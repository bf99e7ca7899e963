"""Clusters of any shape: a ladder of levels from coarse to fine, and a default cut."""
