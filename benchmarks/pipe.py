"""Ten gigabytes of JSON lines through a pipe into `everlearn learn`: memory, and the cost.

The same block of lines is sent again and again, so that what feeds the pipe takes no time of its
own. The estimator's own `partial_fit` learns the same batches from memory, in this process.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.table import ROOT, Table
from everlearn import DPMixture, TopicModel

BATCH = 256
MARKS_GB = (0.1, 1.0, 10.0)
TEXTS_GB = 0.2


def run() -> Table:
    """One row for each mark of each stream."""
    table = Table(
        "Ten gigabytes through a pipe",
        ["stream", "GB", "records", "resident MB", "records a second", "share of partial_fit's"],
        "`everlearn learn - --kind mixture` from rows of 100 numbers (and `--kind topics` from "
        f"texts of 200 words), batches of {BATCH}, wall time since the row above, checkpoints "
        "every 30 s. The last column compares with `partial_fit` on the same batches in memory. "
        "Asked for: flat memory, at least 0.75.",
    )
    rng = np.random.default_rng(0)
    means = rng.normal(0, 5, (20, 100))
    rows = means[rng.integers(20, size=20 * BATCH)] + rng.normal(size=(20 * BATCH, 100))
    lines = ["[" + ",".join(f"{v:.6f}" for v in row) + "]" for row in rows]
    alone = _alone(DPMixture(random_state=0), lambda i: rows[i : i + BATCH], len(rows))
    _stream(table, "rows", lines, ["--kind", "mixture"], alone, MARKS_GB)
    words = [f"word{i}" for i in range(5000)]
    texts = [" ".join(rng.choice(words[100 * (i % 40) :][:900], 200)) for i in range(20 * BATCH)]
    alone = _alone(TopicModel(random_state=0), lambda i: texts[i : i + BATCH], len(texts))
    lines = [json.dumps({"text": text}) for text in texts]
    _stream(table, "texts", lines, ["--kind", "topics"], alone, (TEXTS_GB,))
    return table


def _alone(model: object, batch: Callable[[int], object], n: int) -> float:
    """Records a second of `partial_fit` on batches in memory, over at least ten seconds."""
    for i in range(0, n, BATCH):
        model.partial_fit(batch(i))  # past the first births and compilation
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < 10:
        for i in range(0, n, BATCH):
            model.partial_fit(batch(i))
        done += n
    return done / (time.perf_counter() - start)


def _stream(
    table: Table,
    name: str,
    lines: list[str],
    options: list[str],
    alone: float,
    marks: tuple[float, ...],
) -> None:
    block = ("\n".join(lines) + "\n").encode()
    command = "from everlearn.app.cli import app; app()"
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", command, "learn", f"{folder}/m.evl", "-", *options),
                *("--batch", str(BATCH), "--score-every", "0", "--json"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        progress = _Progress(process.stdout)
        sent = records = 0
        progress.wait_for(_send(process.stdin, block, 1, lines))  # compiled and settled
        sent, records = len(block), len(lines)
        for mark in marks:
            repeats = max(1, round((mark * 1e9 - sent) / len(block)))
            start = time.perf_counter()
            _send(process.stdin, block, repeats, lines)
            sent, records = sent + repeats * len(block), records + repeats * len(lines)
            progress.wait_for(records - BATCH)
            speed = repeats * len(lines) / (time.perf_counter() - start)
            resident = _resident_mb(process.pid)
            cells = (f"{sent / 1e9:.1f}", f"{records:,}", f"{resident:.0f}", f"{speed:,.0f}")
            table.add(name, *cells, f"{speed / alone:.2f}")
        process.stdin.close()
        process.wait()


def _send(pipe: object, block: bytes, repeats: int, lines: list[str]) -> int:
    for _ in range(repeats):
        pipe.write(block)
    pipe.flush()
    return repeats * len(lines) - BATCH


class _Progress:
    """Records that the learner says it has learned, read as it says so."""

    def __init__(self, stdout: object) -> None:
        self.records = 0
        self._stdout = stdout
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._stdout:
            self.records = json.loads(line)["records"]

    def wait_for(self, records: int) -> None:
        while self.records < records:
            time.sleep(0.02)


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
