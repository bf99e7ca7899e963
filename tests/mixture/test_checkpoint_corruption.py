"""Files that are whole but say what no model says: a named error, never a broken model.

The bytes of these files are fine, checksums and all; `tests/runtime/store` is about the others.
"""

import copy
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from everlearn.core.stats import Stats
from everlearn.errors import CheckpointError, MemoryBudgetError
from everlearn.estimator import saving as persistence
from everlearn.estimator.saving import load
from everlearn.estimator.schemas import check_stats
from everlearn.mixture.estimator import DPMixture
from everlearn.store.archive import Checkpoint, write_checkpoint
from support.streams import lessons_of, rows_of

COURSES = ("diagonal/missing", "full/weights", "zero-mean/plain", "multinomial/csr")
COURSES += ("multinomial/plain", "diagonal/frame", "diagonal/stochastic", "full/prior")
FUZZ_CASES = 2000


@cache
def _content(course: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    params, lessons = lessons_of(course)
    model = DPMixture(**params)
    for lesson in lessons:
        lesson.give(model)
    header, arrays = model.to_checkpoint()
    return {"estimator": "dp-mixture", **header}, arrays


def content(course: str) -> Checkpoint:
    """Header and arrays of a saved model, for the test to spoil."""
    header, arrays = _content(course)
    return Checkpoint(copy.deepcopy(header), {name: a.copy() for name, a in arrays.items()})


# One thing wrong at a time


def entry(*path: str | int, value: Any) -> Callable[[Checkpoint], None]:
    def spoil(file: Checkpoint) -> None:
        place: Any = file.header
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return spoil


def array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Checkpoint], None]:
    def spoil(file: Checkpoint) -> None:
        file.arrays[name] = change(file.arrays[name])

    return spoil


def without(name: str) -> Callable[[Checkpoint], None]:
    def spoil(file: Checkpoint) -> None:
        del file.arrays[name]

    return spoil


def with_first(value: Any) -> Callable[[np.ndarray], np.ndarray]:
    def change(a: np.ndarray) -> np.ndarray:
        a.flat[0] = value
        return a

    return change


WRONG = [
    ("diagonal/missing", array("sealed/n", lambda a: -a), "sealed/n"),
    ("diagonal/missing", array("sealed/n", lambda a: a[:-1]), "sealed/n"),
    ("diagonal/missing", array("sealed/n", lambda a: a.astype(np.float32)), "sealed/n"),
    ("diagonal/missing", array("batch0/n", lambda a: 5 * a), "batch0/n"),
    ("diagonal/missing", array("sealed/t", with_first(np.nan)), "sealed/t"),
    ("diagonal/missing", array("sealed/t", lambda a: a.T.copy()), "sealed/t"),
    ("diagonal/missing", array("sealed/t", lambda a: -a), "sealed/t"),
    ("diagonal/missing", array("sealed/t", with_first(1e300)), "sealed/t"),
    ("diagonal/missing", array("sealed/h", lambda a: a + 1e9), "sealed/h"),
    ("diagonal/missing", array("prior/rate", lambda a: -a), "prior/rate"),
    ("diagonal/missing", array("prior/rate", lambda a: a * 0), "prior/rate"),
    ("diagonal/missing", array("prior/mean", lambda a: a + 1e200), "prior/mean"),
    ("diagonal/missing", array("origin", lambda a: a[:-1]), "origin"),
    ("diagonal/missing", array("ids", lambda a: a * 0), "ids"),
    ("diagonal/missing", array("ids", lambda a: a - 100), "ids"),
    ("diagonal/missing", array("ids", lambda a: a + 100), "ids"),
    ("diagonal/missing", array("ids", lambda a: a.astype(float)), "ids"),
    ("diagonal/missing", array("batch0/labels", lambda a: a + 10**6), "batch0/labels"),
    ("diagonal/missing", array("batch0/labels", lambda a: a[:-1]), "batch0/X"),
    ("diagonal/missing", array("batch0/X", with_first(np.inf)), "batch0/X"),
    ("diagonal/frame", array("batch0/X", with_first(np.nan)), "batch0/X"),
    ("diagonal/missing", array("sealed/pair_loss", with_first(1.0)), "sealed/pair_loss"),
    ("diagonal/missing", array("sealed/pair_loss", lambda a: a - 1), "sealed/pair_loss"),
    ("diagonal/missing", without("batch0/X"), "batch0/X"),
    ("diagonal/missing", without("ids"), "ids"),
    ("diagonal/missing", without("origin"), "origin"),
    ("full/weights", array("prior/scale", lambda a: -a), "prior/scale"),
    ("full/weights", array("prior/scale", lambda a: a[:-1]), "prior/scale"),
    ("full/weights", array("prior/scale", lambda a: a + np.triu(a + 1, 1)), "prior/scale"),
    ("full/weights", array("batch0/weights", lambda a: -a), "batch0/weights"),
    ("full/weights", array("batch0/weights", lambda a: 0 * a), "batch0/weights"),
    ("full/weights", array("sealed/t", lambda a: a - 1e4), "sealed/t"),
    ("full/weights", entry("state", "family", "degrees_of_freedom", value=2.0), "degrees_of"),
    ("zero-mean/plain", array("sealed/t", lambda a: -a), "sealed/t"),
    ("multinomial/csr", array("prior/counts", lambda a: a - 1), "prior/counts"),
    ("multinomial/csr", array("sealed/t", lambda a: a - 100), "sealed/t"),
    ("multinomial/csr", array("batch0/data", lambda a: -a), "batch0/data"),
    ("multinomial/csr", array("batch0/indices", lambda a: a + 3), "batch0/indptr"),
    ("multinomial/csr", array("batch0/indices", lambda a: a * 0), "batch0/indices"),
    ("multinomial/csr", array("batch0/indptr", lambda a: a[::-1].copy()), "batch0/indptr"),
    ("multinomial/plain", array("batch0/X", lambda a: -a), "batch0/X"),
    ("diagonal/frame", entry("params", "concentration", value=-1.0), "concentration"),
    ("diagonal/frame", entry("params", "max_components", value=0), "max_components"),
    ("diagonal/frame", entry("params", "family", value="full"), "family"),
    ("diagonal/frame", entry("params", "family", value="fancy"), "family"),
    ("diagonal/frame", entry("params", "moves", value=["split"]), "moves"),
    ("diagonal/frame", entry("params", "learner", value="stochastic"), "learner"),
    ("diagonal/frame", entry("params", "colour", value="red"), "colour"),
    ("diagonal/frame", entry("params", "prior", value={"rate": "abc"}), "prior"),
    ("diagonal/frame", entry("params", "prior", value={"rate": [1.0, 2.0]}), "prior"),
    ("diagonal/frame", entry("params", value=[]), "params"),
    ("diagonal/frame", entry("state", "family", "kind", value="poisson"), "kind"),
    ("diagonal/frame", entry("state", "concentration", value=0.0), "concentration"),
    ("diagonal/frame", entry("state", "next_id", value=0), "next_id"),
    ("diagonal/frame", entry("state", "n_batches", value=10**9), "n_batches"),
    ("diagonal/frame", entry("state", "n_batches", value=0), "base"),
    ("diagonal/frame", entry("state", "base", 0, value=1e9), "base"),
    ("diagonal/frame", entry("state", "seed", value=-1), "seed"),
    ("diagonal/frame", entry("state", "clock", value=1.5), "clock"),
    ("diagonal/frame", entry("state", "fresh", value=10**6), "fresh"),
    ("diagonal/frame", entry("state", "birth_trials", value=[[1, 2]]), "birth_trials"),
    ("diagonal/frame", entry("state", "delete_trials", value=[[-1, 0, 1.0]]), "delete_trials"),
    ("diagonal/frame", entry("history", "points", value=[[1, 2, "x", 1]]), "history"),
    ("diagonal/frame", entry("history", "points", value=[[1, 2, 3.0, 1]] * 9999), "points"),
    ("diagonal/frame", entry("history", "counts", value={"joke": 1}), "counts"),
    ("diagonal/frame", entry("n_rows", value=1), "n_rows"),
    ("diagonal/frame", entry("prior_rows", value=10**9), "prior_rows"),
    ("diagonal/frame", entry("settled", value=1), "settled"),
    ("diagonal/frame", entry("feature_names", value=["a", "b"]), "feature_names"),
    ("diagonal/frame", entry("feature_names", value="abc"), "feature_names"),
]


@pytest.mark.parametrize(("course", "spoil", "name"), WRONG)
def test_what_is_wrong_is_named(
    course: str, spoil: Callable[[Checkpoint], None], name: str, tmp_path: Path
) -> None:
    file, path = content(course), tmp_path / "model.evl"
    spoil(file)
    write_checkpoint(path, file.header, file.arrays)
    with pytest.raises(CheckpointError) as caught:
        load(path)
    assert name in str(caught.value)
    assert str(path) in str(caught.value)


def test_members_that_belong_to_nothing_are_refused(tmp_path: Path) -> None:
    file = content("diagonal/frame")
    file.arrays["batch77/X"] = np.ones((2, 3))
    write_checkpoint(tmp_path / "model.evl", file.header, file.arrays)
    with pytest.raises(CheckpointError, match="batch77/X"):
        load(tmp_path / "model.evl")


def test_statistics_of_unknown_families_are_not_waved_through() -> None:
    class Poisson:
        n_features = n_stats = 1

    stats = Stats.zeros(np.arange(1), 1)
    with pytest.raises(TypeError, match="Poisson"):
        check_stats(Poisson(), stats, "sealed")


# Anything wrong, at random

VALUES = [None, True, False, -1, 0, 1, 2, 7, 2**31, 2**63, 2**64 + 1, 10**30, -(10**30), 10**400]
VALUES += [0.0, -0.5, 0.5, 1.5, 1e-320, 1e308, -1e308, "", "x", "full", [], {}, [[]], [1], [0.5]]
VALUES += [{"rate": 1.0}, {"a": {}}, [[0, 0, 0.0]], ["birth"]]


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a tree of lists and objects."""
    if path:
        yield path
    for key in (
        node if isinstance(node, dict) else range(len(node) if isinstance(node, list) else 0)
    ):
        yield from places(node[key], (*path, key))


def spoil_header(file: Checkpoint, rng: np.random.Generator) -> None:
    every = list(places(file.header))
    # Most entries are points of the history; the others should have their turn too.
    every = [p for p in every if p[0] != "history" or rng.random() < 0.1]
    path = every[rng.integers(len(every))]
    place: Any = file.header
    for step in path[:-1]:
        place = place[step]
    old, kind = place[path[-1]], rng.integers(5)
    if kind == 0 and isinstance(old, (int, float)):
        place[path[-1]] = [old + 1, old - 1, -old, old * 1000, float(old)][rng.integers(5)]
    elif kind == 1:
        del place[path[-1]]
    elif kind == 2 and isinstance(old, list):
        place[path[-1]] = old + old
    elif kind == 2 and isinstance(old, dict):
        old["more"] = 1
    else:
        place[path[-1]] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])


def spoil_array(file: Checkpoint, rng: np.random.Generator) -> None:
    names = sorted(file.arrays)
    name, other = (names[i] for i in rng.integers(len(names), size=2))
    old = file.arrays[name]
    if old.dtype.kind not in "fi":
        del file.arrays[name]
        return
    noise = rng.normal(size=old.shape) * 10.0 ** rng.integers(-3, 12)
    one = old.copy()
    if one.size:
        odd = [-1, 0, 1, 2**31 - 1] + (
            [np.nan, np.inf, 1e308, -1e-3] if one.dtype.kind == "f" else []
        )
        one.flat[rng.integers(one.size)] = np.array(odd[rng.integers(len(odd))]).astype(one.dtype)
    changes = [
        one,
        one,
        noise.astype(old.dtype),
        np.abs(noise).astype(old.dtype),
        old * 0,
        -old,
        old * old.dtype.type(3),
        old[:-1] if old.ndim else old,
        np.concatenate([old, old]) if old.ndim else old,
        np.ascontiguousarray(old.T),
        old.astype([np.float32, np.int64, np.int8, np.float16, bool, "U5"][rng.integers(6)]),
        old.reshape(-1),
        old[..., None],
        rng.permutation(old) if old.ndim else old,
        file.arrays[other],
        np.empty((0,) * old.ndim, old.dtype),
        np.array(3, old.dtype),
    ]
    choice = rng.integers(len(changes) + 2)
    if choice < len(changes):
        file.arrays[name] = changes[choice]
    elif choice == len(changes):
        del file.arrays[name]
    else:
        file.arrays[f"{name}x"] = old


def assert_sound(model: DPMixture, course: str) -> None:
    """What was loaded after all must be a model like any other."""
    rows = rows_of(course.split("/")[0], 20, np.random.default_rng(0))
    probabilities = model.predict_proba(rows)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-9)
    assert not np.isnan(model.score_samples(rows)).any()
    assert np.isfinite(model.bound_)
    np.testing.assert_allclose(model.weights_.sum(), 1.0)
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.covariances_).all()
    model.sample(3)
    try:
        model.set_params(batch_size=30, max_components=50, verbose=0).partial_fit(rows)
    except MemoryBudgetError:
        pass  # a budget that is too small is a right parameter
    except ValueError as error:
        # Open rows may be of a size with which no covariance can be computed.
        if "DPMixture cannot learn" not in str(error):
            raise
    assert np.isfinite(model.bound_)


def loaded(file: Checkpoint) -> DPMixture | str:
    """The model, or the message of the named error."""
    with mock.patch.object(persistence, "read_checkpoint", return_value=file):
        try:
            return load("spoilt.evl")
        except CheckpointError as error:
            return str(error)


@pytest.mark.parametrize("course", COURSES)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_random_damage_is_refused_or_harmless(course: str) -> None:
    messages = []
    for case in range(FUZZ_CASES // len(COURSES)):
        rng, file = np.random.default_rng([COURSES.index(course), case]), content(course)
        for _ in range(rng.integers(1, 3)):
            spoil = spoil_header if rng.random() < 0.5 else spoil_array
            with np.errstate(all="ignore"):
                spoil(file, rng)
        found = loaded(file)
        if isinstance(found, str):
            messages.append(found)
        else:
            assert_sound(found, course)
    assert len(messages) > FUZZ_CASES // len(COURSES) // 2
    # An error that nobody had thought of would say that the content "does not make" a model.
    assert all(m.startswith("spoilt.evl: ") and "does not make" not in m for m in messages)


@pytest.mark.parametrize("course", COURSES)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_untouched_content_is_accepted(course: str) -> None:
    model = loaded(content(course))
    assert isinstance(model, DPMixture)
    assert_sound(model, course)
