"""Single runs of `OnlinePPCA` and of its competitors on streams of digits: scores and CPU time."""

import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.decomposition import IncrementalPCA
from sklearn.metrics import normalized_mutual_info_score

from benchmarks.corpora import DATA
from benchmarks.reference.constrained_em import constrained_ppca
from benchmarks.reference.printed_ppca import PrintedPPCA, PrintedStep
from everlearn import OnlinePPCA
from everlearn.metrics.continual import ContinualEvaluator
from everlearn.ppca.model import PPCA
from everlearn.ppca.moments import Moments

CLASSES = 10
EM_TOLERANCE = 1e-3  # nats per row, of an iteration of batch EM
PEER_BATCH = 50
"""Rows of a batch of scikit-learn's IncrementalPCA; it takes no fewer than it has components."""


@dataclass(frozen=True)
class Digits:
    """Rows and classes, with the rank, the batch size and the marks of their streams."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    q: int
    batch: int
    marks: tuple[int, ...]

    def held_out(self) -> dict[int, np.ndarray]:
        return {c: self.X_test[self.y_test == c] for c in range(CLASSES)}

    def of_class(self, c: int, rng: np.random.Generator) -> np.ndarray:
        return rng.permutation(self.X[self.y == c])


@cache
def digits(name: str) -> Digits:
    data = np.load(DATA / name / f"{name}.npz")
    parts = [data[key] for key in ("X_train", "y_train", "X_test", "y_test")]
    if name == "optdigits":
        X, y, X_test, y_test = parts
        return Digits(X / 16.0, y, X_test / 16.0, y_test, 10, 5, (250, 500, 1000, 3800))
    X, y, X_test, y_test = (part.reshape(len(part), -1).squeeze() for part in parts)
    kept = np.sort(np.concatenate([np.flatnonzero(y == c)[:2000] for c in range(CLASSES)]))
    X, y, X_test, y_test = X[kept] / 255.0, y[kept], X_test[:5000] / 255.0, y_test[:5000]
    return Digits(X, y, X_test, y_test, 20, 10, (1000, 5000, 20_000))


# ------------------------------------------------------------------------- competitors


class Scored:
    """A PPCA with a score."""

    model: PPCA

    def score(self, X: np.ndarray) -> float:
        return float(self.model.log_likelihood(X).mean())


class Oracle(Scored):
    """The PPCA of maximum likelihood for all rows so far."""

    def __init__(self, seen: Moments, q: int) -> None:
        self.model = seen.ppca(q)


class Peer(Scored):
    """scikit-learn's IncrementalPCA as a PPCA, with the noise of all variance that is left.

    Its own noise variance knows the directions of the last batch only.
    """

    def __init__(self, q: int, rank: int) -> None:
        self.q, self.pca = q, IncrementalPCA(rank)
        self.wait: list[np.ndarray] = []

    def partial_fit(self, X: np.ndarray, task: Any = None) -> "Peer":
        self.wait.append(X)
        if sum(map(len, self.wait)) >= PEER_BATCH:
            self.finish()
        return self

    def finish(self) -> None:
        rows = np.concatenate([np.empty((0, self.wait[0].shape[1])), *self.wait])
        if len(rows) >= self.pca.n_components:
            self.pca.partial_fit(rows)
            self.wait = []

    def consolidate(self) -> None:
        if self.wait:
            self.finish()

    @property
    def model(self) -> PPCA:  # type: ignore[override]
        pca, q = self.pca, self.q
        n = pca.n_samples_seen_
        values = pca.explained_variance_[:q] * (n - 1) / n
        noise = (pca.var_.sum() - values.sum()) / (len(pca.mean_) - q)
        return PPCA(pca.mean_, pca.components_[:q].T * np.sqrt(values - noise), float(noise))


EM_TASK = {"em": "kl", "constraint": "task", "options": {"step_size": 0.05}}
SLOW = {"step_size": 0.02}
METHODS: dict[str, dict[str, Any]] = {
    "oEM, 0.02": {"constraint": None, "options": SLOW},
    "oEM, k^-0.6": {"constraint": None},
    "oEM, 1/k": {"constraint": None, "options": {"step_power": 1.0}},
    "oEM, 0.02, printed statistics": {"printed": {"moving_centre": True}},
    "Nat-oEM step": {"constraint": "step"},
    "Nat-oEM step, rank q": {"constraint": "step", "kept": 1},
    "Nat-oEM task": {"constraint": "task"},
    "Nat-oEM task, EM": EM_TASK,
    "gain, step": {"em": "gain", "constraint": "step", "options": {"step_size": 0.05}},
    "gain, task": {"em": "gain", "constraint": "task", "options": SLOW},
    "gain, previous": {
        "em": "gain", "constraint": "previous", "constraint_weight": 100.0, "options": SLOW,
    },
    "ewc, task": {"em": "ewc", "constraint": "task", "options": SLOW},
    "printed, previous": {"printed": {"constraint": "previous", "step": PrintedStep(20.0)}},
    "printed, task": {"printed": {"step": PrintedStep(20.0)}},
    "printed, task, marginal": {"printed": {"step": PrintedStep(1.0, complete=False)}},
    "IncrementalPCA, rank q": {"peer": 1},
    "IncrementalPCA, rank 2q": {"peer": 2},
}  # fmt: skip
"""Parameters of each competitor; `kept` and `peer` are ranks in units of q.

`printed` are parameters of `PrintedPPCA`, which learns with a step size of 0.02, and `em` is the
form of a `ConstrainedPPCA`.
"""


def made(data: Digits, settings: dict[str, Any]) -> Any:
    settings = dict(settings)
    if "peer" in settings:
        return Peer(data.q, settings["peer"] * data.q)
    if "printed" in settings:
        return PrintedPPCA(data.q, data.batch, SLOW["step_size"], **settings["printed"])
    if "kept" in settings:
        settings["options"] = {"kept_components": settings.pop("kept") * data.q}
    return _online(data, {"random_state": 0, **settings})


def _online(data: Digits, settings: dict[str, Any]) -> OnlinePPCA:
    shared = {"n_components": data.q, "batch_size": data.batch, "engine": "serial"}
    form = settings.pop("em", None)
    if form is None:
        return OnlinePPCA(**shared, **settings)
    return constrained_ppca(form, **shared, **settings)


def order_of(seed: int, last: int | None = None) -> list[int]:
    order = np.random.default_rng([seed, 7]).permutation(CLASSES).tolist()
    return order if last is None else [*(c for c in order if c != last), last]


def fed(model: Any, X: np.ndarray, batch: int, task: Any = None) -> None:
    if isinstance(model, Peer):
        for start in range(0, len(X), batch):
            model.partial_fit(X[start : start + batch])
    else:
        model.partial_fit(X, task=task)


# ------------------------------------------------------------------------------- runs


def one_after_the_other(
    name: str, settings: dict[str, Any], seed: int, last: int | None = None
) -> dict[str, Any]:
    """Learn class after class: the table of scores, the reconstruction error and CPU seconds."""
    data, rng = digits(name), np.random.default_rng(seed)
    model, learning = made(data, settings), ContinualEvaluator(data.held_out())
    learning.begin()
    cpu = 0.0
    for c in order_of(seed, last):
        rows = data.of_class(c, rng)
        start = time.process_time()
        fed(model, rows, data.batch, c)
        model.consolidate()
        cpu += time.process_time() - start
        learning.update(model, c)
    known = isinstance(model, (Peer, PrintedPPCA))
    found = model.model if known else model._learned.state.models[0]
    u = found.axes()[0]
    y = data.X_test - found.mean
    error = float(((y - y @ u @ u.T) ** 2).sum(axis=1).mean())
    return {**_tables(learning), "reconstruction": error, "cpu": cpu}


def _tables(learning: ContinualEvaluator) -> dict[str, Any]:
    before = learning.initial
    return {"scores": learning.scores.tolist(), "initial": None if before is None else list(before)}


@cache
def class_moments(name: str, c: int) -> Moments:
    data = digits(name)
    return Moments.of_rows(data.X[data.y == c]).compact()


def cumulative(name: str, seed: int) -> dict[str, Any]:
    """The oracle: maximum likelihood on all classes so far, after each class."""
    data, seen = digits(name), None
    learning = ContinualEvaluator(data.held_out())
    learning.begin()
    for c in order_of(seed):
        part = class_moments(name, c)
        seen = part if seen is None else (seen + part).compact()
        oracle = Oracle(seen, data.q)
        learning.update(oracle, c)
    return {**_tables(learning), "all": oracle.score(data.X_test)}


def batch_em(name: str, seed: int) -> dict[str, Any]:
    """Score, iterations and CPU seconds of EM from random loadings, on all rows at once."""
    data = digits(name)
    model = OnlinePPCA(
        data.q, fit_method="em", tol=EM_TOLERANCE, max_iter=3000, engine="serial", random_state=seed
    )
    start = time.process_time()
    model.fit(data.X)
    cpu = time.process_time() - start
    return {"score": model.score(data.X_test), "iterations": model.n_iter_, "cpu": cpu}


def shuffled(name: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Learn all classes mixed: test scores along the stream, at the marks, and CPU seconds."""
    data = digits(name)
    X = np.random.default_rng(seed).permutation(data.X)[: data.marks[-1]]
    model, curve, cpu = made(data, settings), [], 0.0
    steps = np.unique(np.geomspace(50, len(X), 24).astype(int) // 50 * 50).tolist()
    for start, stop in zip([0, *steps], steps, strict=False):
        begun = time.process_time()
        fed(model, X[start:stop], data.batch)
        cpu += time.process_time() - begun
        curve.append([stop, model.score(data.X_test)])
    nearest = {str(m): min(curve, key=lambda point: abs(point[0] - m))[1] for m in data.marks}
    return {"curve": curve, "marks": nearest, "cpu": cpu}


# ------------------------------------------------- drift, weights, returns, mixtures, units


def drifting(settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Scores on a stream whose contrast falls to a quarter; each batch is scored, then learned.

    `classes` is the mean score after a stream of one class after the other.
    """
    data, rng = digits("optdigits"), np.random.default_rng(seed)
    X = rng.permutation(data.X)
    fade = np.linspace(1.0, 0.25, len(X))[:, None]
    X = 0.5 + fade * (X - 0.5)
    model, scores = made(data, settings), []
    for start in range(0, len(X), 50):
        batch = X[start : start + 50]
        if start:
            scores.append(model.score(batch))
        fed(model, batch, data.batch)
    late = 0.5 + 0.25 * (data.X_test - 0.5)
    done = one_after_the_other("optdigits", settings, seed)
    return {
        "prequential": float(np.mean(scores[len(scores) // 2 :])),
        "end": model.score(late),
        "classes": float(np.mean(done["scores"][-1])),
    }


def unequal(weighing: str, seed: int) -> dict[str, Any]:
    """Scores after classes of 380, 190, 95, ... rows that should count alike."""
    data, rng = digits("optdigits"), np.random.default_rng(seed)
    order = order_of(seed)
    parts = [data.of_class(c, rng)[: max(380 >> i, 12)] for i, c in enumerate(order)]
    weights = [np.full(len(part), 380 / len(part)) for part in parts]
    if weighing == "oracle":
        model: Any = OnlinePPCA(data.q, engine="serial")
        model.fit(np.concatenate(parts), sample_weight=np.concatenate(weights))
    else:
        model = made(data, {"peer": 2} if weighing == "peer" else {"constraint": "step"})
        for part, w in zip(parts, weights, strict=True):
            if weighing == "weighted":
                model.partial_fit(part, sample_weight=w)
            else:
                fed(model, part, data.batch)
        model.consolidate()
    scores = [model.score(rows) for rows in data.held_out().values()]
    return {"mean": float(np.mean(scores)), "worst": float(np.min(scores))}


def returning(settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Scores of classes that come in three visits: just before each return, and at the end."""
    data, rng = digits("optdigits"), np.random.default_rng(seed)
    parts = {c: np.array_split(data.of_class(c, rng), 3) for c in range(CLASSES)}
    model, remembered, held_out = made(data, settings), [], data.held_out()
    for visit in range(3):
        for c in np.random.default_rng([seed, visit]).permutation(CLASSES).tolist():
            if visit:
                remembered.append(model.score(held_out[c]))
            fed(model, parts[c][visit], data.batch, f"{c}, visit {visit}")
    model.consolidate()
    return {
        "return": float(np.mean(remembered)),
        "final": float(np.mean([model.score(rows) for rows in held_out.values()])),
    }


def mixtures(name: str, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Scores of a mixture of up to ten PPCAs, class after class or fitted to all rows at once."""
    data, rng = digits(name), np.random.default_rng(seed)
    settings = dict(settings)
    at_once = settings.pop("at_once", False)
    model = _online(data, {"random_state": seed, "n_mixtures": CLASSES, **settings})
    learning, start = ContinualEvaluator(data.held_out()), time.process_time()
    if at_once:
        model.set_params(tol=EM_TOLERANCE, max_iter=3000).fit(data.X)
    else:
        for c in order_of(seed):
            model.partial_fit(data.of_class(c, rng), task=c)
            model.consolidate()
            learning.update(model, c)
    cpu = time.process_time() - start
    labels = np.zeros(len(data.y_test), int)
    if model.n_mixtures != 1:
        labels = model.predict(data.X_test)
    return {
        "scores": learning.scores.tolist(),
        "final": float(np.mean([model.score(rows) for rows in data.held_out().values()])),
        "used": model.n_mixtures_,
        "nmi": float(normalized_mutual_info_score(data.y_test, labels)),
        "cpu": cpu,
    }


def units(settings: dict[str, Any], scale: float, seed: int) -> dict[str, Any]:
    """Score after one class after the other, with rows in other units; None if learning fails."""
    data, rng = digits("optdigits"), np.random.default_rng(seed)
    model = made(data, settings)
    try:
        for c in order_of(seed):
            fed(model, data.of_class(c, rng) * scale, data.batch, c)
        model.consolidate()
        score = model.score(data.X_test * scale) + data.X.shape[1] * np.log(scale)
    except ValueError:
        return {"final": None}
    return {"final": score}
