"""Time of the first use of each estimator: `make bench ARGS=first`.

`python -m benchmarks.first_use [names of classes]` measures and prints some of them.

Each runs in processes of its own, with a cache of compiled kernels that is empty at first.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.table import ROOT, Table
from everlearn.registry import ESTIMATORS

TITLE = "First use: seconds until an estimator has learned 120 records"
NOTE = (
    "Wall and CPU seconds of a new process, from its start to the end of the call. Kernels are "
    'compiled in the first process and kept on disk, so a second one only loads them. "Predict" '
    "loads a saved model where no kernel has been compiled. Every number is one run."
)
_SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
from everlearn import load
from everlearn.registry import BY_KEY, imported
from everlearn.stream.warmup import example_data
entry, file, what = BY_KEY[sys.argv[1]], sys.argv[2], sys.argv[3]
X, y = example_data(entry)
if what == "learn":
    entry.estimator()(random_state=0).fit(X, y).save(file)
else:
    imported(entry.answers)(load(file), X)
"""


def run(names: Sequence[str] = ()) -> Table:
    """Measure these estimators, or all."""
    columns = ["estimator", "first wall s", "first CPU s", "second wall s", "second CPU s",
               "predict wall s", "predict CPU s"]  # fmt: skip
    table = Table(TITLE, columns, NOTE)
    for entry in ESTIMATORS:
        if entry.form is None or (names and entry.name not in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            file, old, new = Path(folder, "model.evl"), Path(folder, "old"), Path(folder, "new")
            runs = [(old, "learn"), (old, "learn"), (new, "predict")]
            seconds = [_seconds(entry.key, file, cache, what) for cache, what in runs]
        table.add(entry.name, *(f"{value:.1f}" for pair in seconds for value in pair))
    return table


def _seconds(key: str, file: Path, cache: Path, what: str) -> tuple[float, float]:
    """Wall and CPU seconds of a process."""
    command = [sys.executable, "-c", _SCRIPT, key, str(file), what]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    wall, after = time.perf_counter() - start, os.times()
    return wall, after.children_user + after.children_system - (
        before.children_user + before.children_system
    )


if __name__ == "__main__":
    print(run(sys.argv[1:]).markdown())
