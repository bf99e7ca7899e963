"""Files of `ComponentTree`; `test_conformance.py` spoils each part of one alone."""

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everlearn.store.archive import Checkpoint
from support.component_data import rows_of, streamed
from support.spoiling import FLOATS, SHAPES, assert_named, loaded

FUZZ_CASES = 120
INTEGERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "negative": lambda a: a - 100,
    "large": lambda a: a + 2**20,
    "fractions": lambda a: a.astype(float),
    "other size": lambda a: a.astype(np.int32 if a.dtype == np.int64 else np.int64),
}
STATE = "learned/state"
Q = f"{STATE}/q"
SEALED = f"{STATE}/sealed"
BATCH = f"{STATE}/batches/0"


def test_a_parameter_that_no_longer_fits_is_not_saved(tmp_path: Path) -> None:
    model = streamed(60)
    with pytest.raises(ValueError, match="'depth'"):
        model.set_params(depth=5).save(tmp_path / "model.evl")
    model.set_params(depth=3).save(tmp_path / "model.evl")


# -------------------------------------------- parts that contradict each other


@cache
def _content() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    model = streamed(200)
    assert model._learned.state.n_open < 200
    header, arrays = model.to_checkpoint()
    return {"estimator": model.checkpoint_key, **header}, arrays


def content() -> Checkpoint:
    """Header and arrays of a saved model, for the test to spoil."""
    header, arrays = _content()
    return Checkpoint(copy.deepcopy(header), {key: a.copy() for key, a in arrays.items()})


def changes_of(array: np.ndarray) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    return SHAPES | (FLOATS if array.dtype.kind == "f" else INTEGERS)


def test_every_member_is_checked() -> None:
    for key, array in content().arrays.items():
        if key == "learned/history/curve":  # any number of points is a history
            continue
        for change in changes_of(array).values():
            file = content()
            file.arrays[key] = change(file.arrays[key])
            assert_named(file, STATE, "learned/origin")


def scaled(key: str, factor: float) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        file.arrays[key] = (file.arrays[key] * factor).astype(file.arrays[key].dtype)

    return change


def added(key: str, amount: float) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        file.arrays[key] = file.arrays[key] + np.array(amount, file.arrays[key].dtype)

    return change


def entry(place: str, value: Any) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        *path, last = place.split("/")
        holder: Any = file.header
        for key in path:
            holder = holder[int(key) if isinstance(holder, list) else key]
        holder[last] = value

    return change


WRONG: list[tuple[Callable[[Checkpoint], None], str]] = [
    (scaled(f"{Q}/tree/ids", 0), "tree/ids"),
    (added(f"{Q}/tree/ids", 10**6), "ids"),
    (scaled(f"{Q}/tree/parents", 0), "tree/parents"),
    (added(f"{Q}/tree/parents", 1), "tree/parents"),
    (scaled(f"{Q}/sticks/won", 2.0), "sticks/won"),
    (scaled(f"{Q}/sticks/lost", -1.0), "sticks/lost"),
    (scaled(f"{Q}/covariance", -1.0), "q/covariance"),
    (scaled(f"{Q}/centre", 1e9), "q/centre"),
    (scaled(f"{SEALED}/slots", 2.0), "sealed/slots"),
    (scaled(f"{SEALED}/slots", -1.0), "sealed/slots"),
    (scaled(f"{SEALED}/codes", 1e6), "sealed/codes"),
    (scaled(f"{SEALED}/second", -1.0), "sealed/second"),
    (added(f"{SEALED}/second", 1.0), "sealed/second"),
    (scaled(f"{SEALED}/cross", 1e6), "sealed/cross"),
    (scaled(f"{SEALED}/first", 1e6), "sealed/first"),
    (entry(f"{SEALED}/squares", -1.0), "sealed/squares"),
    (entry(f"{SEALED}/n", 0.5), "sealed/n"),
    (entry(f"{SEALED}/unseen", -1.0), "sealed/unseen"),
    (scaled(f"{BATCH}/X", 2.0), "batches/0/stats/first"),
    (scaled(f"{BATCH}/stats/slots", 0.5), "batches/0/stats/slots"),
    (entry(f"{BATCH}/stats/squares", 1.0), "batches/0/stats/squares"),
    (entry(f"{BATCH}/stats/n", 1.0), "batches/0/stats/n"),
    (entry(f"{Q}/tree/depth", 1), "tree/parents"),
    (entry(f"{Q}/tree/depth", 7), "depth"),
    (entry(f"{STATE}/model/scale", None), "model/scale"),
    (entry(f"{STATE}/model/n_features", 7), "q/mean"),
    (entry(f"{STATE}/model/paths/gamma", 2.0), "sticks/"),
    (entry(f"{Q}/shape", 1.0), "q/shape"),
    (entry(f"{STATE}/batches", []), "sticks/"),
    (entry(f"{STATE}/next_id", 1), "next_id"),
    (entry(f"{STATE}/n_new", 10**6), "n_new"),
    (entry("learned/n_rows", 7), "n_rows"),
    (entry("learned/n_prior_rows", 10**6), "n_prior_rows"),
    (entry("params/options/patience", 10**9), "patience"),
    (entry("params/options/colour", "red"), "colour"),
    (entry("params/depth", 2), "depth"),
    (entry("params/max_iter", 10**9), "max_iter"),
    (entry("params/colour", "red"), "colour"),
    (entry("params/moves", "birth"), "moves"),
    (entry("learned/history", []), "history"),
    (entry("feature_names", ["a"]), "feature_names"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_contradictions_are_refused(case: int) -> None:
    file = content()
    spoil, words = WRONG[case]
    spoil(file)
    assert_named(file, words)


def assert_sound(model: Any) -> None:
    """A file that was not refused must hold a model like any other."""
    X = rows_of(15, seed=8)
    assert np.isfinite(model.bound_)
    assert np.isfinite(model.transform(X)).all()
    model.set_params(engine="serial", verbose=0, max_nodes=10, birth_window=120)
    model.partial_fit(X)
    assert np.isfinite(model.bound_)


def test_untouched_content_is_accepted() -> None:
    assert_sound(loaded(content()))


def spoil_array(file: Checkpoint, rng: np.random.Generator) -> None:
    keys = sorted(file.arrays)
    key, other = (keys[i] for i in rng.integers(len(keys), size=2))
    old = file.arrays[key]
    changes = [*changes_of(old).values(), rng.permutation, lambda _: file.arrays[other]]
    file.arrays[key] = changes[rng.integers(len(changes))](old)


def spoil_header(file: Checkpoint, rng: np.random.Generator) -> None:
    """Replace a random entry, however deep."""
    holder: Any = file.header
    while True:
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        key = keys[rng.integers(len(keys))]
        inner = holder[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.1:
            break
        holder = inner
    values: list[Any] = [None, -1, 0, 1, 0.5, 1e12, "x", True, [], {}]
    holder[key] = values[rng.integers(len(values))]


def test_random_damage_is_refused_or_harmless() -> None:
    rng = np.random.default_rng(4)
    messages = []
    for _ in range(FUZZ_CASES):
        file = content()
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
