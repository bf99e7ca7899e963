"""The topics that labels make, and what they are good for."""

import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.svm import LinearSVC

from everlearn.errors import TopicCollapseWarning
from everlearn.testing.data import planted_topics
from everlearn.topics.medlda import MedHDPClassifier, MedLDAClassifier
from everlearn.topics.topic_model import TopicModel
from everlearn.topics.weights import weight_draws
from support.corpora import (
    BINARY,
    INDICATORS,
    LABELS,
    N_WORDS,
    NAMES,
    X,
    assert_close,
    content,
    fitted,
    made,
    model_of,
    teach,
)
from support.streams import file_of

# Topics and weights


def test_names_of_topics_with_their_tasks() -> None:
    names = fitted("averaging, ovr").get_feature_names_out().tolist()
    assert names == [f"task{q}_topic{k}" for q in range(4) for k in range(4)]
    model = fitted("averaging, ovr")
    assert len({state["seed"] for state in content(model).header["learned"]["states"]}) == 4
    assert model.transform(X).shape == (len(LABELS), 16)
    np.testing.assert_allclose(model.transform(X).sum(axis=1), 4.0)
    for q in range(4):
        others = np.delete(model.coef_[q], np.arange(4 * q, 4 * q + 4))
        np.testing.assert_array_equal(others, 0.0)
        assert np.abs(model.coef_[q, 4 * q : 4 * q + 4]).min() > 0


@pytest.mark.parametrize(
    ("anchors", "several", "size"), [(True, False, 512), (False, False, 256), (True, True, 256)]
)
@pytest.mark.parametrize("name", ["averaging", "born"])
def test_a_batch_has_so_many_documents_by_default(
    name: str, anchors: bool, several: bool, size: int
) -> None:
    some = planted_topics(600, 4, N_WORDS, 10, random_state=0)
    y = some.theta > 0.2 if several else some.labels

    def learned(batch_size: Any) -> Any:
        return model_of(name, batch_size=batch_size, anchors=anchors).fit(some.X, y).components_

    np.testing.assert_array_equal(learned(None), learned(size))
    for other in (768 - size, "all"):
        assert not np.array_equal(learned(None), learned(other))


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


def test_defaults_are_what_the_documentation_says() -> None:
    for name, C, variance in (("averaging", 1600, 4e-4 / 16**2), ("gibbs", 328, 10 / 164**2)):
        model, same = fitted(name), fitted(name, C=C, variance=variance)
        np.testing.assert_array_equal(model.coef_, same.coef_)
        other = fitted(name, C=C / 4.0)
        assert not np.allclose(model.coef_, other.coef_, rtol=1e-3)


def test_ids_of_topics_are_permanent() -> None:
    """Born topics keep their numbers, and one that is joined to another never comes back."""
    model = model_of("born", start_topics=12, batch_size=4, stick_prior=20.0)
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
        model = made(
            MedHDPClassifier,
            loss=loss,
            batch_size=batch_size,
            start_topics=15,
            random_state=seed,
            engine="serial",
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
    models = [
        made(MedHDPClassifier, start_topics=k, random_state=0, **settings) for k in (5, 20, 60)
    ]
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
        model = made(MedHDPClassifier, loss=loss, start_topics=start, batch_size=64, **change)
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
    assert model_of("averaging", n_topics=3, anchors=False, C=16e3).fit(X, LABELS).n_topics_ == 3
    assert model_of("averaging", n_topics=3).fit(X, INDICATORS).n_topics_ == 3
    assert model_of("born", max_topics=3).fit(X, INDICATORS).n_topics_ <= 3
    assert model_of("born", max_topics=3, anchors=False).fit(X, LABELS).n_topics_ <= 3


def learned_arrays(model: Any) -> dict[str, np.ndarray]:
    """The arrays of the first state, by their names in a file."""
    place = "learned/states/0/"
    arrays = content(model).arrays
    return {name.removeprefix(place): arrays[name] for name in arrays if name.startswith(place)}


def test_ghosts_are_copies() -> None:
    """One batch of which each document counts three times: counts thrice, as in spec 14.16."""
    settings = {"batch_size": "all", "anchors": False, "n_rounds": 1}
    one = model_of("gibbs", **settings).fit(X, LABELS)
    three = model_of("gibbs", ghosts=3, **settings).fit(X, LABELS)
    a, b = (learned_arrays(model) for model in (one, three))
    np.testing.assert_allclose(3 * a["counts"], b["counts"], rtol=1e-12)
    np.testing.assert_allclose(3 * a["weights/shift"], b["weights/shift"], rtol=1e-9)
    prior = np.eye(8) / (10.0 / 16**2)
    np.testing.assert_allclose(
        3 * (a["weights/precision"] - prior), b["weights/precision"] - prior, rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("name", ["gibbs", "gibbs, ovr", "born, gibbs"])
def test_augmentation_by_means_draws_less(name: str) -> None:
    mean = fitted(name, augmentation="mean", n_passes=3)
    assert mean.score(X, LABELS) > 0.85
    assert file_of(mean) != file_of(fitted(name, n_passes=3))


@pytest.mark.parametrize("word_factor", ["ratio", "collapsed"])
def test_weights_may_be_drawn_in_every_round(word_factor: str) -> None:
    """Topics are others then, and know the labels as well."""
    settings = {"word_factor": word_factor, "n_rounds": 2, "n_passes": 3}
    drawn = fitted("gibbs", augmentation="all", **settings)
    assert drawn.score(X, LABELS) > 0.85
    counts = [learned_arrays(m)["counts"] for m in (drawn, fitted("gibbs", **settings))]
    assert not np.array_equal(*counts)


def test_every_round_has_draws_of_its_own() -> None:
    learned = fitted("gibbs")._learned
    state = learned.states[0]
    settings = model_of("gibbs, all drawn")._settings(learned.outputs)
    draws = [weight_draws(settings, state, number).random() for number in (0, 1, 0)]
    assert draws[0] == draws[2] != draws[1]
    later = replace(state, clock=state.clock + 1)
    assert weight_draws(settings, later, 0).random() not in draws
    assert weight_draws(model_of("gibbs")._settings(learned.outputs), state, 0) is None


# What labels are good for


def collapse(**params: Any) -> tuple[MedLDAClassifier, list[warnings.WarningMessage]]:
    planted = planted_topics(600, 12, 200, 40, random_state=0)
    model = made(
        MedLDAClassifier, n_topics=24, batch_size=64, random_state=0, engine="serial", **params
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(planted.X, planted.labels)
    return model, caught


@pytest.mark.parametrize(
    "paper",
    [
        {"loss": "gibbs", "C": 328, "variance": 1 / 164**2},
        {"C": 1600, "variance": 4e-4 / 16**2},
    ],
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
    values = {"C": 7.0, "variance": 0.5, "n_rounds": 4}
    for kind in (MedLDAClassifier, MedHDPClassifier):
        settings = []
        for params in ({}, {"anchors": False}, {"anchors": False, **values}):
            model = made(kind, random_state=0, **params).fit(X, LABELS)
            settings.append(model._current_settings())
        anchored, plain, given = settings
        assert (anchored.n_rounds, plain.n_rounds, given.n_rounds) == (1, 3, 4)
        assert (given.loss.margin, given.loss.c, given.loss.variance) == (1.0, 3.5, 0.5)
        assert plain.loss.c == 8000.0


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


def test_a_word_prior_near_zero_does_not_vanish_in_digammas() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.poisson(np.where(np.arange(30) // 10 == y[:, None], 1.0, 0.02))
    model = made(
        MedLDAClassifier, word_factor="digamma", topic_word_prior=1e-3, random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.95
