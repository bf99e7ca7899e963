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
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln
from sklearn.base import clone

from everlearn.core.arrays import IntVec, Mat
from everlearn.core.margin import moments
from everlearn.estimators.documents import WordSpace
from everlearn.estimators.linear_learning import PassiveAggressive
from everlearn.estimators.mixture import DPMixture
from everlearn.estimators.mixture_merging import merged_mixtures
from everlearn.estimators.ppca import OnlinePPCA
from everlearn.estimators.ppca_learning import in_moments, learner_of
from everlearn.estimators.topics import TopicModel
from everlearn.features.vocabulary import Vocabulary
from everlearn.inference.linear import FullBelief, settled

_NOT_COMPARED = {"engine", "random_state", "verbose"}


def merge(models: Sequence[Any], base: Any = None) -> Any:
    """One model of all the data that several models were learned from.

    Works where what a model keeps is a sum over its data: `DPMixture` (memoized), `TopicModel`
    with a given number of topics, `OnlinePPCA` with a constraint on moments, and the linear
    passive-aggressive models with ``loss="gibbs"`` and full covariances. Others are refused.

    Parameters
    ----------
    models : sequence of estimators
        At least two, fitted, of the same class and with the same parameters.
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
    models = list(models)
    _check_alike(models, base)
    for kind, joined in _KINDS.items():
        if isinstance(models[0], kind):
            new = clone(models[0])
            new.__dict__.update(models[0].__dict__)
            new._learned = joined(models, base)
            return new
    known = ", ".join(kind.__name__ for kind in _KINDS if kind is not PassiveAggressive)
    raise TypeError(
        f"merge cannot join {type(models[0]).__name__}: what it keeps is no sum over its data. "
        f"It joins {known}, and linear passive-aggressive models."
    )


def _check_alike(models: list[Any], base: Any) -> None:
    """Refuse models that are not of one kind, or whose parameters differ."""
    if len(models) < 2:
        raise ValueError(f"merge needs at least two models. Got {len(models)}.")
    first, every = models[0], [*models, *([] if base is None else [base])]
    for model in every:
        if type(model) is not type(first):
            raise TypeError(
                f"merge needs models of one class. Got {type(first).__name__} and "
                f"{type(model).__name__}."
            )
        if not hasattr(model, "_learned"):
            raise ValueError(f"merge needs fitted models. Got a {type(model).__name__} that is not")
        params, own = first.get_params(deep=False), model.get_params(deep=False)
        for name in sorted(set(params) - _NOT_COMPARED):
            if not _same(params[name], own[name]):
                raise ValueError(
                    f"merge needs models with the same parameters. Got {name!r} of "
                    f"{params[name]!r:.60} and {own[name]!r:.60}."
                )


def _same(one: Any, two: Any) -> bool:
    try:
        return bool(np.all(one == two))
    except ValueError:
        return False


def _refused(model: Any, parameter: str, needed: str) -> ValueError:
    return ValueError(
        f"merge can join {type(model).__name__} only with {parameter}={needed}: otherwise what it "
        f"keeps is no sum over its data. Got {getattr(model, parameter)!r}."
    )


def _totals(parts: list[Any], base: Any) -> Any:
    """The sum of parts, in each of which the base is contained."""
    whole = sum(parts[1:], parts[0])
    return whole if base is None else whole - (len(parts) - 1) * base


# ------------------------------------------------------------------ topics


def _topics(models: list[TopicModel], base: TopicModel | None) -> Any:
    first = models[0]
    if first.n_topics == "infer":
        raise _refused(first, "n_topics", "a number")
    if first.retention != 1.0:
        raise _refused(first, "retention", "1.0")
    every = [*models, *([] if base is None else [base])]
    words, tables = _same_words([(m._learned.words, _counts(m)) for m in every])
    begun = None if base is None else tables.pop()
    if begun is None:
        tables = _matched(tables, first.word_prior)
    counts = np.maximum(_totals(tables, begun), 0.0)
    learned = [m._learned for m in models]
    old = None if base is None else base._learned
    state = replace(
        learned[0].states[0],
        counts=counts,
        totals=counts.sum(axis=0),
        clock=_totals([x.states[0].clock for x in learned], old and old.states[0].clock),
    )
    return replace(
        learned[0],
        states=(state,),
        words=words,
        n_documents=_totals([x.n_documents for x in learned], old and old.n_documents),
        n_tokens=_totals([x.n_tokens for x in learned], old and old.n_tokens),
    )


def _counts(model: TopicModel) -> Mat:
    state = model._learned.states[0]
    return state.counts[:, : state.n_topics]


def _same_words(given: list[tuple[WordSpace, Mat]]) -> tuple[WordSpace, list[Mat]]:
    """One word space, and the counts over it."""
    spaces = [space for space, _ in given]
    if len({space.kind for space in spaces}) > 1:
        raise ValueError(
            f"merge needs models of the same kind of documents. Got {[s.kind for s in spaces]}."
        )
    vocabulary: Vocabulary | None = spaces[0].vocabulary
    places: list[IntVec] = [np.arange(space.n_words) for space in spaces]
    if vocabulary is not None:
        for i, space in enumerate(spaces):
            own = [] if space.vocabulary is None else space.vocabulary.words
            vocabulary, _ = vocabulary.encode([own])
            if any(word not in vocabulary.columns for word in own):
                raise ValueError(
                    f"merge cannot join vocabularies of more than max_words={vocabulary.max_words}."
                )
            places[i] = np.array([vocabulary.columns[word] for word in own], np.int64)
    n_words = len(vocabulary) if vocabulary is not None else max(s.n_words for s in spaces)
    tables = []
    for (_, counts), place in zip(given, places, strict=True):
        table = np.zeros((n_words, counts.shape[1]))
        table[place] = counts[: len(place)]
        tables.append(table)
    return replace(spaces[0], n_words=n_words, vocabulary=vocabulary), tables


def _matched(tables: list[Mat], prior: float) -> list[Mat]:
    """Counts whose topics are in the order of the first: each joins the one that gains most."""
    whole, found = tables[0], [tables[0]]
    for table in tables[1:]:
        gains = np.array(
            [[_evidence(a + b, prior) for b in table.T] for a in whole.T]
        )  # what the two have apart is the same in any matching
        gains -= np.array([_evidence(a, prior) for a in whole.T])[:, None]
        gains -= np.array([_evidence(b, prior) for b in table.T])
        order = linear_sum_assignment(gains, maximize=True)[1]
        found.append(table[:, order])
        whole = whole + found[-1]
    return found


def _evidence(counts: Any, prior: float) -> float:
    """Log probability of the words of one topic, whose distribution is integrated out."""
    seen = counts[counts > 0]
    words = gammaln(seen + prior).sum() - len(seen) * gammaln(prior)
    width = len(counts) * prior
    return float(words + gammaln(width) - gammaln(counts.sum() + width))


# ------------------------------------------------------------------ components of variance


def _components(models: list[OnlinePPCA], base: OnlinePPCA | None) -> Any:
    first = models[0]
    if base is not None:
        raise ValueError(
            "merge takes no base for OnlinePPCA: moments that were cut to a rank cannot be "
            "subtracted. Learn the shards from the beginning."
        )
    if first.n_mixtures != 1:
        raise _refused(first, "n_mixtures", "1")
    if first.constraint is None:
        raise _refused(first, "constraint", "'step' or 'task'")
    if not in_moments(first):
        raise _refused(first, "solver", "'moment'")
    if first.constraint_weight != "count":
        raise _refused(first, "constraint_weight", "'count'")
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
        raise _refused(first, "loss", "'gibbs'")
    learned = [model._learned for model in models]
    if not isinstance(learned[0].state.belief, FullBelief):
        raise _refused(first, "covariance", "'full'")
    for other in learned[1:]:
        if other.state.mean.shape != learned[0].state.mean.shape:
            raise ValueError("merge needs models of the same classes and features.")
    beliefs = [x.state.belief for x in learned]
    old = None if base is None else base._learned.state
    begun = np.zeros_like(beliefs[0].shift) if old is None else old.belief.shift
    unit = np.broadcast_to(np.eye(begun.shape[1]) / first.variance, beliefs[0].precision.shape)
    prior = unit if old is None else old.belief.precision
    precision = _totals([b.precision for b in beliefs], prior)
    shift = _totals([b.shift for b in beliefs], begun)
    mean, covariance = moments(precision, shift)
    state = replace(
        learned[0].state,
        mean=settled(mean),
        belief=FullBelief(precision, shift, covariance),
        n_rows=_totals([x.state.n_rows for x in learned], old and old.n_rows),
        clock=_totals([x.state.clock for x in learned], old and old.clock),
    )
    return replace(learned[0], state=state)


_KINDS: dict[type, Any] = {
    DPMixture: merged_mixtures,
    TopicModel: _topics,
    OnlinePPCA: _components,
    PassiveAggressive: _linear,
}
