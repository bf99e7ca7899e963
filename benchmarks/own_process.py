"""Make runs in separate processes, so that their memory compares, and measure it."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.table import ROOT


def in_own_process(module: str, name: str, /, **arguments: Any) -> dict[str, Any]:
    """The result of a run in a new process; the module has to call `answer`."""
    command = [sys.executable, "-m", module, name, json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} {arguments} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def answer(runs: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """Make the run that the command line names, and print its result as JSON."""
    print(json.dumps(runs[sys.argv[1]](**json.loads(sys.argv[2]))))


def memory_mb() -> tuple[float, float]:
    """Resident memory of this process in MiB: now, and the highest so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if "VmHWM" in line
             or "VmRSS" in line}  # fmt: skip
    return found["VmRSS"], found["VmHWM"]
