"""What tests of models need, ours and those of others."""

from everlearn.testing.synthetic import PlantedMixture, planted_mixture
from everlearn.testing.topics import PlantedTopics, planted_topics

__all__ = ["PlantedMixture", "PlantedTopics", "planted_mixture", "planted_topics"]
