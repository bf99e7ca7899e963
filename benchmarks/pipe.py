"""`everlearn learn` from a pipe: memory over ten gigabytes, and speed against `partial_fit`.

The benchmark sends the same block of records again and again, so that feeding the pipe takes no
time. For comparison, `partial_fit` learns the same batches in the same order in this process, from
arrays or texts in memory, and is measured after the same number of records.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.table import ROOT, Table
from everlearn.stream.kinds import KINDS

BATCH = 256
BLOCK = 20 * BATCH
MARKS_GB = (0.1, 1.0, 3.0, 10.0)
WARM_BLOCKS = 3
SECONDS = 6.0
RUNS = 3
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Stream:
    """A block of records as lines and as an estimator takes it, and the kind of model."""

    name: str
    kind: str
    lines: list[str]
    X: object
    y: object = None
    form: str = "rows"

    @property
    def block(self) -> bytes:
        return ("\n".join(self.lines) + "\n").encode()

    @property
    def options(self) -> list[str]:
        return [] if self.y is None else ["--classes", ",".join(sorted(set(self.y)))]


def rows_stream(kind: str, width: int) -> Stream:
    """Rows of numbers with all their digits; JSON objects with a label for a classifier."""
    rng = np.random.default_rng(0)
    group = rng.integers(20, size=BLOCK)
    X = rng.normal(0, 5, (20, width))[group] + rng.normal(size=(BLOCK, width))
    if kind != "classifier":
        return Stream(f"rows of {width}", kind, [json.dumps(row) for row in X.tolist()], X)
    y = np.array([f"g{g}" for g in group])
    names = [f"c{j}" for j in range(width)]
    records = [
        {**dict(zip(names, row, strict=True)), "label": label}
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    return Stream(f"objects of {width}", kind, [json.dumps(r) for r in records], X, y)


def texts_stream() -> Stream:
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(5000)]
    texts = [" ".join(rng.choice(words[100 * (i % 40) :][:900], 200)) for i in range(BLOCK)]
    lines = [json.dumps({"text": text}) for text in texts]
    return Stream("texts of 200 words", "topics", lines, texts, form="documents")


def run(marks: Sequence[float] = MARKS_GB) -> Table:
    """Memory and speed along the stream, one row for each mark."""
    table = Table(
        "Ten gigabytes through a pipe",
        ["GB", "records", "resident MB of the process", "records a second, wall time"],
        "Memory does not grow. `everlearn learn - --kind mixture` reads JSON lines of 100 numbers "
        f"in batches of {BATCH} and writes a checkpoint every 30 s. The rate is that since the "
        "line above.",
    )
    stream = rows_stream("mixture", 100)
    sent = 0
    with _learner(stream) as learner:
        for mark in marks:
            n_blocks = max(1, round(mark * 1e9 / len(stream.block)) - sent)
            before = time.perf_counter()
            learner.send(n_blocks)
            sent += n_blocks
            speed = n_blocks * BLOCK / (time.perf_counter() - before)
            gigabytes = f"{sent * len(stream.block) / 1e9:.1f}"
            table.add(gigabytes, f"{sent * BLOCK:,}", f"{learner.resident_mb:.0f}", f"{speed:,.0f}")
    return table


def paces() -> Table:
    """Speed against `partial_fit`, one row for each kind of model and of records."""
    table = Table(
        "The speed of a pipe",
        [
            "kind of model", "records", "partial_fit, µs a record",
            "pipe / partial_fit, speed by wall time", "pipe / partial_fit, speed by CPU time",
        ],
        "`everlearn learn -` learns from a pipe nearly as fast as `partial_fit` from memory, and "
        "faster where reading beside learning pays: 1 is as fast. Both learn the same batches of "
        f"{BATCH} for about {SECONDS:.0f} s, after the same records; best of {RUNS} runs in turn. "
        "CPU time is that of all threads. Goal: at least 0.75 by wall time.",
    )  # fmt: skip
    kinds = ("mixture", "ppca", "components", "classifier")
    streams = [rows_stream(kind, width) for width in (20, 50) for kind in kinds]
    for stream in [*streams, texts_stream()]:
        alone, piped = Cost(), Cost()
        for _ in range(RUNS):
            n_blocks, cost = _in_memory(stream)
            alone = alone.least(cost)
            piped = piped.least(_piped(stream, n_blocks))
        shares = (f"{alone.wall / piped.wall:.2f}", f"{alone.cpu / piped.cpu:.2f}")
        table.add(stream.kind, stream.name, f"{1e6 * alone.wall:.1f}", *shares)
    return table


@dataclass(frozen=True)
class Cost:
    """Seconds a record, by wall time and by CPU time."""

    wall: float = np.inf
    cpu: float = np.inf

    def least(self, other: "Cost") -> "Cost":
        return Cost(min(self.wall, other.wall), min(self.cpu, other.cpu))


def _in_memory(stream: Stream) -> tuple[int, Cost]:
    """Blocks that take about `SECONDS` after the warm-up, and the cost of a record of them."""
    model = KINDS[stream.kind].estimator(stream.form)(random_state=0)
    classes = {} if stream.y is None else {"classes": sorted(set(stream.y))}

    def learn(i: int) -> None:
        labels = () if stream.y is None else (stream.y[i : i + BATCH],)
        model.partial_fit(stream.X[i : i + BATCH], *labels, **classes)

    def blocks(n: int) -> Cost:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(n):
            for i in range(0, BLOCK, BATCH):
                learn(i)
        each = n * BLOCK
        return Cost((time.perf_counter() - wall) / each, (time.process_time() - cpu) / each)

    blocks(WARM_BLOCKS - 1)
    n_blocks = max(1, round(SECONDS / (blocks(1).wall * BLOCK)))
    return n_blocks, blocks(n_blocks)


def _piped(stream: Stream, n_blocks: int) -> Cost:
    with _learner(stream) as learner:
        learner.send(WARM_BLOCKS)
        wall, cpu = time.perf_counter(), learner.cpu
        learner.send(n_blocks)
        each = n_blocks * BLOCK
        return Cost((time.perf_counter() - wall) / each, (learner.cpu - cpu) / each)


@contextmanager
def _learner(stream: Stream) -> Iterator["_Learner"]:
    command = "from everlearn.cli.main import app; app()"
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", command, "learn", f"{folder}/m.evl", "-"),
                *("--kind", stream.kind, *stream.options),
                *("--batch", str(BATCH), "--score-every", "0", "--json"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        yield _Learner(process, stream.block)
        process.stdin.close()
        process.wait()


class _Learner:
    """A process that learns from a pipe: what it has learned, and its CPU time and memory."""

    def __init__(self, process: subprocess.Popen[bytes], block: bytes) -> None:
        self._process, self._block = process, block
        self._sent = self._learned = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._learned = json.loads(line)["records"]

    def send(self, n_blocks: int) -> None:
        """Send blocks and wait until they are learned."""
        for _ in range(n_blocks):
            self._process.stdin.write(self._block)
        self._process.stdin.flush()
        self._sent += n_blocks * BLOCK
        while self._learned < self._sent:
            if self._process.poll() is not None:
                sys.exit(f"the learner ended with code {self._process.returncode}")
            time.sleep(0.005)

    @property
    def cpu(self) -> float:
        """Seconds of all its threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
