"""What tests of models need, ours and those of others."""

from everlearn.testing.data import PlantedMixture, PlantedTopics, planted_mixture, planted_topics

__all__ = ["PlantedMixture", "PlantedTopics", "planted_mixture", "planted_topics"]
