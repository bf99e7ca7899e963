"""Files that contradict themselves: a named error, or a model that works.

Missing, misshapen and extreme entries are the subject of `test_conformance`. The bytes of these
files are right, with checksums; `tests/store` damages those.
"""

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everlearn.core.stats import Stats
from everlearn.errors import CheckpointError, MemoryBudgetError
from everlearn.estimator.saving import load
from everlearn.estimator.schemas import check_stats
from everlearn.mixture.estimator import DPMixture
from everlearn.store.archive import Checkpoint, write_checkpoint
from support.spoiling import entry, loaded, places
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

STATE = "learned/state"
SEALED = f"{STATE}/sealed/stats"
BATCH = f"{STATE}/batches/0"
Change = Callable[[np.ndarray], np.ndarray]


def array(name: str, change: Change) -> Callable[[Checkpoint], None]:
    def spoil(file: Checkpoint) -> None:
        file.arrays[name] = change(file.arrays[name])

    return spoil


def learned(*path: str | int, value: Any) -> Callable[[Checkpoint], None]:
    return entry("learned", *path, value=value)


def with_first(value: Any) -> Change:
    def change(a: np.ndarray) -> np.ndarray:
        a.flat[0] = value
        return a

    return change


ARRAYS: list[tuple[str, str, Change, str]] = [
    ("diagonal/missing", f"{BATCH}/stats/n", lambda a: 5 * a, f"{BATCH}/stats/"),
    ("diagonal/missing", f"{SEALED}/t", lambda a: -a, f"{SEALED}/t"),
    ("diagonal/missing", f"{SEALED}/t", with_first(1e299), f"{SEALED}/t"),
    ("diagonal/missing", f"{SEALED}/h", lambda a: a + 1e9, f"{SEALED}/h"),
    ("diagonal/missing", f"{STATE}/model/family/prior/rate", lambda a: a * 0, "prior/rate"),
    ("diagonal/missing", f"{SEALED}/ids", lambda a: a * 0, f"{SEALED}/ids"),
    ("diagonal/stochastic", f"{SEALED}/ids", lambda a: a + 100, f"{SEALED}/ids"),
    ("diagonal/missing", f"{SEALED}/ids", lambda a: a + 100, "batches/0/stats/ids"),
    ("diagonal/missing", f"{BATCH}/stats/ids", lambda a: a[::-1].copy(), "batches/0/stats/ids"),
    ("diagonal/missing", f"{BATCH}/labels", lambda a: a + 10**6, f"{BATCH}/labels"),
    ("diagonal/missing", f"{BATCH}/labels", lambda a: a[:-1], f"{BATCH}/labels"),
    ("diagonal/frame", f"{BATCH}/rows/X/entries", with_first(np.nan), f"{BATCH}/rows/X"),
    ("diagonal/missing", f"{STATE}/sealed/pair_loss", with_first(1.0), "sealed/pair_loss"),
    ("diagonal/missing", f"{STATE}/sealed/pair_loss", lambda a: a + 1e9, "sealed/pair_loss"),
    ("full/weights", f"{STATE}/model/family/prior/scale", lambda a: -a, "prior/scale"),
    (
        "full/weights",
        f"{STATE}/model/family/prior/scale",
        lambda a: a + np.triu(a + 1, 1),
        "prior/scale",
    ),
    ("full/weights", f"{BATCH}/rows/weights", lambda a: 0 * a, f"{BATCH}/rows/weights"),
    ("full/weights", f"{BATCH}/rows/weights", lambda a: 2 * a, f"{BATCH}/stats/n"),
    ("full/weights", f"{SEALED}/t", lambda a: a - 1e4, f"{SEALED}/t"),
    ("zero-mean/plain", f"{SEALED}/t", lambda a: -a, f"{SEALED}/t"),
    ("multinomial/csr", f"{SEALED}/t", lambda a: a - 100, f"{SEALED}/t"),
    ("multinomial/csr", f"{BATCH}/rows/X/data", lambda a: -a, f"{BATCH}/rows/X"),
    ("multinomial/csr", f"{BATCH}/rows/X/indices", lambda a: a + 3, f"{BATCH}/rows/X"),
    ("multinomial/csr", f"{BATCH}/rows/X/indices", lambda a: a * 0, f"{BATCH}/rows/X"),
    ("multinomial/csr", f"{BATCH}/rows/X/starts", lambda a: a[::-1].copy(), f"{BATCH}/rows/X"),
    ("multinomial/plain", f"{BATCH}/rows/X/entries", lambda a: -a, f"{BATCH}/rows/X"),
    ("diagonal/stochastic", f"{SEALED}/h", lambda a: a + 1e9, f"{SEALED}/h"),
]
ENTRIES: list[tuple[str, Callable[[Checkpoint], None], str]] = [
    (
        "full/weights",
        learned("state", "model", "family", "prior", "degrees_of_freedom", value=2.0),
        "degrees_of_freedom",
    ),
    ("diagonal/frame", entry("params", "concentration", value=-1.0), "concentration"),
    ("diagonal/frame", entry("params", "concentration", value=2.0), "concentration"),
    ("diagonal/frame", entry("params", "max_components", value=0), "max_components"),
    ("diagonal/frame", entry("params", "family", value="full"), "family"),
    ("diagonal/frame", entry("params", "family", value="fancy"), "family"),
    ("diagonal/frame", entry("params", "moves", value=["split"]), "moves"),
    ("diagonal/frame", entry("params", "learner", value="stochastic"), "learner"),
    ("diagonal/frame", learned("learner", value="stochastic"), "learner"),
    ("diagonal/frame", entry("params", "colour", value="red"), "colour"),
    ("diagonal/frame", entry("params", "prior", value={"rate": "abc"}), "prior"),
    ("diagonal/frame", entry("params", "prior", value={"rate": [1.0, 2.0]}), "prior"),
    ("diagonal/frame", entry("params", value=[]), "params"),
    ("diagonal/frame", learned("state", "next_id", value=1), f"{SEALED}/ids"),
    ("diagonal/frame", learned("state", "batches", value=[]), "n_new"),
    ("diagonal/frame", learned("state", "sealed", "stats", "base", value=1e9), f"{SEALED}/base"),
    (
        "multinomial/plain",
        learned("state", "batches", 0, "stats", "base", value=1e9),
        f"{BATCH}/stats/base",
    ),
    ("diagonal/frame", learned("state", "n_new", value=10**6), "n_new"),
    (
        "diagonal/frame",
        learned("state", "birth_trials", value={"keys": [0], "values": []}),
        "birth_trials",
    ),
    (
        "diagonal/frame",
        learned(
            "state",
            "delete_trials",
            value={"keys": [10**6], "values": [{"failures": 0, "mass": 1.0}]},
        ),
        "delete_trials",
    ),
    ("diagonal/frame", learned("n_rows", value=1), "n_rows"),
    ("diagonal/frame", learned("n_prior_rows", value=10**9), "n_prior_rows"),
    ("diagonal/frame", entry("feature_names", value=["a", "b"]), "feature_names"),
    ("diagonal/frame", entry("feature_names", value="abc"), "feature_names"),
]
WRONG = [
    *((course, array(name, change), words) for course, name, change, words in ARRAYS),
    *ENTRIES,
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


def spoil_header(file: Checkpoint, rng: np.random.Generator) -> None:
    every = list(places(file.header))
    # Most entries are points of the history; the others should have their turn too.
    every = [p for p in every if "history" not in p or rng.random() < 0.1]
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
