"""Priors over how rows, or the words of a document, are shared out among components."""

from everlearn.core.priors.dp import DPPrior, SticksPosterior
from everlearn.core.priors.learned_dirichlet import GroupCounts, LearnedDirichlet
from everlearn.core.priors.nested import NestedPrior, TreeSticks
from everlearn.core.priors.topics import FixedTopics, SharedSticks, stick_weights

__all__ = [
    "DPPrior",
    "FixedTopics",
    "GroupCounts",
    "LearnedDirichlet",
    "NestedPrior",
    "SharedSticks",
    "SticksPosterior",
    "TreeSticks",
    "stick_weights",
]
