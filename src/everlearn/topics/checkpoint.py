"""Topic models as JSON and arrays, and back again."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import CheckpointError
from everlearn.estimator.saving import checked_names, feature_names, plain_params
from everlearn.store.schema import Arrays, entry, member, require, section
from everlearn.text.inputs import pack_words, text_options, unpack_words
from everlearn.text.vocabulary import Vocabulary
from everlearn.topics.estimator import Learned, TopicEstimator
from everlearn.topics.state import FixedSpread, Gaussians, TopicState, WordWeights

T = TypeVar("T")
_STATE_KEYS = ("next_id", "clock", "seed", "weights", "n_word_documents")
_HEADER_KEYS = frozenset(
    (
        "params",
        "states",
        "words",
        "outputs",
        "n_documents",
        "n_tokens",
        "n_rounds",
        "feature_names",
    )
)
_ACCURACY = 1e-6
"""How well totals must agree with counts, which they do to 1e-9."""
_MOST_STATES = 100_000


def pack_topics(state: TopicState, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A state as a header and arrays, whose names begin with `name`.

    What learners change in place is copied, so that the arrays stay what they are.
    """
    k = state.n_topics
    arrays: dict[str, NDArray[Any]] = {
        "counts": state.counts[:, :k].copy(),
        "totals": state.totals[:k].copy(),
        "ids": state.ids,
        "codes": state.codes,
        "tables": state.tables,
    }
    kind = None
    if isinstance(state.weights, FixedSpread):
        kind = "fixed"
        arrays["means"] = state.weights.mean
    elif isinstance(state.weights, Gaussians):
        kind = "gaussian"
        arrays |= {"precision": state.weights.precision, "shift": state.weights.shift}
    if state.words is not None:
        words = state.words
        arrays["word_weights"] = words.weights.copy()
        arrays["word_frequencies"] = words.frequencies.copy()
    header = {
        "next_id": state.next_id,
        "clock": state.clock,
        "seed": state.seed,
        "weights": kind,
        "n_word_documents": None if state.words is None else state.words.n_documents,
    }
    return header, {f"{name}/{key}": array for key, array in arrays.items()}


def unpack_topics(header: Any, arrays: Arrays, name: str, n_words: int, n_tasks: int) -> TopicState:
    """Inverse of `pack_topics`; whatever could not have been packed is refused."""
    counts = member(arrays, f"{name}/counts", (n_words, None), "float64")
    k = counts.shape[1]
    require(k > 0 and (counts >= 0).all(), f"{name}/counts", "counts of words in topics")
    totals = member(arrays, f"{name}/totals", (k,), "float64")
    close = np.abs(counts.sum(axis=0) - totals) <= _ACCURACY * (1.0 + totals)
    require((totals >= 0).all() and close.all(), f"{name}/totals", "sums of 'counts'")
    next_id = entry(header, "next_id", int, k, 2**62)
    ids = member(arrays, f"{name}/ids", (k,), "int64")
    distinct = len(np.unique(ids)) == k and ids.min() >= 0 and ids.max() < next_id
    require(distinct, f"{name}/ids", f"distinct numbers below {next_id}")
    codes = member(arrays, f"{name}/codes", (k,), "int64")
    known = codes.min() >= -1 and codes.max() < max(2, n_tasks)
    require(known, f"{name}/codes", "numbers of tasks, or -1")
    tables = member(arrays, f"{name}/tables", (k,), "float64")
    require((tables >= 0).all(), f"{name}/tables", "numbers of tables")
    return TopicState(
        counts=counts,
        totals=totals,
        ids=ids,
        codes=codes,
        tables=tables,
        weights=_unpack_weights(header, arrays, name, (n_tasks, k)),
        words=_unpack_words(header, arrays, name, (n_words, n_tasks)),
        next_id=next_id,
        clock=entry(header, "clock", int, 0, 2**62),
        seed=entry(header, "seed", int, 0, 2**62),
    )


def _unpack_weights(
    header: Any, arrays: Arrays, name: str, shape: tuple[int, int]
) -> FixedSpread | Gaussians | None:
    kind = header["weights"]
    if kind == "fixed":
        return FixedSpread(member(arrays, f"{name}/means", shape, "float64"))
    if kind == "gaussian":
        precision = member(arrays, f"{name}/precision", (*shape, shape[1]), "float64")
        symmetric = np.allclose(precision, precision.transpose(0, 2, 1), rtol=_ACCURACY, atol=0)
        definite = symmetric and (np.linalg.eigvalsh(precision)[:, 0] > 0).all()
        require(definite, f"{name}/precision", "positive-definite matrices")
        return Gaussians(precision, member(arrays, f"{name}/shift", shape, "float64"))
    if kind is not None or shape[0] > 0:
        raise CheckpointError("the header's 'weights' must be 'fixed', 'gaussian' or nothing")
    return None


def _unpack_words(
    header: Any, arrays: Arrays, name: str, shape: tuple[int, int]
) -> WordWeights | None:
    if header["n_word_documents"] is None:
        return None
    n_documents = entry(header, "n_word_documents", float, 0.0, 2.0**62)
    weights = member(arrays, f"{name}/word_weights", shape, "float64")
    frequencies = member(arrays, f"{name}/word_frequencies", shape[:1], "float64")
    possible = (frequencies >= 0).all() and (frequencies <= n_documents).all()
    require(possible, f"{name}/word_frequencies", "numbers of documents")
    return WordWeights(weights, frequencies, n_documents)


class TopicCheckpoint(TopicEstimator[T]):
    """A topic estimator that can be saved and loaded."""

    @abstractmethod
    def _pack_outputs(self, outputs: T) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Targets as JSON and arrays."""

    @classmethod
    @abstractmethod
    def _unpack_outputs(cls, header: Any, arrays: Arrays) -> T:
        """Inverse of `_pack_outputs`."""

    @abstractmethod
    def _n_tasks(self, outputs: T) -> int:
        """Binary tasks, or numbers to predict."""

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted estimator as JSON and arrays; `save` writes them."""
        learned = self._fitted()
        self._check_params()
        self._current(learned)
        words, arrays = pack_words(learned.words)
        outputs, more = self._pack_outputs(learned.outputs)
        arrays |= more
        states = []
        for number, state in enumerate(learned.states):
            header, members = pack_topics(state, f"state{number}")
            states.append(header)
            arrays |= members
        params = self.get_params(deep=False)
        if params["text"] is not None:
            params["text"] = text_options(self)
        if params["options"] is not None:
            params["options"] = self._sampler()
        if params["vocabulary"] is not None:
            params["vocabulary"] = list(Vocabulary.fixed(params["vocabulary"]).words)
        return {
            "params": plain_params(params, learned.states[0].seed),
            "states": states,
            "words": words,
            "outputs": outputs,
            "n_documents": learned.n_documents,
            "n_tokens": learned.n_tokens,
            "n_rounds": learned.n_rounds,
            "feature_names": feature_names(self),
        }, arrays

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        if wrong := sorted((set(header) - {"estimator"}) ^ _HEADER_KEYS):
            verb = "lacks" if wrong[0] in _HEADER_KEYS else "must not have"
            raise CheckpointError(f"the header {verb} {wrong[0]!r}")
        estimator = cls(**section(header, "params", inspect.signature(cls).parameters))
        try:
            estimator.text = None if estimator.text is None else text_options(estimator)
            estimator.options = None if estimator.options is None else estimator._sampler()
            estimator._check_params()
        except (OverflowError, TypeError, ValueError) as error:
            raise CheckpointError(f"the header's 'params': {error}") from error
        words = unpack_words(header, arrays)
        outputs = cls._unpack_outputs(header, arrays)
        parts = entry(header, "states", list)
        n_tasks = estimator._n_tasks(outputs)
        if len(parts) != 1 and (len(parts) != n_tasks or len(parts) > _MOST_STATES):
            raise CheckpointError(
                f"the header's 'states' must be one, or one for each of {n_tasks}"
            )
        own = n_tasks if len(parts) == 1 else 1
        states = tuple(
            unpack_topics(
                section({"state": part}, "state", _STATE_KEYS),
                arrays,
                f"state{number}",
                words.n_words,
                own,
            )
            for number, part in enumerate(parts)
        )
        estimator._learned = Learned(
            states,
            words,
            outputs,
            estimator._learner(outputs, states[0].n_topics).loss,
            entry(header, "n_documents", int, 0, 2**62),
            entry(header, "n_tokens", int, 0, 2**62),
            entry(header, "n_rounds", int, 0, 2**62),
        )
        try:
            estimator._current(estimator._learned)
        except ValueError as error:
            raise CheckpointError(f"the header's 'params': {error}") from error
        if words.kind == "counts":
            estimator.n_features_in_ = words.n_words
        names = header["feature_names"]
        if names is not None:
            estimator.feature_names_in_ = checked_names(names, words.n_words)
        if unknown := sorted(set(arrays) - set(estimator.to_checkpoint()[1])):
            raise CheckpointError(f"member {unknown[0]!r} belongs to nothing in the header")
        return estimator
