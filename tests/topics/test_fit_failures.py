"""A call of `fit` or `partial_fit` that fails leaves a topic model, bit for bit, as it was."""

from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest

from everlearn.errors import TopicCollapseWarning
from everlearn.topics import fit as topic_fit
from support.corpora import (
    BATCH,
    CLASSIFIERS,
    FITTED,
    LABELS,
    NAMES,
    TEXTS,
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


def test_a_warning_that_is_an_error_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings come after a batch has been learned, and may be made errors by the user."""
    model = teach(model_of("averaging, words"), "averaging, words", slice(0, 3 * BATCH))
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
