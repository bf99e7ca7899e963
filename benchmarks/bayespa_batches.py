"""Batch counterparts of the BayesPA models, and what the online ones take beside them."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import bayespa_plots as plots
from benchmarks.bayespa_runs import (
    PLAIN,
    PLAIN_GIBBS,
    THEIR_TOPICS,
    lda_and_svm,
    model_of,
    run,
)
from benchmarks.corpora import newsgroups
from benchmarks.remember import remembered
from benchmarks.table import Table
from everlearn import MedHDPClassifier, MedLDAClassifier

BATCH_SEEDS = 3
EQUAL = 0.01
"""An accuracy that is lower by no more is level."""
UNTIL_IT_ENDS = {"tol": 1e-4}
"""As the paper trains: until the objective falls by less than this share a round."""
BATCH = {"batch_size": "all", "n_sweeps": 1, "word_factor": "collapsed"}
COLLAPSED = {**BATCH, "n_topics": THEIR_TOPICS}
FREE = {"anchors": False}


def _lda(**given: Any) -> Callable[[], Any]:
    return partial(model_of, MedLDAClassifier, **COLLAPSED, **given)


def _hdp(**given: Any) -> Callable[[], Any]:
    return partial(model_of, MedHDPClassifier, **BATCH, **given)


BATCH_MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "MedLDA averaging, anchors": (_lda(), (2, 5, 20)),
    "MedLDA averaging, plain": (_lda(**FREE), (10, 20, 40)),
    "MedLDA Gibbs, anchors": (_lda(loss="gibbs"), (2, 5, 20)),
    "MedLDA Gibbs, plain": (_lda(loss="gibbs", **FREE), (5, 10, 20, 40)),
    "MedHDP averaging, anchors": (_hdp(), (2, 5, 20)),
    "MedHDP averaging, plain": (_hdp(**FREE), (10, 20, 40)),
    "MedHDP Gibbs, anchors": (_hdp(loss="gibbs"), (2, 5, 20)),
    "MedHDP Gibbs, plain": (_hdp(loss="gibbs", **FREE), (20, 40)),
}
"""Batch models with the constants of online models, and numbers of rounds to show them with."""
PAPER_MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "MedLDA Gibbs, plain, constants of the paper": (_lda(**PLAIN_GIBBS), (20, 40, 80, 160)),
    "MedLDA Gibbs, plain, constants of the paper, weights drawn": (
        _lda(**PLAIN_GIBBS, augmentation="all"),
        (40, 160),
    ),
    "MedHDP averaging, plain, constants of the paper": (_hdp(**PLAIN), (40,)),
    "MedHDP Gibbs, plain, constants of the paper": (_hdp(**PLAIN_GIBBS), (40, 160)),
}
"""The same with others."""
ONLINE: dict[str, tuple[str, Callable[[], Any]]] = {
    "MedLDA averaging": ("topics-averaging-40", lambda: MedLDAClassifier(n_topics=THEIR_TOPICS)),
    "MedLDA Gibbs": (
        "topics-gibbs-40",
        lambda: MedLDAClassifier(n_topics=THEIR_TOPICS, loss="gibbs"),
    ),
    "MedHDP averaging": ("MedHDP averaging", MedHDPClassifier),
    "MedHDP Gibbs": ("MedHDP Gibbs", lambda: MedHDPClassifier(loss="gibbs")),
}
"""Online models by default, with anchors, by the names that batch models begin with."""


class Run(NamedTuple):
    """Rounds, accuracy and CPU seconds: means and, of seconds, the median over seeds."""

    rounds: float
    accuracy: float
    cpu: float


@dataclass(frozen=True)
class Batch:
    """A batch model with more and more rounds and until it ends, and its online counterpart.

    `overtaken` says after how many documents the online model is level with the batch model in the
    end, if this is less accurate than the whole pass, and after how many CPU seconds.
    """

    name: str
    runs: list[Run]
    ended: Run
    online: Run
    overtaken: tuple[int, float] | None

    def level(self, run: Run) -> bool:
        """Whether this is within 0.01 of the online accuracy, or above."""
        return run.accuracy >= self.online.accuracy - EQUAL

    def ratio(self, run: Run) -> float:
        """CPU time by that of the online model."""
        return run.cpu / self.online.cpu

    def verdict(self) -> str:
        """Whether the online model is ten times as fast at the same accuracy."""
        if self.overtaken is not None:
            n_documents, cpu = self.overtaken
            ratio = self.ended.cpu / cpu
            return f"{_yes(ratio)}: level after {n_documents:,} documents ({ratio:.1f})"
        if abs(self.ended.accuracy - self.online.accuracy) > EQUAL:
            return f"{'online' if self.level(self.ended) else 'batch'} is less accurate"
        return _yes(self.ratio(self.ended))

    def soonest(self) -> str:
        """The fewest rounds that are level, and their CPU time by that of the online model."""
        for each in sorted([*self.runs, self.ended]):
            if self.level(each):
                return f"{each.rounds:.0f} ({self.ratio(each):.1f})"
        return "none"


def _yes(ratio: float) -> str:
    return "yes" if ratio >= 10.0 else "no"


def _mean(name: str, make: Callable[[], Any], measured: list[str]) -> Run:
    runs = [run(name, make, seed) for seed in range(BATCH_SEEDS)]
    measured += [r["measured"] for r in runs]
    rounds, accuracy = (float(np.mean([r[key] for r in runs])) for key in ("rounds", "accuracy"))
    return Run(rounds, accuracy, statistics.median(r["cpu"] for r in runs))


def _batches(measured: list[str]) -> list[Batch]:
    """Every batch model beside the online model that has anchors, or none, as it does."""
    found = []
    for name, (make, rounds) in BATCH_MODELS.items():
        own, make_online = ONLINE[name.split(",")[0]]
        if "plain" in name:
            own, make_online = f"{own}-plain", partial(_changed, make_online, FREE)
        runs = _shown(name, make, rounds, measured)
        ends = partial(_sampled, make, UNTIL_IT_ENDS)
        ended = _mean(f"batch {name}, until it ends", ends, measured)
        online = _mean(own, make_online, measured)
        overtaken = None
        if ended.accuracy < online.accuracy - EQUAL:
            overtaken = _overtaken(own, make_online, ended.accuracy - EQUAL, measured)
        found.append(Batch(name, runs, ended, online, overtaken))
    return found


def _overtaken(
    name: str, make: Callable[[], Any], accuracy: float, measured: list[str]
) -> tuple[int, float] | None:
    """Documents and CPU seconds after which the mean over seeds is at least so accurate."""
    curves = []
    for seed in range(BATCH_SEEDS):
        key = f"overtaking-{name}-{seed}".replace(" ", "-")
        curves.append(remembered("bayespa", key, partial(_curve, make, STEPS, seed)))
    measured += [curve["measured"] for curve in curves]
    means = np.mean([curve["accuracy"] for curve in curves], axis=0)
    places = np.flatnonzero(means >= accuracy)
    if not len(places):
        return None
    first = int(places[0])
    return STEPS[first], statistics.median(curve["cpu"][first] for curve in curves)


def _shown(
    name: str, make: Callable[[], Any], rounds: tuple[int, ...], measured: list[str]
) -> list[Run]:
    """A batch model with more and more rounds."""
    return [
        _mean(f"batch {name}-{n}", partial(_sampled, make, {"n_rounds": n}), measured)
        for n in rounds
    ]


def _changed(make: Callable[[], Any], params: Mapping[str, Any]) -> Any:
    return make().set_params(**params)


def _sampled(make: Callable[[], Any], fields: Mapping[str, Any]) -> Any:
    """The model with other options."""
    model = make()
    return model.set_params(options=replace(model.options, **fields))


def batch_models(measured: list[str]) -> Table:
    table = Table(
        "Batch counterparts",
        ["model", "rounds", "accuracy", "CPU s"],
        "All documents in one batch: collapsed samplers with word counts that follow every draw, "
        "and weights solved anew in every round; the Gibbs loss keeps their posterior or, as Gibbs "
        "MedLDA does, draws them. MedLDA has 40 topics; means of three seeds. Plain models have no "
        "anchors, and the constants of the online models without anchors: for the averaging loss "
        "of MedLDA these are the paper's. With the paper's all classes share a topic in the other "
        "online models (Gibbs .10 and .09, two seeds).",
    )
    for name, (make, rounds) in (BATCH_MODELS | PAPER_MODELS).items():
        for each in _shown(name, make, rounds, measured):
            table.add(name, f"{each.rounds:.0f}", f"{each.accuracy:.4f}", f"{each.cpu:.1f}")
    return table


def equal_accuracy(measured: list[str]) -> Table:
    """The paper's claim: online ten times as fast at the same accuracy."""
    table = Table(
        "Online against batch at equal accuracy",
        ["model", "online accuracy", "online CPU s", "batch accuracy", "rounds", "batch CPU s",
         "times online CPU", "ten times as fast", "fewest rounds that are level (times)"],
        "As the paper does, batch models are trained until their objective falls by no more than "
        "a ten-thousandth a round, or rises (`tol=1e-4`, which looks at means of ten rounds, hence "
        "20 at the least); their time is that of as many rounds that nobody watches. "
        "Means of three seeds. Both have anchors, or none, and the same constants. Level is an "
        "accuracy that is at most 0.01 below that of the other model. The last column is what one "
        "would know only by looking at the test part: which number of rounds in these tables is "
        "the first that is level. With anchors labels say in two what they have to say. A batch "
        "model that ends less accurate is compared with as much of the online pass as is needed "
        "to be level with it, which one would know only by looking at the test part, too.",
    )  # fmt: skip
    for batch in _batches(measured):
        online, ended = batch.online, batch.ended
        table.add(
            batch.name,
            f"{online.accuracy:.4f}",
            f"{online.cpu:.2f}",
            f"{ended.accuracy:.4f}",
            f"{ended.rounds:.0f}",
            f"{ended.cpu:.1f}",
            f"{batch.ratio(ended):.1f}",
            batch.verdict(),
            batch.soonest(),
        )
    return table


MARKS = (500, 1000, 2000, 4000, 8000, 11269)
STEPS = (*range(1024, 11264, 1024), 11269)
"""Whole batches."""


def convergence(measured: list[str]) -> Table:
    """Figure 3: test accuracy while the first pass goes on, and by the rounds of batch models."""
    table = Table(
        "Accuracy while documents come (Figure 3)",
        ["model", *(f"{n:,} documents" for n in MARKS), "CPU s of the pass"],
        "MedLDA has 40 topics; one seed. The picture has the plain batch models, too, whose rounds "
        "are passes, and the SVM on topics of LDA.\n\n"
        + plots.link("bayespa_convergence", "Accuracy while documents come"),
    )
    curves: dict[str, plots.Curve] = {}
    for name, (_, make) in ONLINE.items():
        key = "curve-and-time-" + name.replace(" ", "-")
        found = remembered("bayespa", key, partial(_curve, make, MARKS))
        measured.append(found["measured"])
        table.add(name, *(f"{v:.3f}" for v in found["accuracy"]), f"{found['cpu'][-1]:.2f}")
        passes = [n / MARKS[-1] for n in MARKS]
        curves[name] = passes, found["cpu"], found["accuracy"]
    for batch in _batches(measured):
        if batch.name.endswith("plain"):
            rounds, accuracy, cpu = zip(*sorted([*batch.runs, batch.ended]), strict=True)
            curves["batch " + batch.name.removesuffix(", plain")] = rounds, cpu, accuracy
    unsupervised = lda_and_svm(THEIR_TOPICS)
    curves["LDA, then SVM"] = [3], [unsupervised["cpu"]], [unsupervised["accuracy"]]
    plots.convergence(curves)
    return table


def _curve(make: Callable[[], Any], marks: tuple[int, ...], seed: int = 0) -> dict[str, Any]:
    data = newsgroups()
    order = np.random.default_rng(seed).permutation(data.X.shape[0])
    model = make().set_params(random_state=seed, engine="serial")
    accuracy, cpu, begin, seconds = [], [], 0, 0.0
    for end in marks:
        rows = order[begin:end]
        X, y = data.X[rows], data.y[rows]
        start = time.process_time()
        model.partial_fit(X, y, classes=np.arange(20))
        seconds += time.process_time() - start
        accuracy.append(float(model.score(data.X_test, data.y_test)))
        cpu.append(seconds)
        begin = end
    return {"accuracy": accuracy, "cpu": cpu}
