"""Topic samplers against tomotopy's (C++), and two threads against one: tokens a second."""

import importlib.util
import os
from functools import partial
from typing import Any

import numpy as np

from benchmarks.clock import cpu_seconds, wall_seconds
from benchmarks.corpora import DATA, Corpus, newsgroups
from benchmarks.table import Table
from everlearn import MedHDPClassifier, MedLDAClassifier, TopicModel

SWEEPS = 10
PASSES = 3
ROUNDS = 25


def against_tomotopy() -> Table | None:
    """Ratios of speed; None without the shared data or tomotopy."""
    if not DATA.exists() or importlib.util.find_spec("tomotopy") is None:
        print("skipped the comparison with tomotopy: no shared data, or it is not installed")
        return None
    table = Table(
        "Tokens drawn per second, against tomotopy",
        [
            "model", "million draws a CPU second", "tomotopy, million draws a CPU second",
            "everlearn / tomotopy",
        ],
        "Every model draws faster than tomotopy. 20 Newsgroups, one thread, best of "
        f"{PASSES} measurements. Ours are whole passes: draws of starts and sweeps count, and the "
        "time includes weights and counts. tomotopy's are sweeps of its LDA or HDP sampler with "
        "the same number of topics, after some sweeps that do not count.",
    )  # fmt: skip
    for k in (40, 100):
        peer = _tomotopy("LDAModel", k=k, alpha=1.0 / k, eta=0.1)
        for name, model in {
            "LDA": TopicModel(n_topics=k),
            "MedLDA averaging": MedLDAClassifier(n_topics=k),
            "MedLDA Gibbs": MedLDAClassifier(n_topics=k, loss="gibbs"),
        }.items():
            _add(table, f"{name}, {k} topics", _ours(model), peer)
    peer = _tomotopy("HDPModel", initial_k=20, alpha=0.1, eta=0.1)
    for loss, name in (("averaging", "MedHDP averaging"), ("gibbs", "MedHDP Gibbs")):
        _add(table, name, _ours(MedHDPClassifier(loss=loss)), peer)
    return table


def _add(table: Table, name: str, ours: float, peer: float) -> None:
    table.add(name, f"{ours / 1e6:.1f}", f"{peer / 1e6:.1f}", f"{ours / peer:.2f}")


def _ours(model: Any) -> float:
    """Draws per CPU second in the best of several passes."""
    data = newsgroups()
    model.set_params(engine="serial", random_state=0)
    labels = {} if isinstance(model, TopicModel) else {"y": data.y, "classes": np.arange(20)}
    order = np.random.default_rng(0).permutation(data.X.shape[0])
    X = data.X[order]
    labels = {k: v[order] if k == "y" else v for k, v in labels.items()}
    model.partial_fit(X, **labels)
    seconds = min(cpu_seconds(lambda: model.partial_fit(X, **labels)) for _ in range(PASSES))
    return float(X.sum()) * (model._current_settings().n_sweeps + 1) / seconds


def tomotopy_model(kind: str, X: Any, **settings: float) -> Any:
    """A tomotopy model with documents; the words are the numbers of their columns."""
    import tomotopy

    model = getattr(tomotopy, kind)(seed=1, **settings)
    for row in range(X.shape[0]):
        part = slice(X.indptr[row], X.indptr[row + 1])
        words = np.repeat(X.indices[part], X.data[part].astype(int))
        if len(words):
            model.add_doc([str(w) for w in words])
    return model


def _tomotopy(kind: str, **settings: float) -> float:
    X = newsgroups().X
    model = tomotopy_model(kind, X, **settings)
    model.train(20, workers=1)
    seconds = min(cpu_seconds(lambda: model.train(SWEEPS, workers=1)) for _ in range(PASSES))
    return float(X.sum()) * SWEEPS / seconds


def threads() -> Table | None:
    """Wall times of both engines; None without the shared data."""
    if not DATA.exists():
        print("skipped threads: no folder of shared data beside the repository")
        return None
    table = Table(
        "Two threads against one",
        ["model", "batch size", "one thread, wall s", "all cores, wall s", "speed-up"],
        f"Wall time of a pass over 20 Newsgroups on {os.cpu_count()} cores, the shortest of "
        f"{ROUNDS}, measured in turn. MedLDA has 40 topics; MedHDP finds their number. Goal: a "
        "speed-up of 1.7.",
    )
    data = newsgroups()
    for loss in ("averaging", "gibbs"):
        for size in (64, 256, 512, 1024):
            model = MedLDAClassifier(n_topics=40, loss=loss, batch_size=size)
            _add_threads(table, f"MedLDA {loss}", model, data)
        _add_threads(table, f"MedHDP {loss}", MedHDPClassifier(loss=loss, batch_size=512), data)
    return table


def _add_threads(table: Table, name: str, model: Any, data: Corpus) -> None:
    one, two = map(min, zip(*(_both(data, model) for _ in range(ROUNDS)), strict=True))
    table.add(name, model.batch_size, f"{one:.2f}", f"{two:.2f}", f"{one / two:.2f}")


def _both(data: Corpus, model: Any) -> tuple[float, float]:
    """Seconds of a pass on one thread, and on all cores."""
    one, all_cores = (
        wall_seconds(partial(model.set_params(engine=engine, random_state=0).fit, data.X, data.y))
        for engine in ("serial", "threads")
    )
    return one, all_cores
