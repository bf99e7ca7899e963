"""Files whose parts contradict each other, and what a file keeps of a fit.

`test_conformance.py` spoils each part of a file alone.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from everlearn.store.archive import read_checkpoint, write_checkpoint
from support.ppca_data import model_of, rows_of, taught
from support.streams import file_of


def test_a_fitted_model_is_saved_with_its_past(tmp_path: Path) -> None:
    frame = pd.DataFrame(rows_of(60), columns=list("abcde"))
    model = model_of("mixture", tol=0.5).fit(frame)
    model.save(tmp_path / "model.evl")
    other = load(tmp_path / "model.evl")
    assert_array_equal(other.log_likelihoods_, model.log_likelihoods_)
    assert other.feature_names_in_.tolist() == list("abcde")


def test_a_parameter_that_no_longer_fits_is_not_saved(tmp_path: Path) -> None:
    model = taught()
    for name, value in (("constraint", "task"), ("n_components", 3)):
        changed = taught().set_params(**{name: value})
        with pytest.raises(ValueError, match=f"'{name}'"):
            changed.save(tmp_path / "model.evl")
        with pytest.raises(ValueError, match=f"'{name}'"):
            changed.partial_fit(rows_of(10))
    model.set_params(batch_size=7, max_reference_rows=100).save(tmp_path / "model.evl")


@pytest.mark.parametrize(
    ("setting", "change", "words"),
    [
        ("mixture", {"n_mixtures": 2}, "'n_mixtures'.* at least 3"),
        ("mixture", {"n_mixtures": 1}, "'n_mixtures'.* at least 3"),
        ("step", {"n_mixtures": 2}, "'n_mixtures'.* must be 1"),
        ("step", {"constraint": None}, "'constraint'.* was 'step'"),
        ("plain", {"constraint": "step"}, "'constraint'.* was None"),
    ],
)
def test_what_the_state_cannot_follow_is_refused(
    setting: str, change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    model = taught(setting, 9)
    before, (Z, old) = file_of(model), (model.transform(rows_of(9)), model.get_params())
    model.set_params(**change)
    for call in (
        lambda: model.partial_fit(rows_of(9)),
        lambda: model.consolidate(),
        lambda: model.transform(rows_of(9)),
        lambda: model.inverse_transform(Z),
        lambda: model.save(tmp_path / "model.evl"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert file_of(model.set_params(**old)) == before


def test_changes_that_the_state_can_follow_are_learned_with() -> None:
    for setting, n, changes in (
        ("mixture", 9, {"n_mixtures": 5}),
        ("step", 4, {"constraint_weight": 3.0}),
    ):
        model = taught(setting, n)
        seen = model.n_samples_seen_
        model.set_params(**changes).partial_fit(rows_of(20))
        assert model.n_samples_seen_ == seen + 20
        assert np.isfinite(model.score(rows_of(20)))


def test_names_of_tasks_are_saved_as_they_are(tmp_path: Path) -> None:
    for task in ("7", 7, -(2**53), None):
        model = model_of().partial_fit(rows_of(30), task=task)
        model.save(tmp_path / "model.evl")
        assert load(tmp_path / "model.evl").task_ == task


def state(header: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = header["learned"]["state"]
    return found


def member(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Any]:
    place = f"learned/state/{name}"
    return lambda h, a: a.update({place: change(a[place])})


def scaled(name: str, factor: float) -> Callable[..., Any]:
    return member(name, lambda array: factor * array)


def without_reference(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    state(header)["reference"] = []
    for name in [name for name in arrays if "/reference/" in name]:
        del arrays[name]


WRONG: list[tuple[str, Callable[[dict[str, Any], dict[str, Any]], Any], str]] = [
    ("step", lambda h, a: state(h)["models"][0].update(noise=-1.0), "noise"),
    ("step", lambda h, a: state(h)["models"][0].update(noise=0.0), "noise"),
    ("step", scaled("models/0/loadings", 1e120), "loadings"),
    ("step", scaled("reference/0/mean", 1e120), "reference/0/mean"),
    ("step", lambda h, a: state(h)["reference"][0].update(mass=0.0), "mass"),
    ("step", without_reference, "reference' must be not empty"),
    ("step", lambda h, a: h["learned"]["form"].update(constraint=None), "reference"),
    ("step", lambda h, a: h["learned"]["form"].update(n_components=3), "components"),
    ("step", scaled("weights", 2.0), "weights"),
    ("step", lambda h, a: state(h).update(models=[]), "models"),
    ("task", lambda h, a: state(h).update(new_mass=1e9), "new_mass"),
    ("step", lambda h, a: state(h)["task"].update(text="b"), "task"),
    ("step", lambda h, a: state(h).update(odd={}), "odd"),
    ("plain", lambda h, a: state(h).update(stats=None), "window"),
    ("plain", scaled("stats/n", 1.5), "stats/n"),
    ("plain", scaled("stats/zz", -1.0), "stats/zz"),
    ("plain", member("stats/zz", lambda zz: np.add(zz, [[0, 1e3], [0, 0]])), "stats/zz"),
    ("plain", scaled("stats/yz", 1e180), "stats/yz"),
    ("plain", lambda h, a: h["learned"]["form"].update(constraint="task"), "stats"),
    ("mixture", lambda h, a: h["learned"]["form"].update(is_mixture=False), "models"),
    ("mixture", lambda h, a: state(h)["reference"].pop(), "reference"),
    ("mixture", lambda h, a: h["params"].update(n_mixtures=1), "n_mixtures"),
    ("step", lambda h, a: h["params"].update(n_components=3), "n_components"),
    ("step", lambda h, a: h["params"].update(constraint=None), "constraint"),
    ("step", lambda h, a: h["params"].update(options={"step_size": 7}), "step_size"),
    ("step", lambda h, a: h["params"].update(options={"colour": 7}), "colour"),
    ("step", lambda h, a: h["params"].update(colour="red"), "colour"),
    ("step", lambda h, a: h.update(feature_names=["a"]), "feature_names"),
]


@pytest.mark.parametrize(("setting", "spoil", "words"), WRONG)
def test_contradictions_are_refused(setting: str, spoil: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "model.evl"
    taught(setting).save(path)
    file = read_checkpoint(path)
    header, arrays = dict(file.header), dict(file.arrays)
    spoil(header, arrays)
    write_checkpoint(path, header, arrays)
    with pytest.raises(CheckpointError, match=words):
        load(path)


@pytest.mark.parametrize("setting", ["step", "task", "plain", "mixture", "mixture plain"])
def test_random_damage_is_refused_or_harmless(setting: str, tmp_path: Path) -> None:
    """A number that is wrong but possible makes a model that works like any other."""
    path, rng, X = tmp_path / "model.evl", np.random.default_rng(0), rows_of(8, 1)
    taught(setting).save(path)
    file = read_checkpoint(path)
    n_refused = 0
    for _ in range(40):
        arrays = dict(file.arrays)
        name = rng.choice(sorted(arrays))
        arrays[name] = arrays[name].copy()
        if not arrays[name].size:
            continue
        entry = rng.integers(arrays[name].size)
        old = arrays[name].flat[entry]
        arrays[name].flat[entry] = rng.choice([0.0, -old, 1e3 * old, old + 0.1, 1e60, 1e-60])
        write_checkpoint(path, file.header, arrays)
        with np.errstate(all="ignore"):
            try:
                model = load(path)
            except CheckpointError:
                n_refused += 1
                continue
            assert np.isfinite(model.transform(X)).all()
            with suppress(ValueError):  # numbers of wild sizes, of which nothing can be learned
                model.partial_fit(X)
            assert np.isfinite(model.score(X))
    assert n_refused > 0
