"""Anchors: one class for each topic, as the prior mean of its weights.

With weights that start at zero, all one-vs-rest tasks of a batch pull every token into the
heaviest topic, and topics collapse as soon as there are more than a few classes. The model does
not care which topic speaks for which class, so the prior may choose: topic k expects a document
it fills to be of class k mod n, with every margin met. See docs/math/bayespa.md.
"""

from __future__ import annotations

import numpy as np

from everlearn.core.arrays import IntVec, Mat


def n_codes(n_tasks: int) -> int:
    """How many classes an anchor can stand for: a single task has two."""
    return 2 if n_tasks == 1 else n_tasks


def code_means(codes: IntVec, n_tasks: int, margin: float) -> Mat:
    """Prior means (n_tasks, n_topics): the margin for a topic's own task, minus it elsewhere.

    For a single task code 0 stands for yes and code 1 for no; code -1 is no anchor at all.
    """
    own = codes[None, :] == np.arange(n_tasks)[:, None]
    return np.where(codes < 0, 0.0, np.where(own, margin, -margin))


def label_order(signs: np.ndarray) -> IntVec:
    """Tasks in the order in which their labels first appear; those that never do come last."""
    seen = signs > 0
    first = np.where(seen.any(axis=0), seen.argmax(axis=0), len(signs))
    return np.argsort(first, kind="stable")
