"""Saving, loading in a new process and going on equals never having stopped."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conftest import REPOSITORY
from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from support.component_data import assert_same, content, model_of, rows_of, streamed
from support.streams import file_of

CASES: dict[str, dict[str, Any]] = {
    "path": {},
    "meanfield": {"local": "meanfield", "loadings": "factorised", "depth": 2},
    "generator": {"random_state": np.random.RandomState(8)},
}
GO_ON = """
import sys
from pathlib import Path
from support.component_data import rows_of
from everlearn import load

for path in sorted(Path(sys.argv[1]).glob("*.evl")):
    model = load(path)
    for seed in (11, 12):
        model.partial_fit(rows_of(70, seed))
    model.save(path.with_suffix(".end"))
"""


def test_going_on_in_a_new_process_is_never_having_stopped(tmp_path: Path) -> None:
    ends = {}
    for name, params in CASES.items():
        model = streamed(200, **params)
        model.save(tmp_path / f"{name}.evl")
        for seed in (11, 12):
            model.partial_fit(rows_of(70, seed))
        ends[name] = file_of(model)
    fitted = model_of().fit(rows_of(150))
    fitted.save(tmp_path / "fitted.evl")
    for seed in (11, 12):
        fitted.partial_fit(rows_of(70, seed))
    ends["fitted"] = file_of(fitted)
    paths = os.pathsep.join(str(REPOSITORY / name) for name in ("src", "tests"))
    done = subprocess.run(
        [sys.executable, "-c", GO_ON, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name, end in ends.items():
        assert (tmp_path / f"{name}.end").read_bytes() == end, name


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_is_the_same(name: str, tmp_path: Path) -> None:
    model = streamed(90, **CASES[name])
    model.save(tmp_path / "model.evl")
    other = load(tmp_path / "model.evl")
    assert_same(content(other), content(model))
    X = rows_of(20, seed=4)
    assert_array_equal(other.transform(X), model.transform(X))
    assert_array_equal(other.score_samples(X), model.score_samples(X))
    assert other.bound_ == model.bound_
    assert str(other.tree_) == str(model.tree_)
    assert_array_equal(other.bound_history_, model.bound_history_)


def test_a_torn_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.evl"
    streamed(60).save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for end in rng.integers(0, len(whole), 20):
        path.write_bytes(whole[:end])
        with pytest.raises(CheckpointError, match=r"model\.evl"):
            load(path)


def test_a_parameter_that_no_longer_fits_is_not_saved(tmp_path: Path) -> None:
    model = streamed(60)
    with pytest.raises(ValueError, match="'depth'"):
        model.set_params(depth=5).save(tmp_path / "model.evl")
    model.set_params(depth=3).save(tmp_path / "model.evl")
