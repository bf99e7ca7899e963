"""Files that are whole but say what no `ComponentTree` says: a named error, never a model."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from clumps.test_checkpoint_corruption import (
    INTEGERS,
    assert_named,
    entry,
    loaded,
    scaled,
    spoil_header,
)
from everlearn.store.archive import Checkpoint
from support.component_data import rows_of, streamed
from support.spoiling import FLOATS, SHAPES

KINDS: dict[str, dict[str, Any]] = {"path": {}, "meanfield": {"local": "meanfield"}}
every = pytest.mark.parametrize("kind", KINDS)
FUZZ_CASES = 120


@cache
def _content(kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    model = streamed(200, **KINDS[kind])
    assert model._learned.state.n_open < 200
    header, arrays = model.to_checkpoint()
    return {"estimator": model.checkpoint_key, **header}, arrays


def content(kind: str = "path") -> Checkpoint:
    """Header and arrays of a saved model, for the test to spoil."""
    header, arrays = _content(kind)
    return Checkpoint(copy.deepcopy(header), {key: a.copy() for key, a in arrays.items()})


def changes_of(array: np.ndarray) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    return SHAPES | (FLOATS if array.dtype.kind == "f" else INTEGERS)


@every
def test_every_member_is_checked(kind: str) -> None:
    for key, array in content(kind).arrays.items():
        for change in changes_of(array).values():
            file = content(kind)
            file.arrays[key] = change(file.arrays[key])
            assert_named(file, *file.arrays, "n_rows")  # names some member
        file = content(kind)
        del file.arrays[key]
        if not key.endswith("/r"):
            assert_named(file, key)
    file = content(kind)
    file.arrays["tree/more"] = np.ones(3)
    assert_named(file, "tree/more")


def added(key: str, amount: float) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        file.arrays[key] = file.arrays[key] + np.array(amount, file.arrays[key].dtype)

    return change


WRONG: list[tuple[Callable[[Checkpoint], None], str]] = [
    (scaled("tree/ids", 0), "tree/ids"),
    (added("tree/ids", 10**6), "tree/ids"),
    (scaled("tree/parents", 0), "tree/parents"),
    (added("tree/parents", 1), "tree/parents"),
    (scaled("sticks/won", 2.0), "sticks/won"),
    (scaled("sticks/lost", -1.0), "sticks/lost"),
    (scaled("loadings/covariance", -1.0), "loadings/covariance"),
    (scaled("centre", 1e9), "centre"),
    (scaled("sealed/slots", 2.0), "sealed/slots"),
    (scaled("sealed/slots", -1.0), "sealed/slots"),
    (scaled("sealed/codes", 1e6), "sealed/codes"),
    (scaled("sealed/second", -1.0), "sealed/second"),
    (added("sealed/second", 1.0), "sealed/second"),
    (scaled("sealed/cross", 1e6), "sealed/cross"),
    (scaled("sealed/first", 1e6), "sealed/first"),
    (scaled("sealed/numbers", -1.0), "sealed/numbers"),
    (scaled("batch0/X", 2.0), "batch0/"),
    (scaled("batch0/slots", 0.5), "batch0/slots"),
    (entry("state", "depth", value=1), "tree/parents"),
    (entry("state", "depth", value=7), "depth"),
    (entry("state", "scale", value=-1.0), "scale"),
    (entry("state", "scale", value=None), "scale"),
    (entry("state", "concentration", value=0.0), "concentration"),
    (entry("state", "concentration", value=2.0), "sticks/"),
    (entry("state", "noise_shape", value=1.0), "noise_shape"),
    (entry("state", "noise_rate", value=0.0), "noise_rate"),
    (entry("state", "centre_variance", value="x"), "centre_variance"),
    (entry("state", "joint", value=1), "joint"),
    (entry("state", "n_batches", value=0), "batch0"),
    (entry("state", "n_batches", value=99), "batch"),
    (entry("state", "next_id", value=0), "next_id"),
    (entry("state", "next_id", value=1), "tree/ids"),
    (entry("state", "seed", value=-1), "seed"),
    (entry("state", "clock", value=0.5), "clock"),
    (entry("state", "fresh", value=10**6), "fresh"),
    (entry("state", "more", value=1), "more"),
    (entry("n_rows", value=7), "n_rows"),
    (entry("prior_rows", value=0), "prior_rows"),
    (entry("settled", value="no"), "settled"),
    (entry("params", "loadings", value="factorised"), "loadings"),
    (entry("params", "depth", value=2), "depth"),
    (entry("params", "colour", value="red"), "colour"),
    (entry("params", "moves", value="birth"), "moves"),
    (entry("history", value=[]), "history"),
    (entry("feature_names", value=["a"]), "feature_names"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_what_is_wrong_is_named(case: int) -> None:
    file = content()
    spoil, word = WRONG[case]
    spoil(file)
    assert_named(file, word)


def assert_sound(model: Any) -> None:
    """What was loaded after all must be a model like any other."""
    X = rows_of(15, seed=8)
    assert np.isfinite(model.bound_)
    assert np.isfinite(model.transform(X)).all()
    model.set_params(engine="serial", verbose=0, max_nodes=10, birth_window=120)
    model.partial_fit(X)
    assert np.isfinite(model.bound_)


@every
def test_untouched_content_is_accepted(kind: str) -> None:
    assert_sound(loaded(content(kind)))


def spoil_array(file: Checkpoint, rng: np.random.Generator) -> None:
    keys = sorted(file.arrays)
    key, other = (keys[i] for i in rng.integers(len(keys), size=2))
    old = file.arrays[key]
    changes = [*changes_of(old).values(), rng.permutation, lambda _: file.arrays[other]]
    file.arrays[key] = changes[rng.integers(len(changes))](old)


@every
def test_random_damage_is_refused_or_harmless(kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    messages = []
    for _ in range(FUZZ_CASES):
        file = content(kind)
        spoil = spoil_header if rng.random() < 0.5 else spoil_array
        with np.errstate(all="ignore"):
            spoil(file, rng)
        found = loaded(file)
        if isinstance(found, str):
            messages.append(found)
        else:
            assert_sound(found)
    assert len(messages) > FUZZ_CASES // 2
    assert all(m.startswith("spoilt.evl: ") and "does not make" not in m for m in messages)
