"""Topic models of points within a memory budget."""
