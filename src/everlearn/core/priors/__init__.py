"""Priors of the weights of components, topics and paths in trees."""

from everlearn.core.priors.dp import DPPrior, SticksPosterior
from everlearn.core.priors.learned_dirichlet import GroupCounts, LearnedDirichlet
from everlearn.core.priors.nested import NestedPrior, TreeSticks

__all__ = [
    "DPPrior",
    "GroupCounts",
    "LearnedDirichlet",
    "NestedPrior",
    "SticksPosterior",
    "TreeSticks",
]
