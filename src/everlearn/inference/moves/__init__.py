"""Moves: changes of structure, planned before a lap, measured during it, judged by the bound."""
