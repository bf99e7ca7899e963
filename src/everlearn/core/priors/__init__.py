"""Priors over how rows are shared out among components."""

from everlearn.core.priors.dp import DPPrior, SticksPosterior

__all__ = ["DPPrior", "SticksPosterior"]
