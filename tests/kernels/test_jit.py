"""Where compiled kernels are kept, and what a user who waits for them is told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import everlearn
from everlearn.kernels.jit import kernel
from support.kernels import from_python

SOURCE = str(Path(everlearn.__file__).parents[1])
FIT = """
import numpy as np
from everlearn import BayesianPassiveAggressiveClassifier
X = np.arange(20.0).reshape(10, 2)
print(BayesianPassiveAggressiveClassifier().fit(X, X[:, 0] > 9).n_samples_seen_ >= 10)
"""
NO_PLACE = "from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []\n"
SLOW = "import everlearn.kernels.jit as jit; jit._LONG = 0.0\n"


def run(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    """A process of its own, which finds no compiled kernels of others."""
    env = {**os.environ, "PYTHONPATH": SOURCE, **options.pop("env", {})}  # type: ignore[dict-item]
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, **options
    )


def test_learns_where_nothing_can_be_cached_and_says_so_once() -> None:
    done = run(NO_PLACE + FIT)
    assert done.stdout == "True\n"
    assert done.stderr.count("every process compiles it anew") == 1
    assert "NUMBA_CACHE_DIR" in done.stderr


@pytest.mark.skipif(
    getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can be another user"
)
def test_learns_as_a_user_who_may_write_nowhere(tmp_path: Path) -> None:
    nowhere = tmp_path / "missing"
    env = {"HOME": str(nowhere), "XDG_CACHE_HOME": str(nowhere), "PYTHONDONTWRITEBYTECODE": "1"}
    readable = all(
        os.stat(folder).st_mode & 0o005 == 0o005
        for folder in [*Path(sys.executable).resolve().parents, *Path(SOURCE).parents]
    )
    if not readable:
        pytest.skip("another user cannot read this environment")
    done = run(FIT, env=env, user="nobody", cwd="/")
    assert done.stdout == "True\n"
    assert done.stderr.count("every process compiles it anew") == 1


def test_says_once_that_it_compiles(tmp_path: Path) -> None:
    env = {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (run(SLOW + FIT, env=env) for _ in range(2))
    assert first.stderr.count("everlearn: compiling, once for this machine") == 1
    assert "compiling" not in second.stderr


def test_other_errors_of_numba_are_not_hidden() -> None:
    code = """
import numba
def broken(*args, **kwargs):
    raise RuntimeError("another error")
numba.njit = broken
import everlearn.kernels.scalars
"""
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(code)
    assert "another error" in failed.value.stderr


@kernel()
def _twice(x: float) -> float:
    return 2.0 * x


@kernel()
def four_times(x: float) -> float:
    return _twice(_twice(x))


def test_a_kernel_for_other_kernels_cannot_be_called_from_python() -> None:
    assert four_times(2.0) == 8.0
    with pytest.raises(TypeError, match="_twice can be called by other kernels only"):
        _twice(2.0)
    assert from_python(_twice)(2.0) == 4.0
