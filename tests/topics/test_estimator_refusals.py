"""What topic models refuse in calls that the conformance suite does not make."""

from collections.abc import Callable
from typing import Any

import pytest

from support.corpora import (
    BATCH,
    TEXTS,
    X,
    assert_same,
    content,
    model_of,
    targets_of,
    teach,
)
from support.spoilt_documents import (
    ANOTHER_FORM,
    ANOTHER_FORM_THAN_TEXTS,
    COUNTS,
    DOCUMENTS,
)

ROWS = slice(0, 3 * BATCH)
NAMES = ["lda", "hdp", "averaging", "gibbs, ovr", "born", "number"]
TEXT_NAMES = ["lda", "averaging, words", "born", "number"]


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


def assert_refused(model: Any, call: Callable[[], Any], words: str = "") -> None:
    before, attributes = content(model), dict(model.__dict__)
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    message = str(caught.value)
    assert type(model).__name__ in message, message
    assert words in message, message
    assert_same(content(model), before)
    assert model.__dict__ == attributes


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spoilt", COUNTS | ANOTHER_FORM)
def test_bad_counts_are_refused(taught: Any, name: str, spoilt: str) -> None:
    model, y = taught(name), targets_of(name)
    bad, words = (COUNTS | ANOTHER_FORM)[spoilt]
    n = bad.shape[0] if hasattr(bad, "shape") and bad.ndim else 3 * BATCH
    y = None if y is None else y[: len(bad) if isinstance(bad, list) else n]
    assert_refused(model, lambda: model.partial_fit(bad, y), words)
    assert_refused(model, lambda: model.transform(bad), words)
    if spoilt not in {"too wide", "too narrow", *ANOTHER_FORM}:  # a new fit may
        assert_refused(model, lambda: model.fit(bad, y))


@pytest.mark.parametrize("name", TEXT_NAMES)
@pytest.mark.parametrize("spoilt", DOCUMENTS | ANOTHER_FORM_THAN_TEXTS)
def test_bad_documents_are_refused(taught: Any, name: str, spoilt: str) -> None:
    model, y = taught(name, TEXTS), targets_of(name)
    bad, words = (DOCUMENTS | ANOTHER_FORM_THAN_TEXTS)[spoilt]
    y = None if y is None else y[: bad.shape[0] if hasattr(bad, "shape") else len(bad)]
    assert_refused(model, lambda: model.partial_fit(bad, y), words)
    assert_refused(model, lambda: model.transform(bad), words)


def test_bad_words_do_not_enter_the_vocabulary(taught: Any) -> None:
    """A refused batch has words that were new; they are as unknown as before."""
    model = taught("averaging, words", TEXTS)
    known = model.vocabulary_.tolist()
    assert_refused(model, lambda: model.partial_fit(["brandnew word00"], ["larch"]), "larch")
    assert model.vocabulary_.tolist() == known
