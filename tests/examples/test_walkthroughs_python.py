"""The walks of Python users run from top to bottom, and errors on the way say what to do."""

import os
import subprocess
import sys

import pytest

from conftest import REPOSITORY

WALKS = {
    "scikit_learn_user": [
        "4 clusters found",
        "DPMixture has no n_components: it finds the number; use max_components to limit it",
        "got shape (600,). Reshape your data",
        "is not an everlearn model",
    ],
    "data_engineer": [
        "day3: 12000 rows, 4 kinds",
        "expected numbers, got column 'way' with ",
        "got a LazyFrame; call collect() first",
        "merged: 12000 rows",
        "dask: 4 kinds",
    ],
    "statistician": [
        "the density integrates to 1.0000",
        "intervals hold the truth",
        "clusters by seed: 3 3 3 3 3",
        "finite number above 0 and at most 1. Got 95 instead",
        "unpack it first, such as X, y = pair",
    ],
}


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_ends_well(name, tmp_path):
    for module in ("polars", "pyarrow", "distributed") if name == "data_engineer" else ():
        pytest.importorskip(module)
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "examples" / "walkthroughs" / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "done"
    for line in WALKS[name]:
        assert line in done.stdout
    assert not list(tmp_path.iterdir())
