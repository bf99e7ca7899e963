"""Compiled inner loops of topic trees."""
