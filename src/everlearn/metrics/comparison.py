"""Which of two models predicts rows better, and how sure that is."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from everlearn.core.arrays import Vec


class RowScorer(Protocol):
    """A fitted model that scores rows or documents one by one; higher is better."""

    def score_samples(self, X: Any) -> Vec:
        """The score of each row."""


class Comparison(NamedTuple):
    """How much better the first model is, per row.

    Attributes
    ----------
    difference : mean score of the first model minus that of the second; above 0 the first is better
    standard_error : of the difference, from how much it varies between rows
    n : number of rows
    """

    difference: float
    standard_error: float
    n: int

    def __str__(self) -> str:
        return f"{self.difference:+.4g} ± {self.standard_error:.2g} per row ({self.n:,} rows)"


def compare(a: RowScorer, b: RowScorer, X: Any) -> Comparison:
    """The mean difference of two models' scores on the same rows, with its standard error.

    Rows must be new to both models. Each document counts once, whatever its length: topic models
    score it in nats per held-out word. A difference of more than two standard errors is unlikely
    to be chance. Densities compare only if both models see the same columns in the same units.

    Parameters
    ----------
    a, b : fitted models with `score_samples`
        Such as `DPMixture`, `OnlinePPCA`, `TopicModel`, or scikit-learn's `GaussianMixture`.
    X : rows or documents
        At least two, in a form that both models take.

    Returns
    -------
    comparison : Comparison
        `difference`, `standard_error` and `n`.

    Examples
    --------
    >>> from everlearn import DPMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 1, (300, 2)) for c in (-5, 5)])
    >>> two = DPMixture(random_state=0).fit(X[::2])
    >>> one = DPMixture(random_state=0, max_components=1).fit(X[::2])
    >>> found = compare(two, one, X[1::2])
    >>> found.difference > 2 * found.standard_error
    True
    """
    scores = []
    for name, model in (("a", a), ("b", b)):
        if not callable(getattr(model, "score_samples", None)):
            raise TypeError(
                f"{name!r} of compare must be a fitted model with score_samples, got "
                f"{type(model).__name__}"
            )
        scores.append(np.asarray(model.score_samples(X), np.float64))
    first, second = scores
    if first.shape != second.shape or first.ndim != 1 or len(first) < 2:
        raise ValueError(
            "compare needs one score of each of at least 2 rows from both models, got arrays of "
            f"shape {first.shape} and {second.shape}"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("compare needs finite scores: a model gives a row no probability at all")
    apart = first - second
    error = float(apart.std(ddof=1)) / math.sqrt(len(apart))
    return Comparison(float(apart.mean()), error, len(apart))
