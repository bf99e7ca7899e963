"""Checkpoint schema of topic models: what a file must contain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from everlearn.estimator.labels import LabelSpace
from everlearn.estimator.schemas import LABELS
from everlearn.store.schema import (
    Array,
    Converted,
    Many,
    OneOf,
    Optional,
    Record,
    Scalar,
    Schema,
    expect,
)
from everlearn.text.checkpoint import WORDS
from everlearn.topics.fit import TopicFit, WeightPrior
from everlearn.topics.scale import Scale
from everlearn.topics.state import FixedSpread, Gaussians, TopicState, WordWeights

_CLOSE: Final = 1e-6
"""How well totals must agree with counts, which they do to 1e-9."""
_MOST_MODELS: Final = 100_000
_COUNT: Final = Scalar(int, 0, 2**62)


def _check_gaussians(weights: Gaussians, place: str) -> None:
    precision = weights.precision
    symmetric = np.allclose(precision, precision.transpose(0, 2, 1), rtol=_CLOSE, atol=0)
    definite = symmetric and (np.linalg.eigvalsh(precision)[:, 0] > 0).all()
    expect(definite, f"{place}/precision", "positive-definite matrices")


def _check_words(words: WordWeights, place: str) -> None:
    possible = (words.frequencies <= words.n_documents).all()
    expect(possible, f"{place}/frequencies", "at most the number of documents")


def _check_state(state: TopicState, place: str) -> None:
    k, totals, ids = state.n_topics, state.totals, state.ids
    expect(k > 0, f"{place}/counts", "counts of words in topics")
    close = np.abs(state.counts.sum(axis=0) - totals) <= _CLOSE * (1.0 + totals)
    expect(close.all(), f"{place}/totals", "sums of 'counts'")
    expect(len(np.unique(ids)) == k, f"{place}/ids", "distinct")
    expect(ids.max() < state.next_id, f"{place}/ids", f"below {state.next_id}, which is 'next_id'")


_WEIGHTS: Final = OneOf(
    {
        "fixed": (FixedSpread, Record(FixedSpread, {"mean": Array("tasks", "topics")})),
        "gaussian": (
            Gaussians,
            Record(
                Gaussians,
                {
                    "precision": Array("tasks", "topics", "topics"),
                    "shift": Array("tasks", "topics"),
                },
                _check_gaussians,
            ),
        ),
    }
)
_WORD_WEIGHTS: Final = Record(
    WordWeights,
    {
        "weights": Array("W", "tasks"),
        "frequencies": Array("W", low=0),
        "n_documents": Scalar(float, 0, 2**62),
    },
    _check_words,
)


def _without_room(state: TopicState) -> TopicState:
    """The state without the columns that are kept free for new topics."""
    k = state.n_topics
    return replace(state, counts=state.counts[:, :k], totals=state.totals[:k])


_STATE: Final = Converted(
    Record(
        TopicState,
        {
            "counts": Array("W", "topics", low=0),
            "totals": Array("topics", low=0),
            "ids": Array("topics", dtypes=("int64",), low=0, high=2**62),
            "codes": Array("topics", dtypes=("int64",), low=-1, high=2**31),
            "tables": Array("topics", low=0),
            "weights": Optional(_WEIGHTS),
            "words": Optional(_WORD_WEIGHTS),
            "next_id": Scalar(int, 1, 2**62),
            "clock": _COUNT,
            "seed": _COUNT,
        },
        _check_state,
    ),
    save=_without_room,
    restore=lambda state: state,
)


def _n_tasks(outputs: LabelSpace | Scale | None) -> int:
    if outputs is None:
        return 0
    return outputs.n_tasks if isinstance(outputs, LabelSpace) else 1


def _check_fit(fit: TopicFit[Any], place: str) -> None:
    n_tasks, n_models = _n_tasks(fit.outputs), len(fit.states)
    right = n_models == 1 or n_models == n_tasks
    expect(right, f"{place}/states", f"one, or one for each of {n_tasks} tasks")
    own = n_tasks if n_models == 1 else 1
    for number, state in enumerate(fit.states):
        here, weights = f"{place}/states/{number}", state.weights
        found = 0 if weights is None else weights.n_tasks
        expect(found == own, f"{here}/weights", f"of {own} tasks")
        known = state.codes.max() < max(2, own)
        expect(known, f"{here}/codes", "indices of tasks, or -1")
        kinds = type(weights) is type(fit.states[0].weights)
        expect(kinds, f"{here}/weights", "of one kind in all states")
        words = state.words is not None
        expect(not words or own > 0, f"{here}/words", "null without labels")
        alike = words == (fit.states[0].words is not None)
        expect(alike, f"{here}/words", "there in all states or in none")


_WEIGHT_PRIOR: Final = Record(
    WeightPrior, {"variance": Scalar(float, 0, 1e12), "anchored": Scalar(bool)}
)


def _of_fit(make: Callable[..., TopicFit[Any]], labels: Mapping[str, Schema]) -> Record:
    # The words come first: they set the size W of the counts.
    fields: dict[str, Schema] = {
        "words": WORDS,
        **labels,
        "states": Many(_STATE, own_sizes=("topics", "tasks"), most=_MOST_MODELS),
        "n_documents": _COUNT,
        "n_tokens": _COUNT,
        "n_rounds": _COUNT,
    }
    return Record(make, fields, _check_fit)


TOPIC_MODEL_FIT: Final = _of_fit(partial(TopicFit, outputs=None, weight_prior=None), {})
CLASSIFIER_FIT: Final = _of_fit(TopicFit, {"outputs": LABELS, "weight_prior": _WEIGHT_PRIOR})
_SCALE: Final = Record(
    Scale, {"n": Scalar(int, 0, 2**62), "mean": Scalar(float), "spread": Scalar(float, 0)}
)
REGRESSOR_FIT: Final = _of_fit(TopicFit, {"outputs": _SCALE, "weight_prior": _WEIGHT_PRIOR})
