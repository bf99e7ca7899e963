"""What the max-margin topic classifiers know of labels, and how they say why."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.svm import LinearSVC

from estimators.corpora import (
    BATCH,
    CLASSIFIERS,
    INDICATORS,
    LABELS,
    N_WORDS,
    NAMES,
    TEXTS,
    TOKENS,
    VOCABULARY,
    X,
    assert_close,
    assert_same,
    content,
    fitted,
    model_of,
    teach,
)
from estimators.streams import file_of
from everlearn.core.errors import TopicCollapseWarning
from everlearn.estimators.supervised import MedLDAClassifier
from everlearn.estimators.supervised_growing import MedHDPClassifier
from everlearn.estimators.topics import TopicModel
from everlearn.inference import margin_step
from everlearn.inference.margin_step import accumulated
from everlearn.inference.topic_state import Gaussians
from everlearn.testing import planted_topics

every = pytest.mark.parametrize("name", CLASSIFIERS)
SHARED = [name for name in CLASSIFIERS if "ovr" not in name]
BINARY = np.where(np.isin(LABELS, ["ash", "elm"]), "yes", "no")


# Labels of every kind


@every
def test_several_classes(name: str) -> None:
    model = fitted(name, n_passes=3)
    assert model.classes_.tolist() == NAMES.tolist()
    scores = model.decision_function(X)
    assert scores.shape == (len(LABELS), 4)
    np.testing.assert_array_equal(model.predict(X), NAMES[scores.argmax(axis=1)])
    assert model.coef_.shape == (4, model.n_topics_)
    assert model.score(X, LABELS) > (0.7 if "no anchors" in name else 0.85)  # it has 3 topics
    if "words" not in name:
        np.testing.assert_allclose(scores, model.transform(X) @ model.coef_.T, rtol=1e-9, atol=1e-9)


@every
def test_two_classes(name: str) -> None:
    model = model_of(name, n_passes=3).fit(X, BINARY)
    assert model.classes_.tolist() == ["no", "yes"]
    scores = model.decision_function(X)
    assert scores.shape == (len(LABELS),)
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))
    assert model.coef_.shape == (1, model.n_topics_)  # one task, whatever the strategy
    assert model.score(X, BINARY) > 0.85


@every
def test_any_number_of_labels(name: str) -> None:
    model = model_of(name, n_passes=3).fit(X, INDICATORS)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    scores = model.decision_function(X)
    found = model.predict(X)
    assert scores.shape == found.shape == INDICATORS.shape
    np.testing.assert_array_equal(found, (scores > 0).astype(int))
    assert (found == INDICATORS).mean() > 0.85
    assert model.coef_.shape == (4, model.n_topics_)  # topics are always shared
    same = model_of(name, n_passes=3).fit(X, sparse.csr_array(INDICATORS.astype(int)))
    assert_same(content(model), content(same))


def test_columns_may_have_names() -> None:
    names = ["w", "c", "b", "a"]
    model = model_of("averaging").partial_fit(X, INDICATORS, classes=names)
    assert model.classes_.tolist() == names
    model.partial_fit(X, INDICATORS)
    model.partial_fit(X, INDICATORS, classes=names)
    with pytest.raises(ValueError, match="'classes' of MedLDAClassifier must be the same"):
        model.partial_fit(X, INDICATORS, classes=sorted(names))


@every
def test_how_classes_are_called_does_not_matter(name: str) -> None:
    model, numbers = fitted(name), model_of(name).fit(X, 7 * np.searchsorted(NAMES, LABELS) - 3)
    for key, array in content(model).arrays.items():
        if key != "classes":
            np.testing.assert_array_equal(array, content(numbers).arrays[key])
    assert numbers.predict(X).dtype == np.int64
    np.testing.assert_array_equal(NAMES[(numbers.predict(X) + 3) // 7], model.predict(X))


# Labels that are missing


@pytest.mark.parametrize("name", SHARED)
def test_what_a_mask_hides_does_not_matter(name: str) -> None:
    """The same model, bit for bit, whatever the hidden labels are."""
    mask = np.random.default_rng(0).random(INDICATORS.shape) < 0.5
    hidden = model_of(name).fit(X, np.ma.masked_array(INDICATORS, mask))
    flipped = model_of(name).fit(
        X, np.ma.masked_array(np.where(mask, 1 - INDICATORS, INDICATORS), mask)
    )
    missing = model_of(name).fit(X, np.where(mask, np.nan, INDICATORS))
    assert_same(content(hidden), content(flipped))
    assert_same(content(hidden), content(missing))
    assert file_of(hidden) != file_of(model_of(name).fit(X, INDICATORS))


@every
def test_what_a_mask_hides_of_classes_does_not_matter(name: str) -> None:
    mask = np.arange(len(LABELS)) % 3 == 0
    models = [
        model_of(name).partial_fit(X, np.ma.masked_array(y, mask), classes=NAMES)
        for y in (LABELS, np.where(mask, "ash", LABELS), np.where(mask, "nonsense", LABELS))
    ]
    assert_same(content(models[0]), content(models[1]))
    assert_same(content(models[0]), content(models[2]))
    assert models[0].n_documents_seen_ == len(LABELS)
    assert models[0].score(X, LABELS) > (0.5 if "no anchors" in name else 0.7)


@pytest.mark.parametrize("loss", ["averaging", "gibbs"])
@pytest.mark.parametrize("n_rounds", [1, 2])
def test_documents_without_labels_are_those_of_a_plain_topic_model(
    loss: str, n_rounds: int
) -> None:
    """Topics equal, bit for bit, those of `TopicModel`, and weights stay at their prior."""
    settings = {"batch_size": BATCH, "random_state": 3, "engine": "serial", "shuffle": False}
    labelled = MedLDAClassifier(n_topics=6, loss=loss, n_rounds=n_rounds, **settings)
    labelled.fit(X, np.full((len(LABELS), 3), np.nan))
    same = {"n_topics": 6, "n_rounds": n_rounds, "word_prior": labelled.word_prior}
    plain = TopicModel(start_documents=0, **same, **settings).fit(X)
    counts = content(labelled).arrays["state0/counts"]
    if loss == "averaging":
        np.testing.assert_array_equal(counts, content(plain).arrays["state0/counts"])
    assert counts.sum() == pytest.approx(X.sum())
    np.testing.assert_allclose(labelled.coef_, 2.0 * np.tile(np.eye(3), 2) - 1.0)


@pytest.mark.parametrize("loss", ["averaging", "gibbs"])
@pytest.mark.filterwarnings("ignore::everlearn.core.errors.TopicCollapseWarning")
def test_a_task_without_labels_is_not_there(loss: str) -> None:
    """Its weights stay at zero, and all the rest is the model without this column."""
    more = np.hstack([INDICATORS[:, :2], np.full((len(LABELS), 1), np.nan)])
    settings = {"loss": loss, "anchors": False, "n_topics": 6, "n_passes": 2}
    two = model_of("averaging", **settings).fit(X, INDICATORS[:, :2])
    three = model_of("averaging", **settings).fit(X, more)
    np.testing.assert_array_equal(two.components_, three.components_)
    np.testing.assert_allclose(three.coef_[:2], two.coef_, rtol=1e-9)
    np.testing.assert_array_equal(three.coef_[2], 0.0)
    assert np.abs(two.coef_).max() > 0.1


def test_documents_without_labels_help_those_that_have_some() -> None:
    """Thirty labels first, then words alone: four seeds had 0.91 and then 0.94."""
    gains = []
    for seed in range(4):
        planted = planted_topics(900, 4, 300, 25, overlap=0.3, random_state=seed)
        few, test = slice(0, 30), (planted.X[600:], planted.labels[600:])
        model = MedLDAClassifier(batch_size=30, n_topics=8, n_passes=5, random_state=seed)
        before = model.fit(planted.X[few], planted.labels[few]).score(*test)
        nothing = np.ma.masked_array(np.zeros(570, int), True)
        for _ in range(3):
            model.partial_fit(planted.X[30:600], nothing)
        gains.append(model.score(*test) - before)
    assert np.mean(gains) > 0.01


@pytest.mark.parametrize("kind", [MedLDAClassifier, MedHDPClassifier])
def test_many_documents_without_labels_do_not_blur_the_topics_of_the_others(kind: Any) -> None:
    """A tenth of the labels: in random order, topics would be taken before they stand for classes.

    Three seeds then lost 0.17 and 0.10 of what the labelled documents have alone.
    """
    gains = []
    for seed in range(3):
        planted = planted_topics(1200, 12, 300, 40, overlap=0.1, random_state=seed)
        train, test = slice(0, 900), (planted.X[900:], planted.labels[900:])
        missing = np.random.default_rng(seed).random(900) < 0.9
        X, y = planted.X[train], np.ma.masked_array(planted.labels[train], missing)
        alone = kind(random_state=0).fit(X[~missing], y.data[~missing]).score(*test)
        gains.append(kind(random_state=0).fit(X, y).score(*test) - alone)
    assert np.mean(gains) > -0.03


# What is refused


@every
def test_classes_must_be_known(name: str) -> None:
    model = model_of(name)
    kind = type(model).__name__
    with pytest.raises(ValueError, match=f"'classes' of {kind} must be passed on the first call"):
        model.partial_fit(X, LABELS)
    assert not hasattr(model, "_learned")
    with pytest.raises(ValueError, match=f"'y' of {kind}.*'oak'"):
        model.partial_fit(X, LABELS, classes=["ash", "elm", "fir"])
    with pytest.raises(ValueError, match=f"'classes' of {kind} must have at least 2 classes"):
        model.partial_fit(X[:1], LABELS[:1], classes=LABELS[:1])
    with pytest.raises(ValueError, match=f"'y' of {kind} must have at least 2 classes"):
        model.fit(X[:1], LABELS[:1])
    teach(model, name, slice(0, BATCH))
    before = file_of(model)
    for y in (["larch"], ["ash", 3.5], [np.nan], [[0, 1, 0, 0]]):
        with pytest.raises(ValueError, match=f"'y' of {kind}"):
            model.partial_fit(X[: len(y)], y)
    with pytest.raises(ValueError, match="larch"):
        model.partial_fit(X[:1], ["larch"])
    with pytest.raises(ValueError, match=f"'classes' of {kind} must be the same"):
        model.partial_fit(X, LABELS, classes=["ash", "elm"])
    with pytest.raises(ValueError, match="requires y"):
        model.partial_fit(X, None)
    assert file_of(model) == before
    model.partial_fit(X, LABELS, classes=NAMES[::-1])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("averaging", {"loss": "gibbs"}),
        ("gibbs", {"loss": "averaging"}),
        ("averaging", {"word_weights": True}),
        ("averaging, words", {"word_weights": False}),
        ("averaging", {"strategy": "ovr"}),
        ("gibbs, ovr", {"strategy": "shared"}),
        ("born", {"loss": "gibbs"}),
    ],
)
def test_the_form_of_a_model_cannot_change(name: str, changes: dict[str, Any]) -> None:
    model = fitted(name)
    before, right = file_of(model), model.get_params()
    model.set_params(**changes)
    (parameter,) = changes
    for call in (model.partial_fit, model.score):
        with pytest.raises(ValueError, match=f"'{parameter}' parameter of"):
            call(X, LABELS)
    with pytest.raises(ValueError, match=f"'{parameter}' parameter of"):
        file_of(model)
    assert file_of(model.set_params(**right)) == before
    assert model.set_params(**changes).fit(X, LABELS).score(X, LABELS) > 0.3


# How sure, and why


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
    model = model_of("gibbs", n_topics=4, c=1e-3, variance=1e5).fit(X[:40], BINARY[:40])
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
    model = fitted("averaging", topic_prior=0.7)
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


# Topics and weights


def test_names_of_topics_with_their_tasks() -> None:
    names = fitted("averaging, ovr").get_feature_names_out().tolist()
    assert names == [f"task{q}_topic{k}" for q in range(4) for k in range(4)]
    model = fitted("averaging, ovr")
    assert len({state["seed"] for state in content(model).header["states"]}) == 4
    assert model.transform(X).shape == (len(LABELS), 16)
    np.testing.assert_allclose(model.transform(X).sum(axis=1), 4.0)
    for q in range(4):
        others = np.delete(model.coef_[q], np.arange(4 * q, 4 * q + 4))
        np.testing.assert_array_equal(others, 0.0)
        assert np.abs(model.coef_[q, 4 * q : 4 * q + 4]).min() > 0


def test_anchors_tell_topics_from_the_start() -> None:
    empty = sparse.csr_array((1, N_WORDS))
    codes = 2.0 * np.tile(np.eye(4), 2) - 1.0
    for name in ("averaging", "gibbs"):
        model = model_of(name).partial_fit(empty, ["ash"], classes=NAMES)
        np.testing.assert_allclose(model.coef_, codes)
        plain = model_of(name, anchors=False).partial_fit(empty, ["ash"], classes=NAMES)
        np.testing.assert_array_equal(plain.coef_, 0.0)
    binary = model_of("averaging").partial_fit(empty, ["no"], classes=["no", "yes"])
    np.testing.assert_allclose(binary.coef_[0], [1.0, -1.0] * 4)
    born = model_of("born").partial_fit(empty, ["ash"], classes=NAMES)
    np.testing.assert_allclose(born.coef_, codes[:, :4])


def test_few_topics_go_to_labels_that_come_first() -> None:
    order = [2, 0, 3, 1]
    y = np.eye(4)[np.resize(order, len(LABELS))]
    model = model_of("averaging", n_topics=2).partial_fit(sparse.csr_array((256, N_WORDS)), y)
    expected = np.full((4, 2), -1.0)
    expected[2, 0] = expected[0, 1] = 1.0
    np.testing.assert_allclose(model.coef_, expected)


def test_one_against_the_rest_shares_topics_out_as_classes_are() -> None:
    model = model_of("averaging, ovr", n_topics=8).partial_fit(
        sparse.csr_array((256, N_WORDS)), LABELS, classes=NAMES
    )
    own = np.array([1, -1, -1, -1, 1, -1, -1, -1])
    np.testing.assert_allclose(model.coef_, np.kron(np.eye(4), own))


def test_default_numbers_of_topics() -> None:
    def topics(y: Any, **params: Any) -> int:
        n = len(y)
        return MedLDAClassifier(random_state=0, **params).fit(np.ones((n, 3)), y).n_topics_

    assert topics([0, 1]) == 10
    assert topics([0, 1], strategy="ovr") == 10
    assert topics(np.arange(4)) == 10
    assert topics(np.arange(4), strategy="ovr") == 40
    assert topics(np.arange(12)) == 12
    assert topics(np.arange(12), anchors=False) == 24
    assert topics(np.eye(60)) == 100
    assert topics(np.eye(60), n_topics=3) == 3
    assert MedHDPClassifier(random_state=0).fit(np.ones((9, 3)), np.arange(9)).n_topics_ <= 9


def test_scale_of_margin_and_weights() -> None:
    """(a margin, c / a, a^2 variance) is the same model in other units (spec 5)."""
    for name, margin, c, variance in (("averaging", 16, 50, 4e-4), ("gibbs", 164, 1, 10)):
        model = fitted(name)
        same = fitted(name, margin=4.0 * margin, c=c / 4.0, variance=16.0 * variance)
        np.testing.assert_array_equal(model.components_, same.components_)
        np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-6)
        np.testing.assert_allclose(model.decision_function(X), same.decision_function(X), rtol=1e-6)
        other = fitted(name, margin=4.0 * margin)
        assert not np.allclose(model.coef_, other.coef_, rtol=1e-3)


def test_ids_of_topics_are_permanent() -> None:
    """Born topics keep their numbers, and one that is joined to another never comes back."""
    model = model_of("born", start_topics=12, batch_size=4)
    gone: set[int] = set()
    last: set[int] = set()
    sizes = []
    for start in range(0, 256, 4):
        teach(model, "born", slice(start, start + 4))
        ids = set(model.component_ids_.tolist())
        assert len(ids) == model.n_topics_
        gone |= last - ids
        assert not gone & ids
        last = ids
        sizes.append(model.n_topics_)
    assert sizes[-1] < max(sizes)
    assert gone
    assert model.score(X, LABELS) > 0.85


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


def test_the_parameter_that_was_changed_is_named() -> None:
    model = fitted("averaging").set_params(anchors=False)
    with pytest.raises(ValueError, match=r"'anchors' parameter .* was True"):
        model.partial_fit(X, LABELS)


@pytest.mark.parametrize("name", ["averaging", "gibbs, ovr", "born, gibbs"])
def test_classifiers_tell_perplexity(name: str) -> None:
    """Better than words by their frequency, worse than their own words."""
    frequent = np.asarray(X.sum(axis=0)).ravel() / X.sum()
    entropy = -(frequent * np.log(np.maximum(frequent, 1e-300))).sum()
    model = fitted(name)
    assert 3.0 < model.perplexity(X) < 0.95 * np.exp(entropy)
    with pytest.raises(ValueError, match=rf"'X' of {type(model).__name__} .* two words or more"):
        model.perplexity(np.eye(N_WORDS, dtype=int))


@pytest.mark.parametrize("loss", ["averaging", "gibbs"])
@pytest.mark.parametrize("batch_size", [30, 256, "all"])
def test_one_topic_a_class_is_found(loss: str, batch_size: int | str) -> None:
    """All topics count, also those that hardly have a token."""
    for seed in range(2):
        planted = planted_topics(600, 5, 100, 40, overlap=0.1, random_state=seed)
        model = MedHDPClassifier(
            loss=loss, batch_size=batch_size, start_topics=15, random_state=seed, engine="serial"
        ).fit(planted.X, planted.labels)
        assert 5 <= model.n_topics_ <= 6
        assert model.score(planted.X, planted.labels) > 0.9


@pytest.mark.parametrize("loss", ["averaging", "gibbs"])
@pytest.mark.parametrize(
    ("n", "batch_size"), [(400, 64), (400, 256), (1200, 16), (1200, 64), (1200, 256), (1200, "all")]
)
def test_any_start_ends_with_about_as_many_topics(loss: str, n: int, batch_size: Any) -> None:
    """With few documents, too: merges do not wait for batches."""
    planted = planted_topics(n + 500, 8, 320, 50, overlap=0.2, random_state=0)
    settings: dict[str, Any] = {"loss": loss, "batch_size": batch_size, "engine": "serial"}
    models = [MedHDPClassifier(start_topics=k, random_state=0, **settings) for k in (5, 20, 60)]
    for model in models:
        model.fit(planted.X[:n], planted.labels[:n])
    sizes = [model.n_topics_ for model in models]
    assert max(sizes) <= 1.25 * min(sizes)
    scores = [model.score(planted.X[n:], planted.labels[n:]) for model in models]
    assert max(scores) - min(scores) < 0.011
    assert min(scores) > 0.9


@pytest.mark.parametrize("loss", ["averaging", "gibbs"])
@pytest.mark.parametrize("change", [{"ghosts": 10}, {"retention": 0.9}])
def test_neither_ghosts_nor_forgetting_keep_topics_apart(loss: str, change: dict[str, Any]) -> None:
    """Words of ghosts, and those that fade, are counted with as many documents."""
    planted = planted_topics(1280, 3, 120, 40, overlap=0.1, random_state=0)
    sizes = []
    for start in (3, 20, 60):
        model = MedHDPClassifier(loss=loss, start_topics=start, batch_size=64, **change)
        model.set_params(engine="serial", random_state=0).fit(planted.X, planted.labels)
        sizes.append(model.n_topics_)
    assert max(sizes) <= 4


def test_no_more_topics_than_allowed() -> None:
    settings = {"concentration": 50.0, "stick_prior": 200.0}
    assert fitted("born", **settings).n_topics_ > 6
    assert fitted("born", **settings, max_topics=6).n_topics_ <= 6


def test_fewer_topics_than_classes() -> None:
    """Refused where each class needs one, before anything is learned; else the limit holds."""
    for start in (None, 2):
        model = model_of("born", max_topics=3, start_topics=start)
        with pytest.raises(ValueError, match=r"'max_topics' .* 4 classes .* Got 3 instead"):
            model.fit(X, LABELS)
        with pytest.raises(ValueError, match="each of 4 classes"):
            model.partial_fit(X[:9], LABELS[:9], classes=NAMES)
        assert not hasattr(model, "n_topics_")
    with pytest.raises(ValueError, match="each of 2 classes"):
        model_of("born", max_topics=1).fit(X, BINARY)
    with pytest.raises(ValueError, match=r"'n_topics' .* each of 4 classes .* Got 3 instead"):
        model_of("averaging", n_topics=3).fit(X, LABELS)
    assert model_of("averaging", n_topics=3, anchors=False, c=500.0).fit(X, LABELS).n_topics_ == 3
    assert model_of("averaging", n_topics=3).fit(X, INDICATORS).n_topics_ == 3
    assert model_of("born", max_topics=3).fit(X, INDICATORS).n_topics_ <= 3
    assert model_of("born", max_topics=3, anchors=False).fit(X, LABELS).n_topics_ <= 3


def test_ghosts_are_copies() -> None:
    """One batch of which each document counts three times: counts thrice, as in spec 14.16."""
    settings = {"batch_size": "all", "anchors": False, "n_rounds": 1}
    one = model_of("gibbs", **settings).fit(X, LABELS)
    three = model_of("gibbs", ghosts=3, **settings).fit(X, LABELS)
    a, b = content(one).arrays, content(three).arrays
    np.testing.assert_allclose(3 * a["state0/counts"], b["state0/counts"], rtol=1e-12)
    np.testing.assert_allclose(3 * a["state0/shift"], b["state0/shift"], rtol=1e-9)
    prior = np.eye(8) / 10.0
    np.testing.assert_allclose(
        3 * (a["state0/precision"] - prior), b["state0/precision"] - prior, rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("name", ["gibbs", "gibbs, ovr", "born, gibbs"])
def test_augmentation_by_means_draws_less(name: str) -> None:
    mean = fitted(name, augmentation="mean", n_passes=3)
    assert mean.score(X, LABELS) > 0.85
    assert file_of(mean) != file_of(fitted(name, n_passes=3))


# What labels are good for


def collapse(**params: Any) -> tuple[MedLDAClassifier, list[warnings.WarningMessage]]:
    planted = planted_topics(600, 12, 200, 40, random_state=0)
    model = MedLDAClassifier(n_topics=24, batch_size=64, random_state=0, engine="serial", **params)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(planted.X, planted.labels)
    return model, caught


@pytest.mark.parametrize(
    "paper",
    [{"loss": "gibbs", "margin": 164, "c": 1, "variance": 1}, {"c": 50, "variance": 4e-4}],
)
def test_a_plain_model_that_is_slow_to_meet_margins_collapses(paper: dict[str, Any]) -> None:
    """It says so; the same values are good ones for a model with anchors."""
    plain, caught = collapse(anchors=False, **paper)
    assert {w.category for w in caught} == {TopicCollapseWarning}
    text = str(caught[0].message)
    assert "of 24 topics" in text
    assert "anchors=True" in text
    assert caught[0].filename == __file__  # the caller's line, not one of the library
    assert plain.topic_shares_.max() > 0.5
    anchored, caught = collapse(**paper)
    assert caught == []
    assert anchored.topic_shares_.max() < 0.3


@pytest.mark.parametrize("kind", [MedLDAClassifier, MedHDPClassifier])
@pytest.mark.parametrize("loss", ["averaging", "gibbs"])
def test_the_plain_model_is_of_use_at_its_defaults(kind: Any, loss: str) -> None:
    planted = planted_topics(1000, 12, 200, 40, random_state=0)
    X, y = planted.X, planted.labels
    plain, anchored = (
        kind(loss=loss, anchors=anchors, batch_size=64, random_state=0, engine="serial")
        for anchors in (False, True)
    )
    plain.fit(X[:600], y[:600])  # a warning would be an error
    assert plain.topic_shares_.max() < 0.3
    assert plain.score(X[600:], y[600:]) > 0.8
    assert anchored.fit(X[:600], y[:600]).score(X[600:], y[600:]) > 0.85


def test_defaults_depend_on_anchors_and_given_values_stay() -> None:
    values = {"margin": 3.0, "c": 7.0, "variance": 0.5, "n_rounds": 4}
    for kind in (MedLDAClassifier, MedHDPClassifier):
        learners = []
        for params in ({}, {"anchors": False}, {"anchors": False, **values}):
            model = kind(random_state=0, **params).fit(X, LABELS)
            learners.append(model._current(model._learned))
        anchored, plain, given = learners
        assert (anchored.n_rounds, plain.n_rounds, given.n_rounds) == (1, 3, 4)
        assert (given.loss.margin, given.loss.c, given.loss.variance) == (3.0, 7.0, 0.5)
        assert plain.loss.c == 500.0


def test_labels_of_a_minor_direction() -> None:
    """A label that a tenth of the words decide: LDA and an SVM with as many topics miss it."""
    gaps = []
    for seed in range(3):
        planted = planted_topics(1200, 12, 240, 100, labels="minor", random_state=seed)
        train, test = slice(0, 900), slice(900, None)
        params = {"n_topics": 6, "n_passes": 4, "random_state": seed, "engine": "serial"}
        lda = TopicModel(**params).fit(planted.X[train])
        svm = LinearSVC(C=10.0, random_state=0).fit(
            lda.transform(planted.X[train]), planted.labels[train]
        )
        blind = svm.score(lda.transform(planted.X[test]), planted.labels[test])
        for loss in ("averaging", "gibbs"):
            model = MedLDAClassifier(loss=loss, **params).fit(
                planted.X[train], planted.labels[train]
            )
            gaps.append(model.score(planted.X[test], planted.labels[test]) - blind)
    assert np.min(gaps) > 0.1
    assert np.mean(gaps) > 0.2


def test_word_weights_learn_what_topics_miss() -> None:
    """Two topics for four classes: words tell apart what topics cannot."""
    params = {"n_topics": 2, "n_passes": 3}
    without = fitted("averaging", anchors=False, **params).score(X, LABELS)
    assert fitted("averaging", word_weights=True, **params).score(X, LABELS) > without + 0.2


@cache
def newsgroups(folder: Any) -> dict[str, tuple[Any, np.ndarray]]:
    """Rennie's counts without English stop words and words of one letter."""
    words = (folder / "rennie_vocab.txt").read_text().split("\n")[:61188]
    kept = [i for i, w in enumerate(words) if len(w) > 1 and w not in ENGLISH_STOP_WORDS]
    parts = {}
    for part in ("train", "test"):
        with np.load(folder / f"rennie_bydate_{part}.npz") as z:
            shape = tuple(z["shape"])
            table = sparse.csr_array((z["data"], z["indices"], z["indptr"]), shape=shape)
            parts[part] = table[:, kept], z["labels"]
    return parts


@pytest.mark.data("20newsgroups")
@pytest.mark.parametrize(
    ("kind", "params", "asked"),
    [
        pytest.param(MedLDAClassifier, {}, 0.822, id="averaging"),
        pytest.param(MedLDAClassifier, {"loss": "gibbs"}, 0.818, id="gibbs"),
        pytest.param(MedLDAClassifier, {"word_weights": True}, 0.84, id="words"),
        pytest.param(MedLDAClassifier, {"strategy": "ovr"}, 0.8, id="ovr"),
        pytest.param(MedHDPClassifier, {}, 0.82, id="hdp"),
        pytest.param(MedHDPClassifier, {"loss": "gibbs"}, 0.81, id="hdp gibbs"),
    ],
)
def test_accuracy_on_20_newsgroups(
    shared_data: Any, kind: type, params: dict[str, Any], asked: float
) -> None:
    """One pass. What is asked for is a mean of five seeds, of which one may be 0.01 below."""
    parts = newsgroups(shared_data / "20newsgroups")
    model = kind(random_state=0, **params).fit(*parts["train"])
    assert model.score(*parts["test"]) >= asked - 0.01
    assert 20 <= model.n_topics_ <= 25 or "strategy" in params


@pytest.mark.parametrize("name", ["averaging", "gibbs", "born"])
def test_other_words_change_a_prediction(name: str) -> None:
    """Predictions are of the document at hand: swapped documents swap labels."""
    model = fitted(name)
    scores = model.decision_function(X)
    assert_close(model.decision_function(X[::-1]), scores[::-1].copy())
    assert len(np.unique(model.predict(X))) == 4


def test_weights_that_cannot_be_used_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = np.random.default_rng(0).poisson(1.0, (60, 8)), np.arange(60) % 3
    model = MedLDAClassifier(loss="gibbs", batch_size=60, random_state=0).fit(X, y)
    before = file_of(model)

    def spoilt(*args: Any) -> Gaussians:
        return Gaussians(-accumulated(*args).precision, accumulated(*args).shift)

    monkeypatch.setattr(margin_step, "accumulated", spoilt)
    with pytest.raises(ValueError, match="cannot learn from X"):
        model.partial_fit(X, y)
    assert file_of(model) == before


def test_a_word_prior_near_zero_does_not_vanish_in_digammas() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.poisson(np.where(np.arange(30) // 10 == y[:, None], 1.0, 0.02))
    model = MedLDAClassifier(word_factor="digamma", word_prior=1e-3, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
