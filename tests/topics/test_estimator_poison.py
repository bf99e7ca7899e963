"""Whatever is thrown at a topic model, it says what is wrong and stays, bit for bit, as it was."""

from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from everlearn.errors import TopicCollapseWarning
from everlearn.topics import fit as topic_fit
from support.corpora import (
    BATCH,
    CLASSIFIERS,
    FITTED,
    LABELS,
    N_WORDS,
    NAMES,
    TEXTS,
    TOKENS,
    X,
    assert_same,
    content,
    model_of,
    targets_of,
    teach,
)
from support.streams import file_of

ROWS = slice(0, 3 * BATCH)
every = pytest.mark.parametrize("name", FITTED)


class Poison(NamedTuple):
    """How good documents are spoilt, and words that the refusal must have."""

    spoil: Callable[[Any], Any]
    words: tuple[str, ...]


def with_entry(value: Any, dtype: Any = float) -> Callable[[Any], np.ndarray]:
    def spoil(x: Any) -> np.ndarray:
        spoilt = x.toarray().astype(dtype)
        spoilt[-1, -1] = value
        return spoilt

    return spoil


def sparse_entry(value: float) -> Callable[[Any], Any]:
    return lambda x: sparse.csr_array(with_entry(value)(x))


COUNTS = {
    "nan": Poison(with_entry(np.nan), ("NaN",)),
    "inf": Poison(with_entry(np.inf), ("infinity",)),
    "minus inf": Poison(with_entry(-np.inf), ("infinity",)),
    "huge": Poison(with_entry(1e300), ("2**31 - 1", "1e+300")),
    "larger than a count": Poison(with_entry(2.0**31), ("2**31 - 1",)),
    "negative": Poison(with_entry(-3.0), ("Negative",)),
    "fraction": Poison(with_entry(0.5), ("whole numbers", "0.5")),
    "sparse nan": Poison(sparse_entry(np.nan), ("NaN",)),
    "sparse negative": Poison(sparse_entry(-3.0), ("Negative",)),
    "sparse fraction": Poison(sparse_entry(2.5), ("whole numbers", "2.5")),
    "sparse huge": Poison(sparse_entry(1e300), ("1e+300",)),
    "too wide": Poison(lambda x: sparse.hstack([x, x]), (f"{2 * N_WORDS} features",)),
    "too narrow": Poison(lambda x: x[:, 1:], (f"{N_WORDS - 1} features", f"{N_WORDS} features")),
    "no columns": Poison(lambda x: x.toarray()[:, :0], ("0 feature(s)",)),
    "no rows": Poison(lambda x: x[:0], ("0 sample(s)",)),
    "no documents": Poison(lambda x: [], ("X",)),
    "one dimension": Poison(lambda x: x.toarray()[0], ("X",)),
    "three dimensions": Poison(lambda x: x.toarray()[None], ("dim 3",)),
    "a number": Poison(lambda x: 7.0, ("scalar array",)),
    "nothing": Poison(lambda x: None, ("X",)),
    "ragged": Poison(lambda x: [*x.toarray().tolist(), [1]], ("X",)),
    "texts": Poison(lambda x: TEXTS[: x.shape[0]], ("table of counts", "strings")),
    "tokens": Poison(lambda x: TOKENS[: x.shape[0]], ("table of counts", "strings")),
    "one text": Poison(lambda x: "a text", ("one str",)),
    "bytes": Poison(lambda x: x.toarray().astype("S8"), ("X",)),
    "one bytes": Poison(lambda x: b"a text", ("one bytes",)),
    "words": Poison(with_entry("a lot", object), ("a lot",)),
    "objects": Poison(with_entry(object(), object), ("object",)),
    "complex": Poison(with_entry(1j, complex), ("omplex",)),
    "dates": Poison(lambda x: np.full(x.shape, "2020-01-01", "M8[D]"), ("X",)),
    "a mapping": Poison(lambda x: {"X": x}, ("2D array",)),
    "a frame of text": Poison(lambda x: pd.DataFrame([["no"] * N_WORDS] * 3), ("'no'",)),
}
DOCUMENTS = {
    "counts": Poison(lambda docs: X[: len(docs)], ("strings or lists of strings",)),
    "bytes": Poison(lambda docs: [*docs, b"bytes"], ("document",)),
    "only bytes": Poison(lambda docs: [b"bytes"] * len(docs), ("X",)),
    "nothing": Poison(lambda docs: [*docs, None], ("document",)),
    "a number": Poison(lambda docs: [*docs, 7], ("document",)),
    "no documents": Poison(lambda docs: [], ("at least one document",)),
    "one text": Poison(lambda docs: "a text", ("one str",)),
    "one bytes": Poison(lambda docs: b"a text", ("one bytes",)),
    "word numbers": Poison(lambda docs: [np.array([1, 2]), np.array([1])], ("word numbers",)),
    "a word that is a number": Poison(
        lambda docs: [["a", "b"], ["c", 3]], ("a token of document 1",)
    ),
    "words that are bytes": Poison(lambda docs: [["a", "b"], [b"c"]], ("a token of document 1",)),
    "a set": Poison(lambda docs: [["a"], {"b"}], ("document 1",)),
    "mixed forms": Poison(lambda docs: [*docs, ["a", "b"]], ("document",)),
    "mixed forms, tokens first": Poison(lambda docs: [["a", "b"], *docs], ("document 1",)),
}
TARGETS: dict[str, Poison] = {
    "too few": Poison(lambda y: y[:-1], ("expected", str(3 * BATCH - 1))),
    "too many": Poison(lambda y: np.append(y, y[:1]), ("expected", str(3 * BATCH + 1))),
    "none": Poison(lambda y: None, ("requires y",)),
    "nan": Poison(lambda y: np.where(np.arange(len(y)) == 5, np.nan, 0.0), ("NaN",)),
    "inf": Poison(lambda y: np.where(np.arange(len(y)) == 5, np.inf, 0.0), ("infinity",)),
    "another label": Poison(lambda y: np.where(np.arange(len(y)) == 5, "larch", y), ("larch",)),
    "objects": Poison(lambda y: [object()] * len(y), ("object",)),
    "two columns": Poison(lambda y: np.ones((len(y), 2)), ("y",)),
    "bytes": Poison(lambda y: np.array([b"ash"] * len(y)), ("y",)),
    "a mapping": Poison(lambda y: {"y": y}, ("y",)),
}


@pytest.fixture(scope="module")
def taught() -> Callable[..., Any]:
    """A model of each kind that has learned a little; nothing that is refused changes it."""
    models: dict[Any, Any] = {}

    def model(name: str, documents: Any = X) -> Any:
        key = name, id(documents)
        if key not in models:
            models[key] = teach(model_of(name), name, ROWS, documents)
        return models[key]

    return model


def assert_refused(model: Any, call: Callable[[], Any], words: tuple[str, ...]) -> None:
    before, attributes = content(model), dict(model.__dict__)
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    message = str(caught.value)
    assert type(model).__name__ in message, message
    for word in words:
        assert word in message, message
    assert_same(content(model), before)
    assert model.__dict__ == attributes


@every
@pytest.mark.parametrize("poison", COUNTS)
def test_bad_counts_are_refused(taught: Any, name: str, poison: str) -> None:
    model, y = taught(name), targets_of(name)
    y = None if y is None else y[ROWS]
    spoil, words = COUNTS[poison]
    bad = spoil(X[ROWS])
    assert_refused(model, lambda: model.partial_fit(bad, y), words)
    assert_refused(model, lambda: model.transform(bad), words)
    if poison not in {"too wide", "too narrow", "texts", "tokens", "ragged"}:  # a new fit may
        assert_refused(model, lambda: model.fit(bad, y), ())


@pytest.mark.parametrize("name", ["lda", "averaging, words", "born", "number"])
@pytest.mark.parametrize("poison", DOCUMENTS)
def test_bad_documents_are_refused(taught: Any, name: str, poison: str) -> None:
    model, y = taught(name, TEXTS), targets_of(name)
    spoil, words = DOCUMENTS[poison]
    bad = spoil(TEXTS[ROWS])
    y = None if y is None else y[: bad.shape[0] if hasattr(bad, "shape") else len(bad)]
    assert_refused(model, lambda: model.partial_fit(bad, y), words)
    assert_refused(model, lambda: model.transform(bad), words)


@pytest.mark.parametrize("name", [name for name in FITTED if targets_of(name) is not None])
@pytest.mark.parametrize("poison", TARGETS)
def test_bad_targets_are_refused(taught: Any, name: str, poison: str) -> None:
    model = taught(name)
    spoil, words = TARGETS[poison]
    bad = spoil(targets_of(name)[ROWS])
    assert_refused(model, lambda: model.partial_fit(X[ROWS], bad), words)


def test_bad_words_do_not_enter_the_vocabulary(taught: Any) -> None:
    """A refused batch has words that were new; they are as unknown as before."""
    model = taught("averaging, words", TEXTS)
    known = model.vocabulary_.tolist()
    assert_refused(model, lambda: model.partial_fit(["brandnew word00"], ["larch"]), ("larch",))
    assert model.vocabulary_.tolist() == known


# Failures in the middle


class Halt(BaseException):
    """Something that no handler expects."""


@every
@pytest.mark.parametrize(
    ("error", "after", "documents"),
    [
        pytest.param(ValueError, False, X, id="error"),
        pytest.param(Halt, True, X, id="halt after"),
        pytest.param(KeyboardInterrupt, False, TEXTS, id="interrupt, new words"),
        pytest.param(KeyboardInterrupt, True, TEXTS, id="interrupt after, new words"),
        pytest.param(KeyboardInterrupt, True, X, id="interrupt after"),
    ],
)
def test_a_failure_in_the_middle_is_undone(
    name: str,
    error: type[BaseException],
    after: bool,
    documents: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second batch fails, before or after it has changed counts in place."""
    model = teach(model_of(name), name, slice(0, 2 * BATCH), documents)
    before = content(model)
    real, calls = topic_fit.learn_batch, 0
    fatal = 6 if "ovr" in name else 2  # four states a batch, the second of which is in its midst

    def fail(*args: Any, **known: int) -> Any:
        nonlocal calls
        calls += 1
        if calls == fatal and not after:
            raise error("stop")
        learned = real(*args, **known)
        if calls == fatal:
            raise error("stop")
        return learned

    monkeypatch.setattr(topic_fit, "learn_batch", fail)
    more = slice(2 * BATCH, 5 * BATCH)
    new = [f"{text} brandnew" for text in TEXTS] if documents is TEXTS else X
    with pytest.raises(error, match="stop"):
        teach(model, name, more, new)
    assert calls == fatal
    assert_same(content(model), before)
    calls, y = 0, targets_of(name)
    with pytest.raises(error, match="stop"):
        model.fit(new[more], None if y is None else y[more])
    assert_same(content(model), before)
    monkeypatch.undo()
    # And it goes on as if nothing had happened.
    teach(model, name, more, documents)
    untouched = teach(model_of(name), name, slice(0, 2 * BATCH), documents)
    assert_same(content(model), content(teach(untouched, name, more, documents)))


def with_new_words(i: int) -> list[str]:
    """The documents of a batch, each with a word of its own that no other batch has."""
    return [f"{text} new{i}x{j}" for j, text in enumerate(TEXTS[i * BATCH : (i + 1) * BATCH])]


def take(model: Any, name: str, i: int, texts: list[str]) -> Any:
    y = targets_of(name)
    first = {"classes": NAMES} if name in CLASSIFIERS else {}
    asked = None if y is None else y[i * BATCH : (i + 1) * BATCH]
    return model.partial_fit(texts, asked, **first)


@every
def test_words_that_come_into_room_behind_the_others(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits as in tables that are copied for every new word, also after a failure."""
    model, copied = model_of(name), model_of(name)
    real = topic_fit.learn_batch

    def fail(*args: Any, **named: Any) -> Any:
        real(*args, **named)
        raise KeyboardInterrupt

    for i in range(6):
        if i > 2:  # by now there is room, into which a call puts words and counts, and fails
            before, lost = content(model), [f"{text} lost" for text in with_new_words(i)]
            monkeypatch.setattr(topic_fit, "learn_batch", fail)
            with pytest.raises(KeyboardInterrupt):
                take(model, name, i, lost)
            monkeypatch.undo()
            assert_same(content(model), before)
        take(model, name, i, with_new_words(i))
        copied = take(deepcopy(copied), name, i, with_new_words(i))
        assert_same(content(model), content(copied))
    assert len(file_of(model)) == len(file_of(copied))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_failure_at_the_first_call_leaves_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(name)
    params = dict(model.__dict__)

    def fail(*args: Any, **known: int) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(topic_fit, "learn_batch", fail)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, LABELS, classes=NAMES)
    assert model.__dict__ == params
    monkeypatch.undo()
    model.partial_fit(X, LABELS, classes=NAMES)


def test_a_warning_that_is_an_error_is_undone(taught: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings come after a batch has been learned, and may be made errors by the user."""
    model = taught("averaging, words")
    before = content(model)
    monkeypatch.setattr("everlearn.topics.collapse._COLLAPSED", 0.0)
    monkeypatch.setattr("everlearn.topics.collapse._FIRST_BATCHES", 0)
    with pytest.raises(TopicCollapseWarning, match="MedLDAClassifier has put"):
        model.partial_fit(X, LABELS)
    assert_same(content(model), before)


@pytest.mark.parametrize("name", ["averaging", "gibbs, ovr", "born, words", "hdp"])
def test_documents_are_not_kept(name: str) -> None:
    """What was learned from may be changed afterwards."""
    table, y = X.toarray(), targets_of(name)
    y = None if y is None else y.copy()
    model = model_of(name).fit(table, y)
    before = content(model)
    table[:] = 7
    if y is not None:
        y[:] = "oak"
    assert_same(content(model), before)


@pytest.mark.parametrize(
    ("causes", "told"),
    [
        ([KeyboardInterrupt, SystemError], KeyboardInterrupt),
        ([KeyboardInterrupt, SystemError, SystemError], KeyboardInterrupt),
        ([ValueError, SystemError], SystemError),
        ([KeyboardInterrupt, ValueError], ValueError),
        ([SystemError], SystemError),
    ],
)
def test_an_interrupt_is_told_as_one(
    causes: list[type[BaseException]],
    told: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compiled functions may tell of it as an error of the interpreter, once or twice."""
    model = teach(model_of("averaging"), "averaging", slice(0, BATCH))
    before = content(model)
    chain = [cause("stop") for cause in causes]
    for cause, error in pairwise(chain):
        error.__cause__ = cause

    def fail(*args: Any, **known: int) -> Any:
        raise chain[-1]

    monkeypatch.setattr(topic_fit, "learn_batch", fail)
    with pytest.raises(told):
        teach(model, "averaging", slice(BATCH, 2 * BATCH))
    assert_same(content(model), before)
