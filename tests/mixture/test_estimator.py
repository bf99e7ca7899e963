"""How `DPMixture` learns: whatever the rows, their weights, their container and their order."""

import inspect
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from everlearn.errors import NotConvergedWarning
from everlearn.mixture.estimator import DPMixture
from support.streams import FAMILIES, batches_of, file_of, rows_of

RNG = np.random.default_rng


def mixture(family: str = "diagonal", **params: Any) -> DPMixture:
    return DPMixture(**{"family": family, "random_state": 0} | params)


def learned_alike(one: DPMixture, other: DPMixture) -> bool:
    """Whether two models are the same, bit for bit, but for their parameters."""
    same = {**other.get_params(), "family": one.family}
    return file_of(clone_state(one).set_params(**same)) == file_of(other)


def clone_state(model: DPMixture) -> DPMixture:
    twin = clone(model)
    twin.__dict__.update(vars(model))
    return twin


# Attributes


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("params", [{}, {"learner": "stochastic"}, {"dtype": "float32"}])
def test_attributes_and_their_shapes(family: str, method: str, params: dict[str, Any]) -> None:
    X = rows_of(family, 300, RNG(0))
    model = getattr(mixture(family, **params), method)(X)
    k = model.n_components_
    assert k > 1
    assert model.weights_.shape == model.component_ids_.shape == (k,)
    assert model.means_.shape == (k, 3)
    square = family in ("full", "zero-mean")
    assert model.covariances_.shape == ((k, 3, 3) if square else (k, 3))
    np.testing.assert_allclose(model.weights_.sum(), 1.0, atol=1e-12)
    assert (model.weights_ > 0).all()
    assert len(set(model.component_ids_.tolist())) == k
    assert model.n_samples_seen_ == 300
    assert model.n_features_in_ == 3
    assert np.isfinite(model.bound_)
    assert len(model.bound_history_) == len(model.history_.points) > 0
    assert model.history_.points[-1].n_components == k
    assert isinstance(model.converged_, bool)
    if square:
        assert (np.linalg.eigvalsh(model.covariances_) > 0).all()


def test_nothing_is_known_before_learning() -> None:
    for name in ("weights_", "means_", "bound_", "component_ids_", "history_", "converged_"):
        with pytest.raises(NotFittedError, match="DPMixture"):
            getattr(DPMixture(), name)
    for method in ("predict", "score_samples", "transform"):
        with pytest.raises(NotFittedError):
            getattr(DPMixture(), method)(np.eye(2))


def test_attributes_are_copies() -> None:
    model = mixture().fit(rows_of("diagonal", 100, RNG(0)))
    before = file_of(model)
    for name in ("weights_", "means_", "covariances_", "component_ids_", "bound_history_"):
        getattr(model, name)[:] = 0
    assert file_of(model) == before


def test_parameters_are_stored_as_given_and_cloned() -> None:
    params = {name: object() for name in inspect.signature(DPMixture).parameters}
    assert DPMixture(**params).get_params() == params
    prior = {"rate": np.ones(3)}
    model = DPMixture(prior=prior, max_laps=7)
    assert model.prior is prior
    assert clone(model).get_params()["max_laps"] == 7
    assert not hasattr(clone(model.partial_fit(rows_of("diagonal", 50, RNG(0)))), "n_features_in_")
    assert repr(DPMixture(family="full")) == "DPMixture(family='full')"


def test_the_bound_never_falls() -> None:
    for family in FAMILIES:
        model = mixture(family).fit(rows_of(family, 2000, RNG(1)))
        steps = np.diff([*model.bound_history_, model.bound_])
        assert (steps >= -1e-9 * abs(model.bound_)).all(), family


# Edges


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "X",
    [
        pytest.param(np.array([[1.0, 2.0, 0.0]]), id="one row"),
        pytest.param(np.arange(40.0)[:, None] % 7, id="one feature"),
        pytest.param(np.array([[3.0]]), id="one number"),
        pytest.param(np.full((30, 2), 4.0), id="duplicate rows"),
        pytest.param(np.zeros((5, 3)), id="zeros"),
        pytest.param(np.c_[np.arange(50.0) % 3, np.full(50, 1e6)], id="constant column"),
        pytest.param(np.eye(4, 60), id="wider than long"),
        pytest.param(np.arange(12).reshape(6, 2), id="integers"),
        pytest.param(np.eye(6, dtype=bool), id="truth values"),
        pytest.param(np.eye(6, dtype=np.float16), id="half precision"),
    ],
)
def test_edge_cases(family: str, method: str, X: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = getattr(mixture(family), method)(X)
        again = model.partial_fit(X).predict_proba(X)
    np.testing.assert_allclose(again.sum(axis=1), 1.0, atol=1e-9)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.means_).all()
    assert model.sample(4)[0].shape == (4, X.shape[1])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("learner", ["memoized", "stochastic"])
def test_batches_of_one_row(family: str, learner: str) -> None:
    model = mixture(family, learner=learner)
    for row in rows_of(family, 40, RNG(0)):
        model.partial_fit(row[None])
    assert model.n_samples_seen_ == 40
    np.testing.assert_allclose(model._learned.state.total.n.sum(), 40)
    assert np.isfinite(model.bound_)


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_never_more_components_than_allowed(limit: int, method: str) -> None:
    X = np.concatenate([RNG(c).normal(30 * c, 1, (100, 2)) for c in range(8)])
    RNG(0).shuffle(X)
    model = mixture(max_components=limit, birth_window=200)
    for batch in np.array_split(X, 1 if method == "fit" else 8):
        getattr(model, method)(batch)
        assert model.n_components_ <= limit
    assert max(p.n_components for p in model.history_.points) <= limit


def test_moves_can_be_forbidden() -> None:
    X = rows_of("diagonal", 500, RNG(0))
    for moves in ((), ("merge",), ("delete",), ("birth", "merge")):
        model = mixture(moves=moves).fit(X)
        assert model.n_components_ >= 3
        assert {key.split()[0] for key in model.history_.counts} <= set(moves)
    still = mixture(moves=()).fit(X)
    assert {point.n_components for point in still.history_.points} == {still.n_components_}
    before = still.n_components_
    assert still.partial_fit(X + 100.0).n_components_ == before


def test_laps_that_run_out_are_told() -> None:
    X = rows_of("diagonal", 500, RNG(0))
    with pytest.warns(NotConvergedWarning, match="max_laps=1"):
        model = mixture(max_laps=1).fit(X)
    assert not model.converged_
    assert mixture().fit(X).converged_


def test_a_warning_that_is_an_error_leaves_the_model_as_it_was() -> None:
    model = mixture().fit(rows_of("diagonal", 100, RNG(0)))
    before = file_of(model)
    model.set_params(max_laps=1)
    with pytest.raises(NotConvergedWarning):  # in tests every warning is an error
        model.fit(rows_of("diagonal", 500, RNG(1)))
    assert file_of(model.set_params(max_laps=200)) == before
    begun = mixture(max_laps=1)
    with pytest.raises(NotConvergedWarning):
        begun.fit(rows_of("diagonal", 500, RNG(1)))
    assert not begun.__sklearn_is_fitted__()


@pytest.mark.parametrize("learner", ["memoized", "stochastic"])
def test_only_fit_converges(learner: str) -> None:
    X = rows_of("diagonal", 500, RNG(0))
    model = mixture(learner=learner)
    assert not model.partial_fit(X).converged_
    assert model.fit(X).converged_
    assert model.partial_fit(X).converged_


# Blending


@pytest.mark.parametrize("portion", [1, 10, 1000])
def test_a_stochastic_stream_learns_in_whatever_portions(portion: int) -> None:
    X = RNG(0).normal(3.0, 1.0, (1000, 1))
    model = mixture(learner="stochastic", max_components=1)
    for start in range(0, 1000, portion):
        model.partial_fit(X[start : start + portion])
    np.testing.assert_allclose(model.means_, 3.0, atol=0.15)


def test_one_row_moves_a_stochastic_model_by_its_share() -> None:
    X = RNG(0).normal(size=(1000, 1))
    model = mixture(learner="stochastic", max_components=1).partial_fit(X)
    before = model.means_[0, 0]
    model.partial_fit([[3.0]])
    assert 0 < model.means_[0, 0] - before < 0.01 * 3.0


def test_later_blends_are_in_the_history() -> None:
    model = mixture(learner="stochastic", batch_size=50)
    for X in batches_of("diagonal", [200, 100, 30]):
        model.partial_fit(X)
    rows = [point.rows for point in model.history_.points]
    assert rows == [200, 250, 300, 330]
    np.testing.assert_allclose(model.bound_history_[-1], model.bound_)


# Weights, order and repetition


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_weight_counts_like_repetition(family: str, method: str) -> None:
    X, weights = rows_of(family, 60, RNG(0)), RNG(1).integers(0, 4, 60)
    prior = {"multinomial": {}, "zero-mean": {"scale": 1.0}}.get(family, {"mean": 0.0})
    prior |= {"diagonal": {"rate": 1.0}, "full": {"scale": 1.0}}.get(family, {})
    one, other = (mixture(family, prior=prior, max_components=1) for _ in range(2))
    getattr(one, method)(X, sample_weight=weights)
    getattr(other, method)(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(one.bound_, other.bound_, rtol=1e-9)
    np.testing.assert_allclose(one.means_, other.means_, atol=1e-9)
    np.testing.assert_allclose(one.covariances_, other.covariances_, rtol=1e-9)
    np.testing.assert_allclose(one.score_samples(X), other.score_samples(X), rtol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("learner", ["memoized", "stochastic"])
def test_fit_sees_neither_order_nor_repetition(family: str, learner: str) -> None:
    X, weights = rows_of(family, 400, RNG(0)), RNG(1).integers(0, 4, 400)
    model = mixture(family, learner=learner).fit(X, sample_weight=weights)
    order = RNG(2).permutation(400)
    shuffled = clone(model).fit(X[order], sample_weight=weights[order])
    repeated = clone(model).fit(np.repeat(X, weights, axis=0)[::-1])
    assert file_of(model) == file_of(shuffled)
    for name in ("means_", "weights_", "covariances_", "component_ids_", "bound_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(repeated, name))
    assert repeated.n_samples_seen_ == weights.sum()


def test_weights_scale_the_statistics_of_a_stream() -> None:
    for learner in ("memoized", "stochastic"):
        model = mixture(learner=learner)
        for X in batches_of("diagonal", [100, 50, 70]):
            model.partial_fit(X, sample_weight=np.full(len(X), 2.5))
        np.testing.assert_allclose(model._learned.state.total.n.sum(), 2.5 * 220, rtol=1e-9)


def test_a_number_is_a_weight_for_all() -> None:
    X = rows_of("diagonal", 50, RNG(0))
    one, other = mixture(), mixture()
    one.partial_fit(X, sample_weight=2.0)
    other.partial_fit(X, sample_weight=np.full(50, 2.0))
    assert file_of(one) == file_of(other)


# Beginning anew and going on


@pytest.mark.parametrize("family", FAMILIES)
def test_fit_forgets_and_partial_fit_does_not(family: str) -> None:
    first, second = batches_of(family, [200, 150])
    fresh = mixture(family).fit(second)
    assert file_of(mixture(family).fit(first).fit(second)) == file_of(fresh)
    assert file_of(mixture(family).partial_fit(first).fit(second)) == file_of(fresh)
    both = mixture(family).fit(first).partial_fit(second)
    assert both.n_samples_seen_ == 350
    np.testing.assert_allclose(both._learned.state.total.n.sum(), 350)
    assert mixture(family).fit(first[:, :2]).fit(second).n_features_in_ == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_the_seed_says_it_all(family: str) -> None:
    def learned(seed: Any) -> DPMixture:
        model = mixture(family, random_state=seed)
        for X in batches_of(family, [60, 90]):
            model.partial_fit(X)
        return model

    assert file_of(learned(3)) == file_of(learned(3))
    assert learned_alike(learned(np.random.RandomState(3)), learned(3))
    assert learned(None).n_components_ == learned(3).n_components_
    state = np.random.RandomState(3)
    assert not learned_alike(learned(state), learned(state))


@pytest.mark.parametrize("learners", [("stochastic", "memoized"), ("memoized", "stochastic")])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_the_learner_stays(learners: tuple[str, str], method: str) -> None:
    """Blended statistics are no sums over rows: no exact bound can build on them."""
    X = np.concatenate([RNG(c).normal(2.5 * c, 1, (200, 1)) for c in range(3)])
    model = getattr(mixture(learner=learners[0]), method)(X)
    before = file_of(model)
    model.set_params(learner=learners[1])
    for act in (model.partial_fit, model.predict):
        with pytest.raises(ValueError, match=rf"'learner' .*{learners[0]}.*{learners[1]}"):
            act(X[:60])
    assert file_of(model.set_params(learner=learners[0])) == before
    assert model.set_params(learner=learners[1]).fit(X).n_samples_seen_ == 600


def test_the_prior_is_taken_while_a_stream_settles() -> None:
    first, second, third = batches_of("diagonal", [60, 200, 200])
    one, other = mixture(prior={"rate": 9.0}).partial_fit(first), mixture().partial_fit(first)
    for model in (one, other):
        model.set_params(prior={"rate": 2.0}).partial_fit(second)
        assert (model._learned.state.model.family.prior.rate == 2.0).all()
        model.set_params(prior={"rate": 5.0}).partial_fit(third)
        assert (model._learned.state.model.family.prior.rate == 2.0).all()


def test_the_window_is_for_streams() -> None:
    X = rows_of("diagonal", 500, RNG(0))
    small, large = (mixture(birth_window=n).fit(X).set_params(birth_window=7) for n in (3, 900))
    assert file_of(small) == file_of(large)
    assert small.n_components_ == 3


def test_ids_are_never_used_twice() -> None:
    """Again and again two clusters appear that turn out to be one: births, merges, deletes."""
    n_gone = n_merges = 0
    for seed in range(5):
        prior = {"rate": 1.0, "shape": 1.0, "mean": 0.0}
        rng, model = RNG(seed), mixture(birth_window=300, batch_size=50, prior=prior)
        gone: set[int] = set()
        before: set[int] = set()
        lap = newest = -1
        for centre in 60.0 * np.arange(12):
            two = centre + 3 * rng.choice([-1, 1], (60, 1)) + 0.5 * rng.normal(size=(60, 1))
            one = centre + 3 * rng.normal(size=(400, 1))
            for X in (two, one[:200], one[200:]):
                model.partial_fit(X)
                now = set(model.component_ids_.tolist())
                assert not now & gone
                gone |= before - now
                before = now
                for move in model.history_.moves:
                    if move.lap > lap and move.kind == "birth":
                        assert min(move.added) > newest
                lap, newest = model.history_.points[-1].lap, model._learned.state.next_id - 1
        n_gone += len(gone)
        n_merges += model.history_.counts.get("merge accepted", 0)
    assert n_gone > 2
    assert n_merges > 1


# Containers


def test_frames_with_names() -> None:
    X, names = rows_of("diagonal", 200, RNG(0)), ["a", "b", "c"]
    plain = mixture().fit(X)
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = mixture().fit(frame)
        assert model.feature_names_in_.tolist() == names
        np.testing.assert_array_equal(model.predict_proba(frame), plain.predict_proba(X))
        model.partial_fit(frame)
        with pytest.raises(ValueError, match=r"DPMixture.*feature names"):
            model.partial_fit(frame[["b", "a", "c"]])
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            model.predict(X)


def test_masked_entries_are_missing() -> None:
    X = rows_of("diagonal", 200, RNG(0))
    holes = RNG(1).random(X.shape) < 0.1
    for dtype in (np.float64, np.float32, np.int64):
        masked = np.ma.masked_array(X.astype(dtype), holes)
        masked.data[holes] = -7777
        model, plain = mixture().fit(masked), np.where(holes, np.nan, X.astype(dtype))
        assert file_of(model) == file_of(mixture().fit(plain))
        with pytest.raises(ValueError, match=r"DPMixture contains NaN"):
            mixture("full").fit(masked)
        assert mixture("full").fit(np.ma.masked_array(X)).n_components_ == 3


def test_frames_of_all_kinds_of_numbers() -> None:
    numbers = {"a": [1, 2, None, 4] * 9, "b": [0.5, 1.5, 2.5, 9.0] * 9, "c": [True, False] * 18}
    plain = np.array([numbers["a"], numbers["b"], numbers["c"]], float).T
    expected = mixture().fit(plain)
    nullable = pd.DataFrame(numbers).astype({"a": "Int64", "b": "Float64"})
    for frame in (pd.DataFrame(numbers), nullable, pl.DataFrame(numbers)):
        np.testing.assert_allclose(mixture().fit(frame).bound_, expected.bound_)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_sparse_rows_are_like_dense_ones(method: str) -> None:
    X = rows_of("multinomial", 300, RNG(0))
    dense = getattr(mixture("multinomial"), method)(X)
    for container in (sparse.csr_array, sparse.csr_matrix):
        model = getattr(mixture("multinomial"), method)(container(X))
        np.testing.assert_allclose(model.bound_, dense.bound_, rtol=1e-12)
        np.testing.assert_allclose(model.means_, dense.means_, rtol=1e-6)
        np.testing.assert_allclose(model.score_samples(container(X)), dense.score_samples(X))
        np.testing.assert_allclose(
            model.predict_proba(container(X)), dense.predict_proba(X), atol=1e-6
        )


def test_dense_and_sparse_batches_may_take_turns() -> None:
    batches = batches_of("multinomial", [30, 40, 50, 60])
    same = mixture("multinomial")
    turns = [mixture("multinomial"), mixture("multinomial")]
    for i, X in enumerate(batches):
        same.partial_fit(X)
        for parity, model in enumerate(turns):
            model.partial_fit(sparse.csr_array(X) if i % 2 == parity else X)
    for model in turns:
        np.testing.assert_allclose(model.bound_, same.bound_, rtol=1e-9)
