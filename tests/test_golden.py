"""Predictions and saved files of every estimator stay what they were, unless changed on purpose."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import REPOSITORY
from everlearn.estimator.saving import load
from everlearn.registry import BY_KEY, ESTIMATORS
from everlearn.store.archive import read_checkpoint
from everlearn.testing.checks import file_bytes
from golden import make_files
from golden.make_files import MODELS
from golden.predictions import COURSES, FILE, predictions

KEPT: dict[str, dict[str, Any]] = json.loads(FILE.read_text("utf-8"))
ANSWERS: dict[str, dict[str, Any]] = json.loads(make_files.ANSWERS.read_text("utf-8"))
FILES = sorted(path.stem for path in MODELS.glob("*.evl"))
GO_ON = """
import sys
from pathlib import Path
from everlearn import load
from golden.make_files import CASES, MODELS

for name, case in CASES.items():
    model = load(MODELS / f"{name}.evl")
    case.learn(model, case.batches[-1])
    model.save(Path(sys.argv[1]) / f"{name}.evl")
"""


def test_every_course_is_kept() -> None:
    assert list(COURSES) == list(KEPT)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", COURSES)
def test_predictions_stay(name: str) -> None:
    check(predictions(name), KEPT[name])


def check(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for key, want in wanted.items():
        if key == "predict" and isinstance(want[0], str | list):
            assert found[key] == want
        else:
            np.testing.assert_allclose(found[key], want, rtol=1e-7, atol=1e-9, err_msg=key)


def test_every_estimator_has_a_small_file() -> None:
    assert FILES == sorted(make_files.CASES) == sorted(ANSWERS)
    assert {name.partition("-")[0] for name in FILES} == {entry.name for entry in ESTIMATORS}
    assert max((MODELS / f"{name}.evl").stat().st_size for name in FILES) < 30_000


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_loaded_and_saved_as_it_is(name: str) -> None:
    file = read_checkpoint(MODELS / f"{name}.evl")
    model = load(MODELS / f"{name}.evl")
    assert BY_KEY[model.checkpoint_key].name == name.partition("-")[0]
    header, arrays = model.to_checkpoint()
    assert {"estimator": model.checkpoint_key, **header} == file.header
    assert arrays.keys() == file.arrays.keys()
    for place, array in arrays.items():
        assert array.dtype == file.arrays[place].dtype, place
        np.testing.assert_array_equal(array, file.arrays[place], err_msg=place)


@pytest.mark.parametrize("name", FILES)
def test_a_file_goes_on_as_it_did(name: str) -> None:
    check(make_files.answers(name, load(MODELS / f"{name}.evl")), ANSWERS[name])


def test_a_new_process_goes_on_as_this_one(tmp_path: Path) -> None:
    paths = os.pathsep.join(str(REPOSITORY / name) for name in ("src", "tests"))
    subprocess.run(
        [sys.executable, "-c", GO_ON, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
        timeout=600,
    )
    for name, case in make_files.CASES.items():
        model = load(MODELS / f"{name}.evl")
        case.learn(model, case.batches[-1])
        assert (tmp_path / f"{name}.evl").read_bytes() == file_bytes(model, tmp_path), name


@pytest.mark.parametrize("name", FILES)
def test_today_learns_what_is_in_the_file(name: str) -> None:
    """To the last digit or two: other machines round in another way."""
    model, today = load(MODELS / f"{name}.evl"), make_files.begun(name)
    (header, arrays), (_, found) = model.to_checkpoint(), today.to_checkpoint()
    assert arrays.keys() == found.keys(), header
    for place, array in arrays.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(found[place], array, rtol=1e-7, atol=1e-9, err_msg=place)
        else:
            np.testing.assert_array_equal(found[place], array, err_msg=place)
