"""Files whose parts contradict each other; `test_conformance.py` spoils each part alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from everlearn.store.archive import read_checkpoint, write_checkpoint
from linear.test_estimator import model_of, rows, targets

MEAN = "learned/state/mean"
BELIEF = "learned/state/belief"
CLASSES = "learned/targets/classes"
UNITS = "learned/state/units"


def state(header: dict[str, Any]) -> dict[str, Any]:
    return header["learned"]["state"]


def units(header: dict[str, Any]) -> dict[str, Any]:
    return state(header)["units"]


def scale(name: str, factor: float) -> Callable[..., Any]:
    return lambda h, a: a.update({name: factor * a[name]})


WRONG: list[tuple[str, str, Callable[[dict[str, Any], dict[str, Any]], Any], str]] = [
    ("multiclass", "full", lambda h, a: a.update({MEAN: a[MEAN][:, :2].copy()}), "precision"),
    ("multiclass", "full", lambda h, a: a.update({MEAN: a[MEAN] + 1}), "shift"),
    ("multiclass", "full", scale(f"{BELIEF}/precision", -1), "precision"),
    ("multiclass", "full", scale(f"{BELIEF}/covariance", 2), "covariance"),
    ("multiclass", "full", scale(f"{BELIEF}/shift", 1.1), "shift"),
    ("multiclass", "full", lambda h, a: a.update({CLASSES: a[CLASSES][::-1].copy()}), "ascending"),
    ("multiclass", "full", lambda h, a: h["learned"]["targets"].update(kind="binary"), "two"),
    ("multiclass", "full", lambda h, a: state(h)["belief"].update(kind="diagonal"), "shape"),
    ("multiclass", "full", lambda h, a: state(h).update(clock=10**6), "clock"),
    ("multiclass", "full", lambda h, a: h["params"].update(loss="averaging"), "parameters"),
    ("multiclass", "full", lambda h, a: h["params"].update(C=-1.0), "'C'"),
    ("multiclass", "full", lambda h, a: h["params"].pop("C"), "'C'"),
    ("multiclass", "full", lambda h, a: h.update(feature_names=["a"]), "feature_names"),
    ("multiclass", "full", lambda h, a: a.update({f"{UNITS}/unit": -a[f"{UNITS}/unit"]}), "unit"),
    ("multiclass", "full", lambda h, a: units(h).update(n_rows=10**6), "units/n_rows"),
    ("multiclass", "full", lambda h, a: units(h).update(is_sparse=True), "is_sparse"),
    ("multiclass", "full", lambda h, a: units(h).update(has_intercept=False), "has_intercept"),
    ("multiclass", "full", lambda h, a: units(h).update(row_length=0.5), "row_length"),
    ("multiclass", "full", scale(f"{UNITS}/column_scale/count", 0), "count"),
    ("multiclass", "full", lambda h, a: h["learned"].update(n_features=6), "n_features"),
    ("multiclass", "full", lambda h, a: h["learned"].update(n_iter=0), "n_iter"),
    ("multiclass", "full", lambda h, a: state(h).update(prior=0.0), "prior"),
    ("binary", "no intercept", lambda h, a: units(h).update(has_intercept=True), "weights"),
    ("binary", "diag", scale(f"{BELIEF}/precision", -1), "precision"),
    ("numbers", "averaging", lambda h, a: h["learned"]["targets"].update(n_tasks=2), "3 tasks"),
    ("numbers", "averaging", lambda h, a: h["learned"]["targets"].update(flat=True), "flat"),
]


@pytest.mark.parametrize(("kind", "variant", "spoil", "words"), WRONG)
def test_contradictions_are_refused(
    kind: str, variant: str, spoil: Any, words: str, tmp_path: Path
) -> None:
    X, scores = rows(30)
    path = tmp_path / "model.evl"
    model_of(kind, variant).fit(X, targets(kind, scores)).save(path)
    file = read_checkpoint(path)
    header, arrays = dict(file.header), dict(file.arrays)
    spoil(header, arrays)
    write_checkpoint(path, header, arrays)
    with pytest.raises(CheckpointError, match=words):
        load(path)


def test_class_names_may_be_objects(tmp_path: Path) -> None:
    X, scores = rows(30)
    y = targets("multiclass", scores).astype(object)
    model = model_of("multiclass", "averaging").fit(X, y)
    model.save(tmp_path / "model.evl")
    loaded = load(tmp_path / "model.evl")
    assert loaded.classes_.dtype == object
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
