"""Saving, loading in another process and going on equals never having stopped, bit for bit."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import REPOSITORY
from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from everlearn.mixture.estimator import DPMixture
from everlearn.store.archive import read_checkpoint, write_checkpoint
from support.streams import COURSES, FAMILIES, file_of, lessons_of

STOPS = (1, 3, 6)  # while prior and origin settle, within the window, after rows were sealed
CONTINUE = """
import sys
from pathlib import Path
from support.streams import lessons_of
from everlearn import load

for path in sorted(Path(sys.argv[1]).glob("*.evl")):
    name, learned = path.stem.split(".")
    model = load(path)
    for lesson in lessons_of(name.replace("+", "/"))[1][int(learned):]:
        lesson.give(model)
    model.save(path.with_suffix(".end"))
"""


def run_python(code: str, *arguments: object) -> str:
    paths = os.pathsep.join(str(REPOSITORY / name) for name in ("src", "tests"))
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("family", FAMILIES)
def test_a_new_process_goes_on_as_if_nothing_had_happened(family: str, tmp_path: Path) -> None:
    ends = {}
    for name in COURSES[family]:
        params, lessons = lessons_of(name)
        model = DPMixture(**params)
        for learned, lesson in enumerate(lessons, start=1):
            lesson.give(model)
            if learned in STOPS and all(later.method != "fit" for later in lessons[learned:]):
                model.save(tmp_path / f"{name.replace('/', '+')}.{learned}.evl")
        ends[name.replace("/", "+")] = file_of(model)
    run_python(CONTINUE, tmp_path)
    files = sorted(tmp_path.glob("*.end"))
    assert len(files) >= 2 * len(ends)
    for path in files:
        assert path.read_bytes() == ends[path.stem.split(".")[0]], path.stem


RNG = np.random.default_rng


def test_parameters_names_and_attributes_come_back(tmp_path: Path) -> None:
    params, lessons = lessons_of("diagonal/frame")
    params |= {"moves": ("merge", "birth"), "max_components": np.int64(7), "tol": np.float32(0.5)}
    model = DPMixture(**params)
    for lesson in lessons:
        lesson.give(model)
    model.save(tmp_path / "model.evl")
    back = load(str(tmp_path / "model.evl"))
    assert type(back) is DPMixture
    assert back.get_params() == model.get_params()
    assert back.n_features_in_ == 3
    assert back.feature_names_in_.tolist() == ["width", "height", "größe"]
    assert back.feature_names_in_.dtype == object
    with pytest.raises(ValueError, match="feature names"):
        back.partial_fit(lessons[0].X.rename(columns={"width": "depth"}))


def test_files_need_a_fitted_model_and_sound_parameters(tmp_path: Path) -> None:
    path = tmp_path / "model.evl"
    with pytest.raises(ValueError, match="not fitted"):
        DPMixture().save(path)
    model = DPMixture().fit(np.eye(3))
    with pytest.raises(ValueError, match="'tol'"):
        model.set_params(tol=-1).save(path)
    with pytest.raises(ValueError, match="'family'"):
        model.set_params(tol=0.1, family="full").save(path)
    assert not path.exists()


def test_a_prior_that_no_longer_fits_is_not_saved(tmp_path: Path) -> None:
    model = DPMixture().fit(np.eye(3)[:, :2])
    with pytest.raises(ValueError, match=r"'prior' of DPMixture .*'mean' must be .* 2 of them"):
        model.set_params(prior={"mean": [0, 0, 0]}).save(tmp_path / "model.evl")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.evl"
    model = DPMixture(random_state=0).partial_fit(np.eye(3))
    model.save(path)
    before = path.read_bytes()

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        model.partial_fit(np.eye(3)).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_estimators_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.evl"
    DPMixture().fit(np.eye(3)).save(path)
    checkpoint = read_checkpoint(path)
    for key in ("os.system", None, 3, ["dp-mixture"]):
        write_checkpoint(path, checkpoint.header | {"estimator": key}, checkpoint.arrays)
        with pytest.raises(CheckpointError, match="no estimator is called"):
            load(path)
    write_checkpoint(path, {}, {})
    with pytest.raises(CheckpointError, match="no estimator is called None"):
        load(path)
