"""Streams that are killed and go on (M6), and files whose parts contradict each other."""

import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conftest import REPOSITORY
from everlearn.estimator.saving import load
from everlearn.store.archive import Checkpoint
from support.clumped_data import FAMILIES, documents, model_of, taught
from support.spoiling import (
    assert_named,
    entry,
    loaded,
    scaled,
    spoil_array,
    spoil_header,
    swapped,
)
from support.streams import file_of

every = pytest.mark.parametrize("family", FAMILIES)
FUZZ_CASES = 100
PARAMS: dict[str, Any] = {"max_clumps": 30, "max_groups": 10, "memory_budget": "20kB"}
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


def test_names_of_columns_are_kept(tmp_path: Path) -> None:
    frames = [pd.DataFrame(part, columns=list("xyz")) for part in documents("full", 4)[0]]
    model = model_of().partial_fit(frames)
    model.save(tmp_path / "model.evl")
    other = load(tmp_path / "model.evl")
    assert other.feature_names_in_.tolist() == list("xyz")
    with pytest.raises(ValueError, match="feature names"):
        other.partial_fit([frames[0].rename(columns={"x": "w"})])
    other.partial_fit(frames)


def test_a_parameter_that_no_longer_fits_is_not_saved(tmp_path: Path) -> None:
    model = taught()
    model.set_params(family="diagonal")
    with pytest.raises(ValueError, match="'family'"):
        model.save(tmp_path / "model.evl")
    model.set_params(family="full").save(tmp_path / "model.evl")


# Files whose parts contradict each other; `test_conformance.py` spoils each part alone.


@cache
def _saved(family: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    model = taught(family, count=12, max_clumps=25, max_groups=9)
    report = model.memory_report()
    assert report["n_clumps"] > 2
    assert report["n_single_points"] > 0
    header, arrays = model.to_checkpoint()
    return {"estimator": model.checkpoint_key, **header}, arrays


def saved(family: str = "full") -> Checkpoint:
    """Header and arrays of a saved model, for the test to spoil."""
    header, arrays = _saved(family)
    return Checkpoint(copy.deepcopy(header), {key: a.copy() for key, a in arrays.items()})


def moved(key: str) -> Callable[[Checkpoint], None]:
    """More here, as much less there: sums stay, places do not."""

    def change(file: Checkpoint) -> None:
        array = file.arrays[key].reshape(len(file.arrays[key]), -1)
        array[0] += 0.9 * array[-1]
        array[-1] -= 0.9 * array[-1]

    return change


def at(name: str) -> str:
    return f"learned/state/{name}"


WRONG: list[tuple[Callable[[Checkpoint], None], str]] = [
    (scaled(at("past/clumps/mass"), 1.5), "past/clumps/mass"),
    (scaled(at("past/clumps/counts"), 2.0), "past/clumps/mass"),
    (moved(at("past/clumps/mass")), "past/clumps/mass"),
    (scaled(at("past/clumps/features"), 3.0), "past/clumps/features"),
    (moved(at("past/clumps/counts")), "past/clumps/mass"),
    (scaled(at("past/clumps/groups"), 0), "topics/counts"),
    (scaled(at("past/clumps/groups"), -1), "past/clumps/groups"),
    (scaled(at("past/single_groups"), 0), "topics/counts"),
    (scaled(at("past/singles"), 3.0), "past/clumps/features"),
    (scaled(at("topics/n"), 2.0), "topics/counts"),
    (scaled(at("topics/t"), 2.0), "topics/t"),
    (moved(at("topics/t")), "topics/"),
    (scaled(at("topics/counts"), 0.5), "topics/counts"),
    (scaled(at("topics/alpha"), -1.0), "topics/alpha"),
    (scaled(at("topics/alpha"), 0.0), "topics/alpha"),
    (scaled(at("topics/alpha"), 1e250), "topics/alpha"),
    (scaled(at("topics/ids"), 0), "topics/ids"),
    (scaled(at("sizes"), 2.0), "sizes"),
    (scaled(at("sizes"), 0.5), "sizes"),
    (scaled(at("group_ids"), -1), "group_ids"),
    (scaled(at("group_ids"), 100), "group_ids"),
    (swapped(at("topics/n"), at("topics/alpha")), "topics/"),
    (swapped(at("past/clumps/mass"), at("past/clumps/counts")), "clumps/"),
    (swapped(at("past/clumps/groups"), at("past/single_groups")), "clumps/"),
    (swapped(at("topics/ids"), at("group_ids")), "topics/n"),
    (entry("learned", "state", "price", value=-1.0), "price"),
    (entry("learned", "state", "price", value=None), "price"),
    (entry("learned", "state", "topics", "entropy", value=-5.0), "entropy"),
    (entry("learned", "state", "topics", "entropy", value=1e9), "entropy"),
    (entry("learned", "state", "base", value=0.0), "base"),
    (entry("learned", "state", "n_points", value=5), "past/clumps/mass"),
    (entry("learned", "state", "n_points", value=2.5), "n_points"),
    (entry("learned", "state", "n_documents", value=1), "sizes"),
    (entry("learned", "state", "n_epochs", value=0), "n_epochs"),
    (entry("learned", "state", "next_id", value=0), "next_id"),
    (entry("learned", "state", "compression_loss", value="much"), "compression_loss"),
    (entry("learned", "state", "model", "dirichlet", "rate", value=0.0), "rate"),
    (entry("learned", "state", "model", "family", "kind", value="diagonal"), "family"),
    (entry("learned", "state", "more", value=1), "more"),
    (entry("params", "family", value="diagonal"), "family"),
    (entry("params", "topic_price", value=1.25), "topic_price"),
    (entry("params", "max_clumps", value=0), "max_clumps"),
    (entry("params", "prior", value={"scale": [[1.0]]}), "prior"),
    (entry("params", "colour", value="red"), "colour"),
    (entry("learned", "history", value=[]), "history"),
    (entry("feature_names", value=["a"]), "feature_names"),
    (entry("estimator", value="topic-model"), "params"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_contradictions_are_refused(case: int) -> None:
    file = saved()
    spoil, word = WRONG[case]
    spoil(file)
    assert_named(file, word)


@every
def test_untouched_content_is_accepted(family: str) -> None:
    assert_sound(loaded(saved(family)), family)


def assert_sound(model: Any, family: str) -> None:
    """What was loaded after all must be a model like any other."""
    parts = documents(family, 3, seed=8)[0]
    z = model.transform(parts)
    assert np.isfinite(z).all()
    assert np.isfinite(model.bound_)
    assert np.isfinite(model.score(parts))
    model.set_params(engine="serial", batch_size=4, memory_budget="64MB", verbose=0)
    model.partial_fit(parts)
    assert np.isfinite(model.bound_)


@every
@pytest.mark.filterwarnings("ignore::everlearn.errors.ForcedJoinWarning")
def test_random_damage_is_refused_or_harmless(family: str) -> None:
    rng = np.random.default_rng(FAMILIES.index(family))
    messages = []
    for _ in range(FUZZ_CASES):
        file = saved(family)
        spoil = spoil_header if rng.random() < 0.5 else spoil_array
        with np.errstate(all="ignore"):
            spoil(file, rng)
        found = loaded(file)
        if isinstance(found, str):
            messages.append(found)
        else:
            assert_sound(found, family)
    assert len(messages) > FUZZ_CASES // 2
    assert all(m.startswith("spoilt.evl: ") and "does not make" not in m for m in messages)
