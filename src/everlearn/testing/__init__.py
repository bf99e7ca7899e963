"""For tests of models: planted data, and the conformance suite in `testing.checks`."""

from everlearn.testing.data import PlantedMixture, PlantedTopics, planted_mixture, planted_topics

__all__ = ["PlantedMixture", "PlantedTopics", "planted_mixture", "planted_topics"]
