"""Files that are whole but say what no `OnlinePPCA` says: a named error, never a model."""

import copy
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest

from clumps.test_checkpoint_corruption import entry, scaled, spoil_array, spoil_header, swapped
from everlearn.store.archive import Checkpoint
from support.ppca_data import SETTINGS, rows_of, taught
from support.spoiling import FLOATS, SHAPES, assert_named, loaded

FUZZ_CASES = 60
FUZZED = ("step", "task", "em", "mixture", "mixture em")


@cache
def _content(setting: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    model = taught(setting)
    header, arrays = model.to_checkpoint()
    return {"estimator": model.checkpoint_key, **header}, arrays


def content(setting: str) -> Checkpoint:
    """Header and arrays of a saved model, for the test to spoil."""
    header, arrays = _content(setting)
    return Checkpoint(copy.deepcopy(header), {key: a.copy() for key, a in arrays.items()})


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_member_is_checked(setting: str) -> None:
    assert not isinstance(loaded(content(setting)), str)
    for key, array in content(setting).arrays.items():
        changes = dict(SHAPES | FLOATS)
        if key.endswith("/factor"):
            del changes["empty"]
        for name, change in changes.items():
            file = content(setting)
            file.arrays[key] = change(file.arrays[key])
            if file.arrays[key].shape != array.shape or name not in SHAPES:
                assert_named(file, *file.arrays)
        file = content(setting)
        del file.arrays[key]
        assert_named(file, key)
    file = content(setting)
    file.arrays["more"] = np.ones(3)
    assert_named(file, "more")


WRONG: list[tuple[str, Callable[[Checkpoint], None], str]] = [
    ("step", scaled("models/noise", -1.0), "models/noise"),
    ("step", scaled("models/noise", 0.0), "models/noise"),
    ("step", scaled("models/loadings", 1e120), "models/loadings"),
    ("step", scaled("reference0/mean", 1e120), "reference0/mean"),
    ("step", scaled("reference0/numbers", -1.0), "reference0/numbers"),
    ("step", scaled("reference0/numbers", 0.0), "reference0/numbers"),
    ("step", scaled("weights", 2.0), "weights"),
    ("step", scaled("origin", 1e120), "origin"),
    ("mixture", swapped("models/mean", "models/noise"), "models/mean"),
    ("em", scaled("stats/n", 2.0), "stats/n"),
    ("em", scaled("stats/zz", -1.0), "stats/zz"),
    ("em", scaled("stats/yy", -1.0), "stats/yy"),
    ("em", scaled("stats/x", 1e220), "stats/x"),
    ("step", entry("state", "n_reference", value=0), "n_reference"),
    ("step", entry("state", "n_reference", value=2), "n_reference"),
    ("plain", entry("state", "n_reference", value=1), "reference0"),
    ("em", entry("state", "has_stats", value=False), "has_stats"),
    ("em", entry("state", "has_stats", value=1), "has_stats"),
    ("step", entry("state", "has_odd", value=True), "odd0"),
    ("step", entry("state", "clock", value=0), "clock"),
    ("step", entry("state", "n_rows", value=-3), "n_rows"),
    ("step", entry("state", "mass", value=0.0), "mass"),
    ("task", entry("state", "since", value=1e9), "since"),
    ("step", entry("state", "task", value=1.5), "task"),
    ("step", entry("state", "seed", value=-1), "seed"),
    ("step", entry("state", "typical", value={}), "typical"),
    ("step", entry("state", "more", value=1), "more"),
    ("step", entry("params", "n_components", value=3), "models/loadings"),
    ("step", entry("params", "constraint", value=None), "has_stats"),
    ("step", entry("params", "step_size", value=7), "step_size"),
    ("step", entry("params", "colour", value="red"), "colour"),
    ("mixture", entry("params", "n_mixtures", value=1), "n_mixtures"),
    ("step", entry("feature_names", value=["a"]), "feature_names"),
    ("step", entry("estimator", value="topic-model"), "header"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_what_is_wrong_is_named(case: int) -> None:
    setting, spoil, word = WRONG[case]
    file = content(setting)
    spoil(file)
    assert_named(file, word)


def assert_sound(model: Any) -> None:
    """What was loaded after all must be a model like any other, or refuse what it cannot learn."""
    X = rows_of(8, 1)
    assert np.isfinite(model.transform(X)).all()
    assert np.isfinite(model.score(X))
    model.set_params(engine="serial", batch_size=4, verbose=0)
    with suppress(ValueError):  # numbers of wild sizes, of which nothing can be learned
        model.partial_fit(X)
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize("setting", FUZZED)
def test_random_damage_is_refused_or_harmless(setting: str) -> None:
    rng = np.random.default_rng(FUZZED.index(setting))
    messages = []
    for _ in range(FUZZ_CASES):
        file = content(setting)
        spoil = spoil_header if rng.random() < 0.5 else spoil_array
        with np.errstate(all="ignore"):
            spoil(file, rng)
            found = loaded(file)
            if isinstance(found, str):
                messages.append(found)
            else:
                assert_sound(found)
    assert len(messages) > FUZZ_CASES // 3
    assert all(m.startswith("spoilt.evl: ") and "does not make" not in m for m in messages)
