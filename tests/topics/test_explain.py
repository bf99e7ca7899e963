"""How sure max-margin topic classifiers are, and how they say why."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from everlearn.topics.medlda import MedLDAClassifier
from support.corpora import (
    BINARY,
    CLASSIFIERS,
    INDICATORS,
    LABELS,
    N_WORDS,
    NAMES,
    TEXTS,
    TOKENS,
    VOCABULARY,
    X,
    fitted,
    model_of,
)

every = pytest.mark.parametrize("name", CLASSIFIERS)


@every
def test_probabilities(name: str) -> None:
    model = fitted(name)
    if "gibbs" not in name or "words" in name:
        assert not hasattr(model, "predict_proba")
        return
    votes = model.predict_proba(X)
    assert votes.shape == (len(LABELS), 4)
    np.testing.assert_allclose(votes.sum(axis=1), 1.0)
    assert ((votes >= 0) & (votes <= 1)).all()
    if "ovr" not in name:
        np.testing.assert_array_equal(NAMES[votes.argmax(axis=1)], model.predict(X))
    two = model_of(name).fit(X, BINARY)
    votes = two.predict_proba(X)
    np.testing.assert_allclose(votes.sum(axis=1), 1.0)
    np.testing.assert_array_equal(votes[:, 1] > 0.5, two.decision_function(X) > 0)
    order = np.argsort(two.decision_function(X))
    assert votes[order[-20:], 1].mean() > votes[order[:20], 1].mean() + 0.5
    many = model_of(name).fit(X, INDICATORS)
    votes = many.predict_proba(X)
    assert votes.shape == INDICATORS.shape
    assert ((votes > 0) & (votes < 1)).all()
    np.testing.assert_array_equal((votes > 0.5).astype(int), many.predict(X))


def test_probabilities_are_those_of_drawn_weights() -> None:
    """Against 200,000 draws, of which 3 standard errors are 0.0034 at the most."""
    model = model_of("gibbs", n_topics=4, C=0.328, variance=1e5 / 164**2).fit(X[:40], BINARY[:40])
    assert np.ptp(model.predict_proba(X[:20])[:, 1]) > 0.2
    z = model.transform(X[:20])
    mean, covariance = model._learned.states[0].weights.moments()
    rng = np.random.default_rng(0)
    weights = rng.multivariate_normal(mean[0], covariance[0], 200_000)
    np.testing.assert_allclose(
        model.predict_proba(X[:20])[:, 1], (z @ weights.T > 0).mean(axis=1), atol=0.005
    )


def forms() -> dict[str, tuple[Any, Any]]:
    """Documents in every form, and how to pick one of them."""
    numbers = [np.repeat(np.arange(N_WORDS), row) for row in X.toarray()]
    frame = pd.DataFrame(X.toarray(), columns=VOCABULARY)
    return {
        "counts": (X.toarray(), lambda i: X.toarray()[i]),
        "sparse": (X, lambda i: X[[i]]),
        "sparse row": (X, lambda i: X[i]),
        "list": (X.toarray(), lambda i: X.toarray()[i].tolist()),
        "frame": (frame, lambda i: frame.iloc[[i]]),
        "numbers": (numbers, lambda i: numbers[i]),
        "tokens": (TOKENS, lambda i: TOKENS[i]),
        "texts": (TEXTS, lambda i: TEXTS[i]),
    }


def assert_explained(model: Any, documents: Any, pick: Any, i: int) -> None:
    """The parts of the score are the score, and the label is the one predicted."""
    told = model.explain(pick(i), n=1000)
    scores = np.atleast_2d(model.decision_function(documents[i : i + 1]))
    binary = len(model.classes_) == 2
    assert told.label == model.predict(documents[i : i + 1])[0]
    expected = abs(scores[0, 0]) if binary else scores[0].max()
    assert told.score == pytest.approx(expected, rel=1e-9, abs=1e-12)
    parts = sum(topic.margin for topic in told.topics) + sum(value for _, value in told.words)
    assert parts == pytest.approx(told.score, rel=1e-9, abs=1e-9)
    assert sum(topic.share for topic in told.topics) == pytest.approx(1.0)
    tokens: dict[Any, float] = {}
    for topic in told.topics:
        assert topic.topic in model.component_ids_
        assert sum(count for _, count in topic.words) == pytest.approx(topic.share * X[[i]].sum())
        for word, count in topic.words:
            tokens[word] = tokens.get(word, 0.0) + count
    known = set(model.vocabulary_.tolist())
    assert set(tokens) <= known
    np.testing.assert_allclose(sorted(tokens.values()), np.sort(X[[i]].data), rtol=1e-9)
    if binary:
        assert told.runner_up is None
    else:
        label, second = told.runner_up
        assert second == pytest.approx(np.sort(scores[0])[-2])
        assert label == model.classes_[np.argsort(-scores[0], kind="stable")[1]]
    margins = [abs(topic.margin) for topic in told.topics]
    assert margins == sorted(margins, reverse=True)


@pytest.mark.parametrize("name", ["averaging", "ovr, words", "born, gibbs"])
@pytest.mark.parametrize("form", forms())
def test_every_form_of_document_is_explained(name: str, form: str) -> None:
    documents, pick = forms()[form]
    for y in (LABELS, BINARY):
        model = model_of(name).fit(documents, y)
        scores = model.decision_function(documents).reshape(len(y), -1)
        for i in (scores[:, 0].argmin(), scores[:, 0].argmax()):  # a clear no, and a clear yes
            assert_explained(model, documents, pick, int(i))


@every
def test_every_classifier_explains(name: str) -> None:
    model = fitted(name)
    for i in range(5):
        assert_explained(model, TEXTS if model.vocabulary is not None else X, lambda i: X[[i]], i)
    few = model.explain(X[[0]], n=2)
    assert len(few.topics) == 2
    assert max(len(topic.words) for topic in few.topics) == 2
    assert len(few.words) == (2 if "words" in name else 0)
    lines = str(few).splitlines()
    assert lines[0].startswith(f"{few.label}: {few.score:+.2f}  (then {few.runner_up[0]}")
    assert f"of topic {few.topics[0].topic} at" in lines[1]
    assert len(lines) == 1 + len(few.topics) + len(few.words)


def test_labels_of_an_indicator_are_explained() -> None:
    model = model_of("averaging, words").fit(X, INDICATORS)
    scores = model.decision_function(X)
    for i in range(3):
        told = model.explain(X[[i]], n=1000)
        assert told.label == scores[i].argmax()
        parts = sum(topic.margin for topic in told.topics) + sum(value for _, value in told.words)
        assert told.score == pytest.approx(scores[i].max())
        assert parts == pytest.approx(told.score)
        assert told.predicted == (scores[i].max() > 0)
    rare = np.where(np.arange(len(LABELS))[:, None] < 8, INDICATORS, 0.0)
    model = model_of("averaging, words").fit(X, rare)
    none = int(model.decision_function(X).max(axis=1).argmin())
    assert not model.predict(X[[none]]).any()
    assert ", not predicted  (then" in str(model.explain(X[[none]]))


@every
def test_any_label_can_be_explained(name: str) -> None:
    documents = TEXTS if model_of(name).vocabulary is not None else X
    for y in (LABELS, BINARY, INDICATORS):
        model = model_of(name).fit(documents, y)
        scores = model.decision_function(documents[:1]).ravel()
        by_class = [-scores[0], scores[0]] if len(scores) == 1 else scores
        for label, score in zip(model.classes_, by_class, strict=True):
            told = model.explain(documents[0], n=1000, label=label)
            assert told.label == label
            assert told.score == pytest.approx(score, rel=1e-9, abs=1e-12)
            parts = [part.margin for part in told.topics] + [value for _, value in told.words]
            assert sum(parts) == pytest.approx(score, rel=1e-9, abs=1e-9)
            predicted = score > 0 if y is INDICATORS else label == model.predict(documents[:1])[0]
            assert told.predicted == predicted
            assert ("not predicted" in str(told)) == (not predicted)
            if len(scores) > 1:
                others = [s for c, s in zip(model.classes_, scores, strict=True) if c != label]
                assert told.runner_up[1] == pytest.approx(max(others))
                order = "then" if max(others) <= score else "after"
                assert f"({order} {told.runner_up[0]}: " in str(told)


def test_labels_that_nobody_knows_cannot_be_explained() -> None:
    model = fitted("averaging")
    for label in ("beech", 0, ["ash"], np.array(["ash", "elm"]), {}):
        with pytest.raises(ValueError, match=r"'label' of MedLDAClassifier .*\['ash', 'elm'"):
            model.explain(X[[0]], label=label)


def test_what_cannot_be_explained() -> None:
    model = fitted("averaging", doc_topic_prior=0.7)
    empty = model.explain(np.zeros(N_WORDS))
    assert [topic.share for topic in empty.topics] == [pytest.approx(1 / 8)] * 5
    assert all(topic.words == () for topic in empty.topics)
    for n in (0, -1, 1.5, "all", None):
        with pytest.raises(ValueError, match=r"'n' parameter of MedLDAClassifier.explain"):
            model.explain(X[[0]], n=n)
    with pytest.raises(ValueError, match="MedLDAClassifier explains one document at a time, got 2"):
        model.explain(X[:2])
    for bad in (3, "text", np.zeros((2, 2, 2)), X.toarray()[0, 1:], -X.toarray()[0]):
        with pytest.raises(ValueError, match="MedLDAClassifier"):
            model.explain(bad)
    assert model_of("averaging").fit(TEXTS, LABELS).explain("unheard").topics[0].words == ()


def test_a_list_with_one_document_is_explained_as_the_document_is() -> None:
    model = MedLDAClassifier(n_topics=8, vocabulary=VOCABULARY.tolist(), random_state=0)
    model.fit(TEXTS, LABELS)
    told = model.explain(TEXTS[0])
    assert told.topics[0].words
    assert model.explain([TEXTS[0]]) == model.explain(TOKENS[0]) == model.explain([TOKENS[0]])
    assert model.explain([TEXTS[0]]) == told


def test_a_word_alone_is_explained_as_the_word_that_it_is() -> None:
    """A text would be cut into others, and lose its capitals."""
    tokens = [[word.replace("word", "Word no. ") for word in document] for document in TOKENS]
    model = MedLDAClassifier(n_topics=8, random_state=0).fit(tokens, LABELS)
    told = model.explain(tokens[0][:1])
    assert told.topics[0].words[0][0] == tokens[0][0]
    assert told == model.explain([tokens[0][:1]]) == model.explain(tuple(tokens[0][:1]))


def test_words_that_all_topics_share_come_last() -> None:
    texts = ["the the the cat purrs", "the the the bond falls"] * 40
    model = MedLDAClassifier(n_topics=2, random_state=0).fit(texts, ["pet", "money"] * 40)
    told = model.explain("the the the the cat")
    own = max(told.topics, key=lambda topic: topic.share)
    assert [word for word, _ in own.words] == ["cat", "the"]
    assert own.words[1][1] > own.words[0][1]
