"""`merge`: models that were learned apart, from different data, become one.

What a model keeps of its data must be a sum for that; where it is, the sum of two models is what
one model would keep of both sets of data. Who belongs to whom is known by permanent ids if the
models began from the same one, and found by the bound or by the evidence otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from everlearn.core.margin import moments
from everlearn.estimators.linear_learning import PassiveAggressive
from everlearn.estimators.merge_checks import (
    ROUNDING,
    check_alike,
    check_grown,
    listed,
    not_descended,
    refused,
    totals,
)
from everlearn.estimators.mixture import DPMixture
from everlearn.estimators.mixture_merging import merged_mixtures
from everlearn.estimators.ppca import OnlinePPCA
from everlearn.estimators.ppca_learning import in_moments, learner_of
from everlearn.estimators.supervised import MedLDAClassifier
from everlearn.estimators.supervised_regression import MedLDARegressor
from everlearn.estimators.topic_merging import merged_topics
from everlearn.estimators.topics import TopicModel
from everlearn.inference.linear import FullBelief, LinearState, settled


def merge(models: Sequence[Any], base: Any = None) -> Any:
    """One model of all the data that several models were learned from.

    Works where what a model keeps is a sum over its data: `DPMixture` unless it is stochastic,
    `TopicModel` and MedLDA models with a given number of topics, the latter with ``loss="gibbs"``,
    `OnlinePPCA` with a constraint on moments, and the linear passive-aggressive models with
    ``loss="gibbs"`` and full covariances. Others are refused.

    Parameters
    ----------
    models : sequence of estimators
        At least two, fitted, of the same class and with the same parameters, features and
        classes.
    base : estimator or None, default=None
        The model that all of them began from, as it was then, if they did: its data count once,
        and components are matched by their permanent ids. Without it they are matched by what
        the bound, or the evidence of the words, gains.

    Returns
    -------
    estimator
        A new one; the models stay as they are. Prior, seed and names are those of the first.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import DPMixture, merge
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 1, (200, 2)) for c in (-9, 0, 9)])
    >>> rng.shuffle(X)
    >>> shards = [DPMixture(random_state=0).fit(part) for part in (X[:300], X[300:])]
    >>> both = merge(shards)
    >>> both.n_components_, both.n_rows_seen_
    (3, 600)
    """
    models = listed(models)
    check_alike(models, base, tuple(_KINDS))
    joined = next(join for kind, join in _KINDS.items() if isinstance(models[0], kind))
    new = clone(models[0])
    new.__dict__.update(models[0].__dict__)
    new._learned = joined(models, base)
    return new


# ------------------------------------------------------------------ components of variance


def _components(models: list[OnlinePPCA], base: OnlinePPCA | None) -> Any:
    first = models[0]
    if base is not None:
        raise ValueError(
            "merge takes no base for OnlinePPCA: moments that were cut to a rank cannot be "
            "subtracted. Learn the shards from the beginning."
        )
    if first.n_mixtures != 1:
        raise refused(first, "n_mixtures", "1")
    if first.constraint is None:
        raise refused(first, "constraint", "'step' or 'task'")
    if not in_moments(first):
        raise refused(first, "solver", "'moment'")
    if first.constraint_weight != "count":
        raise refused(first, "constraint_weight", "'count'")
    learner, states = learner_of(first), [m._learned.state for m in models]

    def joined(parts: list[Any]) -> tuple[Any, ...]:
        whole = [part[0] for part in parts if part]
        return (sum(whole[1:], whole[0]).truncated(learner.kept_rank),) if whole else ()

    reference, window = (joined([getattr(s, n) for s in states]) for n in ("reference", "window"))
    (both,) = joined([window, reference])
    state = replace(
        states[0],
        models=(both.ppca(learner.rank),),
        reference=reference,
        window=window,
        clock=sum(s.clock for s in states),
        n_rows=sum(s.n_rows for s in states),
        since=sum(s.since for s in states),
        count=sum(s.count for s in states),
    )
    return replace(models[0]._learned, state=state)


# ------------------------------------------------------------------ linear models


def _linear(models: list[Any], base: Any) -> Any:
    first = models[0]
    if first.loss != "gibbs":
        raise refused(first, "loss", "'gibbs'")
    learned = [model._learned for model in models]
    if not isinstance(learned[0].state.belief, FullBelief):
        raise refused(first, "covariance", "'full'")
    shapes = sorted({x.state.mean.shape for x in learned})
    if len(shapes) > 1:
        raise ValueError(f"merge needs models of as many targets. Got weights of {shapes}.")
    beliefs = [x.state.belief for x in learned]
    old = None if base is None else base._learned.state
    if old is not None:
        _check_beliefs([x.state for x in learned], old)
    begun = np.zeros_like(beliefs[0].shift) if old is None else old.belief.shift
    unit = np.broadcast_to(np.eye(begun.shape[1]) / first.variance, beliefs[0].precision.shape)
    prior = unit if old is None else old.belief.precision
    precision = totals([b.precision for b in beliefs], prior)
    shift = totals([b.shift for b in beliefs], begun)
    mean, covariance = moments(precision, shift)
    state = replace(
        learned[0].state,
        mean=settled(mean),
        belief=FullBelief(precision, shift, covariance),
        n_rows=totals([x.state.n_rows for x in learned], old and old.n_rows),
        clock=totals([x.state.clock for x in learned], old and old.clock),
    )
    return replace(learned[0], state=state)


def _check_beliefs(states: list[LinearState], base: LinearState) -> None:
    """Refuse a base of which a model is no continuation: rows only add to the precision."""
    begun: Any = base.belief
    for position, state in enumerate(states):
        own: Any = state.belief
        seen = ({"seed": s.seed, "rows": s.n_rows, "batches": s.clock} for s in (state, base))
        check_grown(position, *seen)
        gained = np.linalg.eigvalsh(own.precision - begun.precision)
        if (gained < -ROUNDING * np.abs(own.precision).max()).any():
            raise not_descended(position, "it is less sure of some weights than the base")


_KINDS: dict[type, Any] = {
    DPMixture: merged_mixtures,
    TopicModel: merged_topics,
    MedLDAClassifier: merged_topics,
    MedLDARegressor: merged_topics,
    OnlinePPCA: _components,
    PassiveAggressive: _linear,
}
