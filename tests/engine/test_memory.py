"""Freed memory stays with the process."""

import subprocess
import sys

import pytest

CODE = """
import resource
import numpy as np
from everlearn.attic.runtime_memory import keep_freed_memory

def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        arrays = [np.ones(200_000) for _ in range(4)]
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

assert keep_freed_memory() and keep_freed_memory()
faults(3)
print(faults(100))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_arrays_that_come_and_go_take_no_new_pages():
    out = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert int(out.stdout) < 1000  # of 4096 bytes, where the arrays are 640 MB together
