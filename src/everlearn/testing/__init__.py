"""What tests of models need, ours and those of others."""

from everlearn.testing.synthetic import PlantedMixture, planted_mixture

__all__ = ["PlantedMixture", "planted_mixture"]
