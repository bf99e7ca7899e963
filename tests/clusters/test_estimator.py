"""`Clusters`: what users see."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

import everlearn
from everlearn import Clusters
from everlearn.clusters.settings import needed_bytes
from support.cluster_data import labelled, model_of, rows_of, two_islands


@pytest.mark.parametrize("shape", ["round", "axis-parallel", "oblique"])
def test_planted_clusters_are_found(shape: str) -> None:
    X, y = labelled(2000, 1, n_features=4, n_components=9, shape=shape)
    for seed in range(3):
        model = Clusters(random_state=seed).fit(X)
        assert model.n_clusters_ == 9
        assert adjusted_rand_score(y, model.labels_) > 0.98


@pytest.mark.parametrize("n_columns", [2, 5, 15])
def test_one_gaussian_is_one_cluster(n_columns: int) -> None:
    found = [
        model_of().fit(np.random.default_rng(seed).normal(size=(500, n_columns))).n_clusters_
        for seed in range(3)
    ]
    assert found == [1] * 3


def test_units_of_columns_do_not_matter() -> None:
    X, y = labelled(1200, 2, n_features=6, n_components=5)
    model = model_of().fit(X * [1, 1e5, 1, 1e-4, 10, 1])
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert model.levels_.units == "standardised"


def test_predict_gives_permanent_ids_the_largest_first() -> None:
    model = model_of().fit(rows_of(900))
    np.testing.assert_array_equal(model.predict(rows_of(900)), model.labels_)
    sizes = np.bincount(model.labels_)
    assert (np.diff(sizes) <= 0).all()
    np.testing.assert_array_equal(model.cluster_ids_, np.arange(6))
    np.testing.assert_allclose(model.weights_, sizes / 900)
    means = [rows_of(900)[model.labels_ == i].mean(axis=0) for i in model.cluster_ids_]
    np.testing.assert_allclose(model.means_, means)


def test_the_number_of_clusters_can_be_given() -> None:
    X = rows_of(900)
    for wanted in (1, 2, 4, 6, 9):
        model = model_of(n_clusters=wanted).fit(X)
        assert model.n_clusters_ == len(np.unique(model.labels_)) == wanted
        assert "n_clusters is given" in str(model.levels_)


@pytest.mark.parametrize("call", ["fit", "cut"])
def test_more_clusters_than_the_finest_level_has_are_refused(call: str) -> None:
    model = model_of().fit(rows_of(100))
    act = {
        "fit": lambda: model.set_params(n_clusters=99_999).fit(rows_of(100)),
        "cut": lambda: model.cut(99_999),
    }[call]
    with pytest.raises(ValueError, match="'n_clusters' parameter of Clusters must be at most"):
        act()


def test_cut_shows_another_level_and_changes_nothing() -> None:
    X, y = labelled(1500, 5, n_components=8)
    model = model_of().fit(X)
    for wanted in (2, 5, 8, 12):
        cut = model.cut(wanted)
        labels = cut.predict(X)
        assert cut.n_clusters == len(np.unique(labels)) == wanted
    assert model.n_clusters_ == 8
    assert adjusted_mutual_info_score(y, model.cut(8).predict(X)) > 0.98
    with pytest.raises(ValueError, match=r"Clusters\.cut must be an integer at least 1"):
        model.cut(0)


def test_a_cut_outlives_later_learning() -> None:
    X = rows_of(600)
    model = model_of().fit(X)
    cut = model.cut(3)
    before = cut.predict(X)
    model.partial_fit(rows_of(600, 1) + 100)
    np.testing.assert_array_equal(cut.predict(X), before)


def test_levels_say_which_one_is_the_default_and_why() -> None:
    levels = model_of().fit(rows_of(900)).levels_
    chosen = [level for level in levels if level.is_default]
    assert len(chosen) == 1
    assert chosen[0].gap == max(level.gap for level in levels if level.n_clusters > 1)
    table = str(levels)
    assert table.count(">") == 1
    assert "This level cuts fewest links" in table
    assert levels[0].n_clusters <= levels[len(levels) - 1].n_clusters


def test_a_single_mode_has_no_default_level() -> None:
    levels = model_of().fit(np.random.default_rng(0).normal(size=(300, 3))).levels_
    assert not any(level.is_default for level in levels)
    assert "one cluster" in levels.why


def test_joins_are_listed() -> None:
    rng = np.random.default_rng(0)
    bars = np.concatenate([rng.uniform(-1, 1, (700, 2)) * [30, 1] + [0, y] for y in (-9, 9)])
    levels = model_of().fit(bars).levels_
    assert len(levels.joins) > 0
    assert f"{len(levels.joins)} joins leave {levels.n_clusters} clusters" in str(levels)


def test_few_or_equal_rows_are_one_cluster() -> None:
    for X in (rows_of(3), np.ones((50, 2)), np.repeat(rows_of(4), 30, axis=0)):
        model = model_of().fit(X)
        assert model.n_clusters_ == 1
        assert set(model.labels_) == {0}
        assert "too few distinct rows" in str(model.levels_)


def test_few_rows_make_the_given_number_of_clusters() -> None:
    labels = model_of(n_clusters=2).fit([[0.0, 0], [1, 0], [50, 0], [51, 0], [52, 0]]).labels_
    assert labels.tolist() == [1, 1, 0, 0, 0]


def test_separate_islands_are_two() -> None:
    assert model_of().fit(two_islands()).n_clusters_ == 2


# ---------------------------------------------------------------------- streams


def test_a_stream_that_was_grouped_at_its_end_equals_fit() -> None:
    X = rows_of(1100)
    whole, parts = model_of().fit(X), model_of()
    for first in (0, 500, 1000):
        parts.partial_fit(X[first : first + 500])
    assert parts._learned.n_grouped == 1100
    np.testing.assert_array_equal(whole._learned.grouping.books, parts._learned.grouping.books)
    assert adjusted_rand_score(whole.labels_, parts.predict(X)) == 1.0


def test_a_few_more_rows_do_not_regroup() -> None:
    model = model_of().partial_fit(rows_of(500))
    grouping = model._learned.grouping
    model.partial_fit(rows_of(40, 1))
    assert model._learned.grouping is grouping
    assert model.n_samples_seen_ == 540
    model.partial_fit(rows_of(40, 1))
    assert model._learned.grouping is not grouping


def test_sorted_streams_find_new_clusters_and_keep_ids() -> None:
    X, y = labelled(1800, 3, n_components=6)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    model, old = model_of(), None
    for first in range(0, 1800, 150):
        model.partial_fit(X[first : first + 150])
        now = model.predict(X[:150])
        if old is not None:
            assert (now == old).mean() > 0.9
        old = now
    assert model.n_clusters_ == 6
    assert adjusted_rand_score(y, model.predict(X)) > 0.98


def test_splits_are_recorded_and_ids_never_come_back() -> None:
    X, y = labelled(1200, 4, n_components=4)
    model, seen = model_of(), set[int]()
    for k in range(4):
        new = set(model.partial_fit(X[y == k]).cluster_ids_.tolist())
        assert all(i > max(seen, default=-1) for i in new - seen)
        seen |= new
    added = {i for move in model.history_.moves if move.kind == "split" for i in move.added}
    assert set(model.cluster_ids_.tolist()) <= added | {0}
    assert model.history_.points[-1].n_components == model.n_clusters_
    assert [point.rows for point in model.history_.points][-1] == 1200


def test_another_number_is_taken_at_the_next_batch() -> None:
    model = model_of().partial_fit(rows_of(600))
    model.set_params(n_clusters=3).partial_fit(rows_of(1, 1))
    assert model.n_clusters_ == 3
    model.set_params(n_clusters=None).partial_fit(rows_of(1, 1))
    assert model.n_clusters_ == 6


def test_labels_are_those_of_fit_only(tmp_path: object) -> None:
    model = model_of().fit(rows_of(200)).partial_fit(rows_of(20, 1))
    with pytest.raises(AttributeError, match="only after a fit"):
        _ = model.labels_


# ---------------------------------------------------------------------- memory, mixture


def test_a_budget_is_kept() -> None:
    model = model_of(memory_budget="600kB")
    for seed in range(8):
        model.partial_fit(rows_of(500, seed))
    report = model.memory_report()
    assert report["total"] is not None
    assert report["total"] <= 600_000
    assert report["max_sample_rows"] == len(model._learned.sample)


@pytest.mark.parametrize("n_columns", [2, 50, 300])
def test_bytes_are_not_underestimated(n_columns: int) -> None:
    X = np.random.default_rng(0).normal(size=(600, n_columns))
    report = model_of().fit(X).memory_report()
    assert report["total"] is not None
    assert report["total"] <= needed_bytes(600, n_columns)


def test_too_small_a_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="'memory_budget' parameter of Clusters must be at least"):
        model_of(memory_budget=1000).fit(rows_of(50))


def test_the_mixture_below_has_densities_and_is_learned_once() -> None:
    model = model_of().fit(rows_of(400))
    mixture = model.mixture_
    assert mixture is model.mixture_
    assert np.isfinite(mixture.score_samples(rows_of(10))).all()
    assert mixture.outlier_score([[1e3] * 3])[0] > mixture.outlier_score(rows_of(10)).max()
    model.partial_fit(rows_of(400, 1))
    assert model.mixture_ is not mixture


def test_score_prefers_rows_like_those_seen() -> None:
    model = model_of().fit(rows_of(400))
    assert model.score(rows_of(400)) > model.score(rows_of(400) * 2)


def test_sparse_rows_are_refused_with_advice() -> None:
    with pytest.raises(TypeError, match="TruncatedSVD"):
        model_of().fit(sparse.csr_array(rows_of(20)))


def test_gaps_are_refused_with_advice() -> None:
    X = rows_of(20)
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="SimpleImputer"):
        model_of().fit(X)


def test_a_loaded_model_cuts_and_explains_as_before(tmp_path: object) -> None:
    path = f"{tmp_path}/model.evl"
    model = model_of().fit(rows_of(400))
    model.save(path)
    loaded = everlearn.load(path)
    assert str(loaded.levels_) == str(model.levels_)
    X = rows_of(50, 1)
    np.testing.assert_array_equal(loaded.cut(3).predict(X), model.cut(3).predict(X))
