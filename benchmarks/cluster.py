"""Two worker processes of a Dask cluster against one: time and bytes of a step.

Also writes the figures of docs/scaling.md. `python -m benchmarks.cluster 0.1` measures with a tenth
of the data and writes nothing.
"""

import importlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cloudpickle
import dask.array as da
import dask.bag as db
import numpy as np
from dask import delayed
from distributed.comm.tcp import TCP

from benchmarks.table import ROOT, Table, circumstances
from everlearn import DPMixture, TopicModel
from everlearn.core.priors.dp import DPPrior
from everlearn.core.random import stream
from everlearn.engine.chunks import sample_rows
from everlearn.engine.dask import local_workers
from everlearn.estimator.collections import open_rows
from everlearn.estimator.families import DataSummary, resolve_family
from everlearn.mixture.births import seed_labels
from everlearn.mixture.inputs import checked_rows
from everlearn.mixture.learner import SAMPLE_ROWS
from everlearn.mixture.local import LocalRunner, MixtureStep, Plan
from everlearn.mixture.memoized import open_batches, visit
from everlearn.mixture.model import Mixture
from everlearn.mixture.state import State
from everlearn.topics.batches import Targets
from everlearn.topics.chunked import ChunkedBatch, learn_chunked_batch
from everlearn.topics.corpus import open_chunks

N_ROWS, N_FEATURES, N_COMPONENTS = 2_000_000, 50, 50
N_DOCUMENTS, N_WORDS, N_TOPICS, LENGTH = 200_000, 2000, 50, 100
LAPS = 2
RUNS = 5
CHUNKS = 80
STEPS = 10
"""Batches of a lap or a pass; each is one step."""
MESSAGES = 16_000
"""Bytes of messages that processes may write in a step, for each worker."""
_WRITTEN = [0]


# ------------------------------------------------------------------ data, made on the workers


def rows(part: int, n: int) -> np.ndarray:
    centres = stream(0, "start").normal(0.0, 3.0, (N_COMPONENTS, N_FEATURES))
    rng = stream(0, "sample", part)
    return centres[rng.integers(N_COMPONENTS, size=n)] + rng.normal(size=(n, N_FEATURES))


def documents(part: int, n: int) -> list[np.ndarray]:
    topics = stream(1, "start").dirichlet(np.full(N_WORDS, 0.05), N_TOPICS)
    upto = topics.cumsum(axis=1)
    upto[:, -1] = 1.0
    rng = stream(1, "sample", part)
    few = rng.integers(N_TOPICS, size=(n, 3))
    topic = np.take_along_axis(few, rng.integers(3, size=(n, LENGTH)), axis=1)
    ladder = (upto + np.arange(N_TOPICS)[:, None]).ravel()
    words = np.searchsorted(ladder, topic + rng.random((n, LENGTH))) - topic * N_WORDS
    return list(np.minimum(words, N_WORDS - 1))


def row_chunks(n: int) -> Any:
    sizes = np.diff(np.linspace(0, n, CHUNKS + 1).astype(int)).tolist()
    parts = [
        da.from_delayed(delayed(rows)(i, size), (size, N_FEATURES), float)
        for i, size in enumerate(sizes)
    ]
    return da.concatenate(parts)


def document_parts(n: int) -> Any:
    sizes = np.diff(np.linspace(0, n, CHUNKS + 1).astype(int)).tolist()
    return db.from_delayed([delayed(documents)(i, size) for i, size in enumerate(sizes)])


# ------------------------------------------------------------------ measuring


def count_bytes() -> None:
    """Count what this process writes to others from now on."""
    if getattr(TCP, "counted", False):
        return
    write = TCP.write

    async def counted(self: TCP, *args: Any, **kwargs: Any) -> int:
        n = await write(self, *args, **kwargs)
        _WRITTEN[0] += n
        return n

    TCP.write, TCP.counted = counted, True


def written() -> int:
    return _WRITTEN[0]


@dataclass(frozen=True)
class Cost:
    """One step: wall s, CPU s here and of the busiest worker, bytes between processes."""

    wall: float
    here: float
    busiest: float
    moved: float

    @property
    def alone(self) -> float:
        """Seconds on an idle machine: the work that does not run in parallel."""
        return self.here + self.busiest


def bound(n_workers: int, posterior: int, statistics: int) -> int:
    """Bytes that a step may move: the posterior to each worker, its statistics back, messages.

    Posterior and statistics travel twice, because they go through the scheduler.
    """
    return n_workers * (2 * (posterior + statistics) + MESSAGES)


@contextmanager
def cluster(n_workers: int) -> Iterator[Any]:
    with local_workers(n_workers) as client:
        count_bytes()
        client.run(count_bytes)
        yield client


def step_cost(client: Any, lap: Callable[[], None]) -> Cost:
    """Cost of a step: a share of what laps cost after a first lap that does not count."""
    lap()
    before = _meters(client)
    for _ in range(LAPS):
        lap()
    spent = (_meters(client) - before) / (LAPS * STEPS)
    wall, here, moved, *workers = spent
    return Cost(wall, here, max(workers), moved)


def _meters(client: Any) -> np.ndarray:
    cpu = client.run(time.process_time)
    moved = written() + sum(client.run(written).values())
    return np.array([time.perf_counter(), time.process_time(), moved, *cpu.values()])


def mixture_cost(n_workers: int, n: int) -> tuple[Cost, int, int]:
    """Cost of a step, bytes of the posterior, and of one set of statistics."""
    model = DPMixture(random_state=0)
    with cluster(n_workers) as client:
        model.set_params(engine=client)
        with open_rows(model, row_chunks(n), None, checked_rows) as given:
            measured = DataSummary.from_chunks(given.rows, given.engine)
            family = resolve_family("diagonal", "data", measured)
            mixture = Mixture(family, DPPrior(1.0))
            runner = LocalRunner(MixtureStep(family), given.engine)
            empty = State.empty(mixture, 0, N_COMPONENTS)
            sample = sample_rows(given.rows, SAMPLE_ROWS, 0, given.engine)
            points = family.embedding(sample.X)
            labels = seed_labels(points, None, N_COMPONENTS, stream(0, "start", 0))
            found = runner.in_process().hard_stats(sample, labels, empty.total.ids)
            start = mixture.posterior(found)
            state = open_batches(empty, start, given.rows.blocks(n // STEPS), runner)

            def lap() -> None:
                nonlocal state
                for position in range(len(state.batches)):
                    state, _ = visit(state, position, Plan(), runner)

            cost = step_cost(client, lap)
    return cost, *(len(cloudpickle.dumps(part)) for part in (state.posterior(), state.total))


def topics_cost(n_workers: int, n: int) -> tuple[Cost, int, int]:
    model = TopicModel(n_topics=N_TOPICS, random_state=0)
    with cluster(n_workers) as client:
        model.set_params(engine=client)
        with open_chunks(model, document_parts(n), None) as corpus:
            settings = model._settings(None)
            (state,) = model._begin(settings, corpus.words).states
            batches = corpus.documents.blocks(n // STEPS)

            def lap() -> None:
                nonlocal state
                for batch in batches:
                    asked = ChunkedBatch(batch, Targets.none(len(batch)))
                    state, _ = learn_chunked_batch(settings, state, asked, corpus.engine)

            cost = step_cost(client, lap)
    return cost, *[len(cloudpickle.dumps(state.counts))] * 2


# ------------------------------------------------------------------ tables


def run(scale: float = 1.0) -> Table:
    """One worker against two, and a quarter of the data against all of it."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    table = Table(
        "Worker processes of a Dask cluster",
        [
            "model", "items", "workers", "wall s a step", "CPU s, coordinator",
            "CPU s, busiest worker", "speed-up by wall time", "speed-up by CPU time",
            "MB moved a step", "share of the limit",
        ],
        "Two workers are nearly twice as fast as one, and the bytes of a step do not grow with the "
        f"data. A step visits a tenth of the data, which the workers made in {CHUNKS} chunks and "
        f"keep. Mixture: {N_FEATURES} features, {N_COMPONENTS} components, memoized. Topics: "
        f"{N_TOPICS} of {N_WORDS:,} words, documents of {LENGTH}. Workers have one thread; best of "
        f"{RUNS} runs in turn. CPU time compares the coordinator plus the busiest worker: the time "
        "of a step on an idle machine. MB are what all processes write to sockets. The limit, "
        "for each worker, is a posterior and a set of statistics, twice because both go through "
        f"the scheduler, and {MESSAGES // 1000} kB of messages. Goal: a speed-up of 1.7.",
    )  # fmt: skip
    found: dict[str, Cost] = {}
    for name, cost_of, n in (
        ("mixture", mixture_cost, int(scale * N_ROWS)),
        ("topics", topics_cost, int(scale * N_DOCUMENTS)),
    ):
        sizes = ((1, n), (2, n), (2, n // 4))
        runs = [[cost_of(*size) for size in sizes] for _ in range(RUNS)]
        best = [min(column, key=lambda run: run[0].wall) for column in zip(*runs, strict=True)]
        base = best[0][0]
        for (n_workers, items), (cost, posterior, statistics) in zip(sizes, best, strict=True):
            same = items == n
            table.add(
                name, f"{items:,}", n_workers, f"{cost.wall:.3f}", f"{cost.here:.3f}",
                f"{cost.busiest:.3f}", f"{base.wall / cost.wall:.2f}" if same else "",
                f"{base.alone / cost.alone:.2f}" if same else "", f"{cost.moved / 1e6:.2f}",
                f"{cost.moved / bound(n_workers, posterior, statistics):.0%}",
            )  # fmt: skip
            if same:
                found[f"{name} {n_workers}"] = cost
    if scale == 1.0:
        write_scaling(found)
    return table


def write_scaling(found: dict[str, Cost]) -> None:
    """The figures of docs/scaling.md, between its marks."""
    path = ROOT / "docs" / "scaling.md"
    text = path.read_text()
    begin, end = "<!-- figures -->", "<!-- end of figures -->"
    head, rest = text.split(begin)
    tail = rest.split(end)[1]
    path.write_text(f"{head}{begin}\n{scaling_tables(found)}{end}{tail}")


def scaling_tables(found: dict[str, Cost]) -> str:
    """Tables of the measured symbols and of what the formula predicts for larger clusters."""
    one, two = found["mixture 1"], found["mixture 2"]
    width, k = 2 * N_FEATURES, N_COMPONENTS
    statistics = 8 * k * (width + 3)
    row = one.busiest * STEPS / N_ROWS
    each = max(two.here - one.here, 0.0)
    fixed = one.here - each
    measured = Table(
        "", ["symbol", "meaning", "value"],
        rows=[
            ["a", "CPU seconds of a worker for a row in a lap", f"{row:.2e}"],
            ["g", "CPU seconds of the coordinator for a step, without workers", f"{fixed:.3f}"],
            ["h", "CPU seconds of the coordinator for a step and a worker", f"{each:.3f}"],
            ["S", "bytes of a set of statistics, and of a posterior", f"{statistics:,}"],
            ["b", "bytes a second of the coordinator's network (assumed: 10 Gbit/s)", "1.25e9"],
        ],
    )  # fmt: skip
    worked = Table(
        "",
        ["workers", "rows", "GB of rows a worker", "compute s a step", "network s a step",
         "coordinator s a step", "s a lap", "speed-up over one worker"],
    )  # fmt: skip
    for workers, rows_there in ((2, 2_000_000), (10, 10**8), (100, 10**9)):
        held = 8 * N_FEATURES * rows_there / workers / 1e9
        compute = row * rows_there / STEPS / workers
        network = 4 * workers * statistics / 1.25e9
        here = fixed + each * workers
        step = compute + network + here
        gain = (row * rows_there / STEPS + fixed + each) / step
        worked.rows.append(
            [f"{workers:,}", f"{rows_there:,}", f"{held:.1f}",
             f"{compute:.2f}", f"{network:.4f}", f"{here:.3f}", f"{step * STEPS:.1f}",
             f"{gain:.0f}"]
        )  # fmt: skip

    def body(table: Table) -> str:
        return table.markdown().split("\n", 2)[2]

    clock = (
        f"By the clock, a lap of {N_ROWS:,} rows took {one.wall * STEPS:.1f} s on one worker and "
        f"{two.wall * STEPS:.1f} s on two, which shared two cores with the coordinator.\n"
    )
    tables = f"{body(measured)}\n{body(worked)}\n{clock}"
    return f"\nMeasured on {circumstances()}.\n\n{tables}\n"


if __name__ == "__main__":
    # By its name, so that workers find the functions and their counters in the module.
    main = importlib.import_module("benchmarks.cluster")
    print(main.run(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0).markdown())
