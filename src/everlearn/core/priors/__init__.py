"""Priors over how rows, or the words of a document, are shared out among components."""

from everlearn.core.priors.dp import DPPrior, SticksPosterior
from everlearn.core.priors.topics import FixedTopics, SharedSticks, stick_weights

__all__ = ["DPPrior", "FixedTopics", "SharedSticks", "SticksPosterior", "stick_weights"]
