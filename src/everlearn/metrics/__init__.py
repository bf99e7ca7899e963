"""Numbers that say how good a fitted model is."""
