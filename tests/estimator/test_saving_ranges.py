"""No number in a file makes loading or predicting endless: every scalar has a range.

The numbers of each golden file are set to the upper ends of their ranges, one at a time.
"""

import copy
import faulthandler
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from conftest import REPOSITORY
from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from everlearn.registry import ESTIMATORS
from everlearn.store.archive import read_checkpoint, write_checkpoint
from everlearn.store.schema import HUGE, Scalar
from everlearn.testing.forging import setting
from golden.make_files import CASES, MODELS

LONGEST = 120
"""Seconds for loading a forged file and predicting a few records. What hangs takes far longer."""
LARGE = (10**4, 10**6, 2**31, 2**53, 1e9, HUGE)
"""What a parameter may be set to; its constraint refuses some of them."""
WALK = """
import sys
from pathlib import Path
from estimator.test_saving_ranges import predict_forged

predict_forged(Path(sys.argv[1]))
"""


def scalars_of(name: str) -> Iterator[tuple[str, Scalar]]:
    """The numbers of a golden file and their places, of what the estimator has learned."""
    path = MODELS / f"{name}.evl"
    kind, learned = type(load(path)), read_checkpoint(path).header["learned"]
    for leaf, place in kind._schema.leaves(learned, "learned"):
        if isinstance(leaf, Scalar) and leaf.kind in (int, float):
            yield place, leaf


def places_of(value: Any, place: str) -> Iterator[str]:
    """Where a number is, or could be, among the parameters."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from places_of(part, f"{place}/{key}")
    elif value is None or isinstance(value, int | float):
        yield place


def forgeries(name: str) -> Iterator[tuple[str, float]]:
    """Places of numbers in a golden file, and what they are set to."""
    for place, leaf in scalars_of(name):
        yield place, leaf.kind(leaf.high)
        yield from ((place, leaf.kind(value)) for value in LARGE if value < leaf.high)
    params = read_checkpoint(MODELS / f"{name}.evl").header.get("params", {})
    for place in places_of(params, "params"):
        yield from ((place, value) for value in LARGE)


def forged(name: str, place: str, value: float) -> Callable[[Path], None]:
    """Writes the golden file with another number."""
    file = read_checkpoint(MODELS / f"{name}.evl")
    header = copy.deepcopy(dict(file.header))
    setting(place, value)(header, file.arrays)
    return lambda path: write_checkpoint(path, header, file.arrays)


def predict_forged(path: Path) -> None:
    """Load and predict every forged file; a process that takes too long ends itself."""
    n_loaded = 0
    with mock.patch("os.fsync"):
        for name, case in CASES.items():
            for place, value in forgeries(name):
                print(name, place, value, flush=True)
                forged(name, place, value)(path)
                faulthandler.dump_traceback_later(LONGEST, exit=True)
                try:
                    model = load(path)
                    n_loaded += 1
                    for method in case.methods:
                        getattr(model, method)(case.probe)
                except (CheckpointError, ValueError, FloatingPointError):
                    pass  # refused, or numbers of a size that cannot be computed with
                finally:
                    faulthandler.cancel_dump_traceback_later()
    print(f"{n_loaded} loaded")


@pytest.mark.parametrize("name", CASES)
def test_every_number_has_a_range(name: str) -> None:
    for place, leaf in scalars_of(name):
        assert math.isfinite(leaf.low), place
        assert math.isfinite(leaf.high), place
        assert leaf.kind is float or -(2**64) <= leaf.low <= leaf.high <= 2**64, place


def test_files_of_all_estimators_are_forged() -> None:
    assert {name.partition("-")[0] for name in CASES} == {entry.name for entry in ESTIMATORS}
    assert all(next(forgeries(name), None) is not None for name in CASES)


def test_no_forged_number_makes_predicting_endless(tmp_path: Path) -> None:
    paths = os.pathsep.join(str(REPOSITORY / name) for name in ("src", "tests"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WALK, str(tmp_path / "model.evl")],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    *_, last = done.stdout.splitlines() or [""]
    assert done.returncode == 0, f"{last}\n{done.stderr[-3000:]}"
    assert int(last.split()[0]) > 100
