"""What several estimators save comes back as it was, and what cannot be is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from everlearn.core.families.gaussian_full import FullGaussian, NormalWishartPrior
from everlearn.core.families.gaussian_zero_mean import WishartPrior, ZeroMeanGaussian
from everlearn.core.families.multinomial import DirichletPrior, Multinomial
from everlearn.core.moves import LapInfo, MoveRecord
from everlearn.core.stats import Stats
from everlearn.core.tree import Tree
from everlearn.engine.rows import Rows
from everlearn.errors import CheckpointError
from everlearn.estimator.history import History
from everlearn.estimator.schemas import (
    FAMILY,
    HISTORY,
    ROWS,
    STATS,
    TREE,
    check_rows,
    check_stats,
)
from everlearn.store.schema import Reading, Schema

RNG = np.random.default_rng(0)
D = 3
DIAGONAL = DiagGaussian(NormalGammaPrior(np.zeros(D), 0.5, 2.0, np.ones(D)), np.ones(D))
FAMILIES: dict[str, Any] = {
    "diagonal": DIAGONAL,
    "missing": replace(DIAGONAL, missing=True),
    "full": FullGaussian(NormalWishartPrior(np.zeros(D), 0.5, D + 2.0, np.eye(D)), np.ones(D)),
    "zero-mean": ZeroMeanGaussian(WishartPrior(D + 2.0, np.eye(D))),
    "multinomial": Multinomial(DirichletPrior(np.full(D, 0.3)), trials=7),
}


def saved(schema: Schema, value: Any) -> tuple[Any, dict[str, Any]]:
    arrays: dict[str, Any] = {}
    return schema.pack(value, "it", arrays), arrays


def loaded(schema: Schema, packed: Any, arrays: dict[str, Any]) -> Any:
    file = Reading(arrays)
    value = schema.unpack(packed, "it", file)
    assert file.used == set(arrays)
    return value


def returned(schema: Schema, value: Any) -> Any:
    return loaded(schema, *saved(schema, value))


def table_of(name: str) -> Any:
    if name == "multinomial":
        return RNG.poisson(2.0, (20, D)).astype(float)
    X = RNG.normal(size=(20, D))
    X[:4, 0] = np.nan if name == "missing" else 0.0
    return X


def stats_of(name: str) -> Stats:
    family, X = FAMILIES[name], table_of(name)
    r = RNG.dirichlet(np.ones(2), 20)
    h = -(r * np.log(r)).sum(axis=0)
    base = float(family.log_base(X).sum())
    return Stats(np.array([4, 1]), r.sum(axis=0), r.T @ family.features(X), h, base)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_and_their_statistics_come_back(name: str) -> None:
    family, stats = FAMILIES[name], stats_of(name)
    twin = returned(FAMILY, family)
    assert type(twin) is type(family)
    assert saved(FAMILY, twin)[0] == saved(FAMILY, family)[0]
    np.testing.assert_equal(saved(FAMILY, twin)[1], saved(FAMILY, family)[1])
    back = returned(STATS, stats)
    np.testing.assert_equal(
        (back.ids, back.n, back.t, back.h, back.base),
        (stats.ids, stats.n, stats.t, stats.h, stats.base),
    )
    check_stats(twin, back, "stats")


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("part", ["n", "t", "h", "base"])
def test_statistics_that_no_rows_have_are_refused(name: str, part: str) -> None:
    stats = stats_of(name)
    wrong: Any = {
        "n": stats.n * -1.0,
        "t": -np.abs(stats.t) - 1.0,
        "h": stats.h + 1e3,
        "base": -1e9,
    }
    with pytest.raises(CheckpointError, match=f"stats/{part}"):
        check_stats(FAMILIES[name], replace(stats, **{part: wrong[part]}), "stats")


def test_priors_that_no_family_has_are_refused() -> None:
    for prior, words in (
        (WishartPrior(D + 2.0, -np.eye(D)), "it/prior/scale"),
        (WishartPrior(D - 1.5, np.eye(D)), "degrees_of_freedom' must be above 2"),
    ):
        with pytest.raises(CheckpointError, match=words):
            returned(FAMILY, ZeroMeanGaussian(prior))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["dense", "sparse", "empty"])
def test_rows_come_back_with_their_dtype(form: str, dtype: Any) -> None:
    X = table_of("multinomial").astype(dtype)
    X[3] = 0.0
    table = X if form == "dense" else sparse.csr_array(X * (form == "sparse"))
    back = returned(ROWS, Rows(table, np.ones(20)))
    assert type(back.X) is type(table)
    assert back.X.dtype == dtype
    assert back.X.shape == (20, D)
    if form == "dense":
        np.testing.assert_array_equal(back.X, X)
    else:
        assert (table != back.X).nnz == 0
    check_rows(FAMILIES["multinomial"], back, "rows")
    assert returned(ROWS, Rows(X)).weights is None


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("full", Rows(np.ones((2, D + 1))), "rows/X"),
        ("full", Rows(np.ones((0, D))), "one or more rows"),
        ("full", Rows(np.full((2, D), np.nan)), "without missing"),
        ("full", Rows(sparse.csr_array(np.ones((2, D)))), "dense"),
        ("multinomial", Rows(-np.ones((2, D))), "counts"),
        ("multinomial", Rows(sparse.csr_array(-np.ones((2, D)))), "counts"),
        ("multinomial", Rows(np.ones((2, D)), np.zeros(2)), "rows/weights"),
        ("multinomial", Rows(np.ones((2, D)), np.ones(3)), "rows/weights"),
    ],
)
def test_rows_that_a_family_cannot_have_are_refused(name: str, rows: Rows, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        check_rows(FAMILIES[name], rows, "rows")


@pytest.mark.parametrize(
    ("entry", "value"),
    [("indices", [1, 0]), ("indices", [0, 0]), ("indices", [0, 9]), ("starts", [0, 3])],
)
def test_sparse_rows_that_cannot_be_are_refused(entry: str, value: list[int]) -> None:
    packed, arrays = saved(ROWS, Rows(sparse.csr_array(np.ones((1, 2)))))
    place = f"it/X/{entry}"
    arrays[place] = np.array(value, arrays[place].dtype)
    with pytest.raises(CheckpointError, match="it/X"):
        loaded(ROWS, packed, arrays)


TREE_OF_FOUR = Tree.root(3).grown(0, [1, 2]).grown(1, [3])


def test_a_tree_comes_back() -> None:
    back = returned(TREE, TREE_OF_FOUR)
    assert back.ids.tolist() == TREE_OF_FOUR.ids.tolist()
    assert back.parents.tolist() == TREE_OF_FOUR.parents.tolist()
    assert back.depth == 3


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("ids", np.array([0, 1, 1, 3])),
        ("ids", np.array([], np.int64)),
        ("parents", np.array([0, 0, 1, 1])),
        ("parents", np.array([-1, -1, 1, 1])),
        ("parents", np.array([-1, 2, 1, 1])),
        ("depth", 2),
    ],
)
def test_what_is_no_tree_is_refused(part: str, value: Any) -> None:
    with pytest.raises(CheckpointError, match="it/"):
        returned(TREE, replace(TREE_OF_FOUR, **{part: value}))


def lap(clock: int) -> LapInfo:
    birth = MoveRecord("birth", (0,), (clock + 1, clock + 2), 3.5, clock % 2 == 0)
    return LapInfo(clock, -1.5 * clock, 2, 10.0 * clock, (birth,), False)


def test_a_history_comes_back() -> None:
    history = History()
    assert returned(HISTORY, history) == history
    for clock in range(6):
        history = history.after(lap(clock))
    assert returned(HISTORY, history) == history


def test_a_history_that_cannot_be_is_refused() -> None:
    history = History().after(lap(0))
    packed, arrays = saved(HISTORY, history)
    for change in (-1.0, 0.5):
        curve = arrays["it/curve"].copy()
        curve[0, 1] = change
        with pytest.raises(CheckpointError, match="it/curve"):
            loaded(HISTORY, packed, {"it/curve": curve})
    with pytest.raises(CheckpointError, match="it/counts/keys/0"):
        loaded(HISTORY, {**packed, "counts": {"keys": ["a"], "values": [1]}}, arrays)
