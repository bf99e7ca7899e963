"""What is learned to compile ahead."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import everlearn
from everlearn.registry import ESTIMATORS, Entry
from everlearn.stream.warmup import example_data, warm_up

LEARNERS = [entry for entry in ESTIMATORS if entry.form is not None]
SOURCE = str(Path(everlearn.__file__).parents[1])


@pytest.mark.parametrize("entry", LEARNERS, ids=lambda entry: entry.name)
def test_every_estimator_is_warmed_up(entry: Entry) -> None:
    X, y = example_data(entry)
    assert (y is None) == (entry.target is None)
    assert y is None or len(X) == len(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up(entry)


def test_a_later_process_compiles_nothing(tmp_path: Path) -> None:
    """Of an estimator with few kernels, because the first process compiles them all."""
    env = {**os.environ, "PYTHONPATH": SOURCE, "NUMBA_CACHE_DIR": str(tmp_path)}
    learn = """
from numba.core import event
class Count(event.Listener):
    n = 0
    def on_start(self, _): self.n += 1
    def on_end(self, _): pass
event.register("numba:compile", count := Count())
from everlearn.registry import ESTIMATORS
from everlearn.stream.warmup import warm_up
warm_up(next(e for e in ESTIMATORS if e.name == "BayesianPassiveAggressiveClassifier"))
print(count.n)
"""
    first, second = (
        subprocess.run(
            [sys.executable, "-c", learn], env=env, check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    )
    assert int(first) > 0
    assert int(second) == 0
