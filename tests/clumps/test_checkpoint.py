"""Saving, loading in a new process and going on equals never having stopped (M6)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from conftest import REPOSITORY
from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from support.clumped_data import FAMILIES, assert_same, content, documents, model_of, taught
from support.streams import file_of

every = pytest.mark.parametrize("family", FAMILIES)
EPOCHS = 6
PARAMS: dict[str, Any] = {"max_clumps": 30, "max_groups": 10, "memory_budget": "20kB"}
GO_ON = """
import sys
from pathlib import Path
from clumps.test_checkpoint import learn_epoch
from everlearn import load

for path in sorted(Path(sys.argv[1]).glob("*.evl")):
    model = load(path)
    for epoch in range(model._learned.state.n_epochs, 6):
        learn_epoch(model, epoch)
    model.save(path.with_suffix(".end"))
"""
STREAM = """
import sys
from pathlib import Path
from clumps.test_checkpoint import learn_epoch, start
from everlearn import load

path = Path(sys.argv[1])
model = load(path) if path.exists() else start(sys.argv[2])
print("ready", flush=True)
for epoch in range(model._learned.state.n_epochs if path.exists() else 0, int(sys.argv[3])):
    learn_epoch(model, epoch)
    model.save(path)
    print("saved", flush=True)
"""


def start(family: str) -> Any:
    return model_of(family, **PARAMS)


def learn_epoch(model: Any, epoch: int) -> Any:
    return model.partial_fit(documents(model.family, 4, seed=epoch, points=25)[0])


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    paths = os.pathsep.join(str(REPOSITORY / name) for name in ("src", "tests"))
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_m6_three_epochs_and_three_in_a_new_process_are_six(tmp_path: Path) -> None:
    ends = {}
    for family in FAMILIES:
        model = start(family)
        for epoch in range(EPOCHS):
            learn_epoch(model, epoch)
            if epoch == 2:
                model.save(tmp_path / f"{family}.evl")
        ends[family] = file_of(model)
    process = python(GO_ON, tmp_path)
    errors = process.communicate(timeout=300)[1]
    assert process.returncode == 0, errors
    for family, end in ends.items():
        assert (tmp_path / f"{family}.end").read_bytes() == end


ENDLESS = 10**6


def assert_resumes(path: Path, family: str, waits: list[float], n_saves: int = 0) -> None:
    """A process that learns without end is killed after so many saves and each of these waits.

    Started once more, it learns two epochs and ends with the bytes of one that never stopped.
    """
    for wait in waits:
        process = python(STREAM, path, family, ENDLESS)
        assert process.stdout is not None
        for _ in range(1 + n_saves):
            process.stdout.readline()
        time.sleep(wait)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
    epochs = 2 + (load(path)._learned.state.n_epochs if path.exists() else 0)
    process = python(STREAM, path, family, epochs)
    errors = process.communicate(timeout=300)[1]
    assert process.returncode == 0, errors
    model = start(family)
    for epoch in range(epochs):
        learn_epoch(model, epoch)
    assert path.read_bytes() == file_of(model)


def test_m6_kill_and_resume_is_never_having_stopped(tmp_path: Path) -> None:
    wait = float(np.random.default_rng().uniform(0.0, 0.1))
    assert_resumes(tmp_path / "model.evl", "diagonal", [wait], n_saves=2)
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".evl"] == ["model.evl"]


@pytest.mark.slow
@every
def test_m6_kill_and_resume_many_times(family: str, tmp_path: Path) -> None:
    waits = np.random.default_rng().uniform(0.0, 1.0, 12).tolist()
    assert_resumes(tmp_path / "model.evl", family, waits)


@every
def test_loaded_models_are_the_same(family: str, tmp_path: Path) -> None:
    model = taught(family, **PARAMS)
    model.save(tmp_path / "model.evl")
    other = load(tmp_path / "model.evl")
    assert_same(content(other), content(model))
    assert other.get_params() == model.get_params()
    X = documents(family, 3, seed=5)[0]
    assert_array_equal(other.transform(X), model.transform(X))
    assert other.bound_ == model.bound_
    assert_array_equal(other.bound_history_, model.bound_history_)
    assert file_of(other) == file_of(model)
    assert_same(content(other.partial_fit(X)), content(model.partial_fit(X)))


def test_names_of_columns_are_kept(tmp_path: Path) -> None:
    frames = [pd.DataFrame(part, columns=list("xyz")) for part in documents("full", 4)[0]]
    model = model_of().partial_fit(frames)
    model.save(tmp_path / "model.evl")
    other = load(tmp_path / "model.evl")
    assert other.feature_names_in_.tolist() == list("xyz")
    with pytest.raises(ValueError, match="feature names"):
        other.partial_fit([frames[0].rename(columns={"x": "w"})])
    other.partial_fit(frames)


def test_a_torn_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.evl"
    taught().save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for end in rng.integers(0, len(whole), 20):
        path.write_bytes(whole[:end])
        with pytest.raises(CheckpointError, match=r"model\.evl"):
            load(path)
    for place in rng.integers(0, len(whole), 40):
        torn = bytearray(whole)
        torn[place] ^= 0x10
        path.write_bytes(torn)
        try:
            other = load(path)
        except CheckpointError:
            continue
        assert_same(content(other), content(taught()))  # bytes between members


def test_a_parameter_that_no_longer_fits_is_not_saved(tmp_path: Path) -> None:
    model = taught()
    model.set_params(family="diagonal")
    with pytest.raises(ValueError, match="'family'"):
        model.save(tmp_path / "model.evl")
    model.set_params(family="full").save(tmp_path / "model.evl")
