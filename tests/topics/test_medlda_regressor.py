"""Topics that predict a number."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import r2_score

from everlearn.testing.data import planted_topics
from everlearn.topics.medlda_regressor import MedLDARegressor, _rescaled
from everlearn.topics.scale import MIN_TARGETS, Scale
from support.corpora import (
    LABELS,
    N_WORDS,
    NUMBERS,
    TEXTS,
    X,
    assert_same,
    change,
    content,
    fitted,
    model_of,
)
from support.streams import file_of

both = pytest.mark.parametrize("name", ["number", "number, gibbs"])


@both
@pytest.mark.parametrize("inference", ["expected", "sampled"])
def test_numbers_are_explained(name: str, inference: str) -> None:
    model = model_of(name, inference=inference).fit(TEXTS, NUMBERS)
    for text, number in zip(TEXTS[:5], model.predict(TEXTS[:5]), strict=True):
        told = model.explain(text, n=1000)
        assert told.number == pytest.approx(number)
        parts = [part.margin for part in told.topics]
        assert told.intercept + sum(parts) == pytest.approx(number)
        assert np.abs(parts).tolist() == sorted(np.abs(parts), reverse=True)
        tokens = sum(count for part in told.topics for _, count in part.words)
        assert tokens == pytest.approx(len(text.split()))
    few = model.explain(TEXTS[0], n=2)
    assert few.topics == tuple(
        type(part)(part.topic, part.share, part.weight, part.words[:2])
        for part in model.explain(TEXTS[0], n=1000).topics[:2]
    )
    first, *rest = str(few).splitlines()
    assert first == f"{few.number:.2f}, from {few.intercept:.2f}"
    for part, line in zip(few.topics, rest, strict=True):
        assert f"{part.margin:+.2f} = {part.share:.0%} of topic {part.topic} at" in line
    with pytest.raises(ValueError, match=r"'n' parameter of MedLDARegressor.explain"):
        model.explain(TEXTS[0], n=0)


@both
def test_numbers_are_linear_in_topics(name: str) -> None:
    model = fitted(name)
    found = model.predict(X)
    assert found.shape == NUMBERS.shape
    assert model.coef_.shape == (6,)
    assert model.intercept_ == pytest.approx(NUMBERS.mean())
    np.testing.assert_allclose(found, model.intercept_ + model.transform(X) @ model.coef_)


@both
def test_new_documents_are_predicted_better_than_by_the_mean(name: str) -> None:
    """Numbers that planted topics decide: R squared on documents not seen, on three seeds."""
    for seed in range(3):
        planted = planted_topics(900, 5, 150, 60, random_state=seed)
        weights = np.random.default_rng(seed).normal(size=5)
        y = 100.0 + 30.0 * planted.theta @ weights
        model = model_of(name, n_topics=10, n_passes=3, random_state=seed)
        model.fit(planted.X[:600], y[:600])
        assert r2_score(y[600:], model.predict(planted.X[600:])) > 0.6
        assert model.score(planted.X[600:], y[600:]) > 0.6


@both
def test_units_do_not_matter(name: str) -> None:
    model = fitted(name)
    other = model_of(name).fit(X, 1024.0 * NUMBERS - 4096.0)
    np.testing.assert_allclose(other.predict(X), 1024.0 * model.predict(X) - 4096.0, rtol=1e-6)
    np.testing.assert_array_equal(other.components_, model.components_)


@both
def test_the_first_targets_set_the_scale(name: str) -> None:
    model = model_of(name).partial_fit(X[:MIN_TARGETS], NUMBERS[:MIN_TARGETS])
    assert model.intercept_ == pytest.approx(NUMBERS[:MIN_TARGETS].mean())
    model.partial_fit(X[MIN_TARGETS:], NUMBERS[MIN_TARGETS:])
    assert model.intercept_ == pytest.approx(NUMBERS[:MIN_TARGETS].mean())
    constant = model_of(name).fit(X, np.full(len(LABELS), 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0, atol=0.5)
    single = model_of(name).partial_fit(X[:1], [5.0]).partial_fit(X, NUMBERS)
    assert np.isfinite(single.predict(X)).all()


@both
@pytest.mark.parametrize("size", [1, 3])
def test_a_scale_of_few_targets_follows_those_that_come(name: str, size: int) -> None:
    """Far from zero and close together: the first target alone would be taken for the unit."""
    y = 1000.0 + (NUMBERS - NUMBERS.mean()) / NUMBERS.std()
    model = model_of(name)
    for _ in range(3):
        for start in range(0, len(y), size):
            model.partial_fit(X[start : start + size], y[start : start + size])
    whole = model_of(name, n_passes=3, shuffle=False).fit(X, y)
    assert model.intercept_ == pytest.approx(y[: size * -(-MIN_TARGETS // size)].mean())
    assert model.score(X, y) > 0.6 * whole.score(X, y) > 0.3
    equal = model_of(name).partial_fit(X[:40], np.full(40, 7.0))
    assert equal.partial_fit(X, y).intercept_ > 100.0  # they say nothing about the spread


@both
@pytest.mark.parametrize("value", [0.1, 7.3])
def test_equal_targets_have_no_spread_however_their_mean_is_rounded(
    name: str, value: float
) -> None:
    same = np.full(100, value)
    assert same.std() > 0.0
    assert Scale.of(same) == Scale(100, value, 0.0)
    parts = Scale.of(same[:1]).with_numbers(same[:3]).with_numbers(same[:64])
    assert parts == Scale(68, value, 0.0)
    y = value + (NUMBERS - NUMBERS.mean()) / NUMBERS.std()
    model = model_of(name).partial_fit(X[:100], same)
    assert model.partial_fit(X, y).partial_fit(X, y).score(X, y) > 0.3


@both
@pytest.mark.parametrize("first", [[1e-3], [1e-200], [0.01, 0.02, 0.015]])
def test_small_targets_at_first_do_not_make_a_model_too_sure(name: str, first: list[float]) -> None:
    y = np.array([*first, *NUMBERS[len(first) :]])
    model = model_of(name)
    for i in range(len(y)):
        model.partial_fit(X[[i]], y[i : i + 1])
    assert model.score(X, y) > 0.8


@both
def test_a_change_of_scale_does_not_change_what_is_predicted(name: str) -> None:
    model = model_of(name).partial_fit(X[:10], NUMBERS[:10])
    learned = model._fitted()
    before = model.predict(X)
    model._learned = _rescaled(learned, Scale(20, 3.0, 5.0))
    np.testing.assert_allclose(model.predict(X), before, rtol=1e-9)
    assert model.intercept_ == 3.0
    if name == "number, gibbs":
        old, new = (known.states[0].weights.precision for known in (learned, model._learned))
        np.testing.assert_array_equal(new, old)


@both
def test_what_a_mask_hides_does_not_matter(name: str) -> None:
    mask = np.arange(len(LABELS)) % 3 == 0
    hidden = [
        model_of(name).fit(X, np.ma.masked_array(y, mask))
        for y in (NUMBERS, np.where(mask, 1e200, NUMBERS), np.where(mask, np.nan, NUMBERS))
    ]
    for other in hidden[1:]:
        assert_same(content(hidden[0]), content(other))
    assert hidden[0].intercept_ == pytest.approx(NUMBERS[~mask].mean())
    assert hidden[0].n_samples_seen_ == len(LABELS)
    column = np.ma.masked_array(NUMBERS[:, None], mask[:, None])
    with pytest.warns(DataConversionWarning):
        assert_same(content(hidden[0]), content(model_of(name).fit(X, column)))


def test_documents_without_numbers_are_those_of_a_plain_topic_model() -> None:
    nothing = model_of("number", n_rounds=1).fit(X, np.ma.masked_array(NUMBERS, True))
    plain = model_of("lda", n_topics=6, topic_word_prior=0.1).fit(X)
    np.testing.assert_array_equal(nothing.components_, plain.components_)
    np.testing.assert_array_equal(nothing.coef_, 0.0)
    np.testing.assert_array_equal(nothing.predict(X), 0.0)
    late = nothing.partial_fit(X, NUMBERS)
    assert np.abs(late.coef_).max() > 0


@both
def test_documents_without_known_words_get_one_number(name: str) -> None:
    model = model_of(name).fit(TEXTS, NUMBERS)
    odd = model.predict(["", "unheard of", "word00"])
    assert np.isfinite(odd).all()
    assert odd[0] == odd[1] == pytest.approx(model.intercept_ + model.coef_.mean())
    assert odd[2] != odd[0]


@both
def test_bad_numbers_are_refused_by_name(name: str) -> None:
    model = fitted(name)
    before = file_of(model)
    cases: list[tuple[Any, str]] = [
        (np.where(np.arange(256) == 9, np.nan, NUMBERS), "NaN"),
        (np.where(np.arange(256) == 9, np.inf, NUMBERS), "infinity"),
        (np.where(np.arange(256) == 9, 1e200, NUMBERS), "at most"),
        (NUMBERS[:-1], "expected 256 numbers, got 255"),
        (NUMBERS[None], "shape"),
        (np.stack([NUMBERS, NUMBERS], axis=1), "shape"),
        (["many"] * 256, "many"),
        (NUMBERS * 1j, "omplex"),
        (None, "requires y"),
        (3.0, "shape"),
        ([object()] * 256, "object"),
    ]
    for y, words in cases:
        for learn in (model.fit, model.partial_fit):
            with pytest.raises((ValueError, TypeError), match="MedLDARegressor") as caught:
                learn(X, y)
            assert words in str(caught.value)
    assert file_of(model) == before


def test_the_loss_cannot_change() -> None:
    for name, loss in (("number", "gibbs"), ("number, gibbs", "averaging")):
        model = fitted(name)
        before, right = file_of(model), model.loss
        with pytest.raises(ValueError, match=f"'loss' parameter of MedLDARegressor was '{right}'"):
            model.set_params(loss=loss).partial_fit(X, NUMBERS)
        with pytest.raises(ValueError, match="'loss' parameter of MedLDARegressor"):
            file_of(model)
        assert file_of(model.set_params(loss=right)) == before


def test_the_averaging_loss_needs_two_rounds() -> None:
    """In the first it has no multipliers yet, so topics do not know the numbers."""
    blind = fitted("number", n_rounds=1, batch_size="all")
    np.testing.assert_array_equal(
        blind.components_,
        fitted("lda", n_topics=6, topic_word_prior=0.1, batch_size="all").components_,
    )
    assert not np.array_equal(blind.components_, fitted("number", batch_size="all").components_)
    assert_same(
        content(fitted("number, gibbs", n_rounds=1)),
        content(fitted("number, gibbs", n_rounds=None)),
    )


def test_ghosts_pull_harder() -> None:
    """A dual with three copies has a box three times as large."""
    one = fitted("number", batch_size="all", C=2e-3)
    three = fitted("number", batch_size="all", C=2e-3, ghosts=3)
    assert np.abs(three.coef_).max() > 2 * np.abs(one.coef_).max()


def test_a_corpus_of_empty_documents() -> None:
    model = model_of("number").fit(sparse.csr_array((4, N_WORDS)), [1.0, 2.0, 3.0, 4.0])
    assert np.isfinite(model.predict(X)).all()


def test_the_scale_is_that_of_the_first_numbers_that_come() -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(1.0, (120, 8))
    y = 1000.0 + 100.0 * X[:, 0]
    nothing = np.ma.masked_all(20)
    model = MedLDARegressor(n_topics=4, random_state=0).partial_fit(X[:20], nothing)
    np.testing.assert_array_equal(model.predict(X[:3]), 0.0)
    model.partial_fit(X[20:], y[20:])
    assert model.intercept_ == pytest.approx(y[20:].mean())
    assert abs(model.predict(X).mean() - y.mean()) < 3 * y.std()


@pytest.mark.parametrize("changed", [{"variance": 3.0}, {"n_topics": 9}])
def test_what_the_prior_is_made_of_cannot_change(changed: dict[str, float]) -> None:
    X = np.random.default_rng(0).poisson(1.0, (40, 8))
    model = MedLDARegressor(n_topics=4, random_state=0).fit(X, X[:, 0].astype(float))
    change(model, **changed)
    for call in (lambda: model.predict(X), lambda: model.partial_fit(X, X[:, 0])):
        with pytest.raises(ValueError, match=f"'{next(iter(changed))}' parameter .* cannot change"):
            call()
