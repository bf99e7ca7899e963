"""`DPMixture.outlier_score` against IsolationForest and LocalOutlierFactor, no parameter tuned.

Each class with less than half of the rows is the odd one in turn, at most `MOST_CLASSES` of them.
Models learn 70 % of the other rows. They judge the rest, and the rows of the odd class.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler

from benchmarks.linear import CLASSES
from benchmarks.table import Table
from everlearn import DPMixture

SETS = (
    "iris", "wine", "breast cancer", "digits", "optdigits", "letter", "htru2", "statlog",
)  # fmt: skip
MOST_CLASSES, MOST_ROWS, FEW_ROWS, N_SPLITS = 5, 2500, 1000, 5
RATE = 0.01
OURS: dict[str, dict[str, Any]] = {
    "full": {"family": "full"},
    "shared": {"prior": "shared"},
}


def run() -> Table:
    """AUC of each model on each set, and the share of ordinary rows that ours flag."""
    table = Table(
        "Odd rows, against IsolationForest and LocalOutlierFactor",
        [
            "table", "rows x columns", "`full`", "`shared`", "IsolationForest",
            "LocalOutlierFactor", "ordinary rows flagged, `full`", "`shared`",
        ],
        "AUC of odd rows against ordinary rows that no model has learned; 1 is perfect. Each "
        "class with less than half of the rows is the odd one in turn, at most "
        f"{MOST_CLASSES} of them; models learn 70 % of the rows of all others, at most "
        f"{MOST_ROWS:,}, on scaled columns. Means over classes, and over {N_SPLITS} splits of "
        f"tables below {FEW_ROWS:,} rows. `full` is `DPMixture(family=\"full\")`, `shared` is "
        '`DPMixture(prior="shared")`; peers have default parameters '
        f"(`novelty=True`). The last columns are shares flagged by `is_outlier(rate={RATE})`. "
        "The form of the score was chosen with these tables in view; no number in it was. "
        "Goal: an AUC at or above both peers on each table.",
    )  # fmt: skip
    means = []
    for name in SETS:
        X, y = CLASSES[name]()
        found = np.mean([_measured(*split) for split in _splits(X, y)], axis=0)
        means.append(found)
        _add(table, name, f"{X.shape[0]:,} x {X.shape[1]}", found)
    _add(table, "mean", "", np.mean(means, axis=0))
    return table


def _add(table: Table, name: str, shape: str, found: np.ndarray) -> None:
    table.add(name, shape, *(f"{auc:.3f}" for auc in found[:4]), *(f"{r:.1%}" for r in found[4:]))


def _splits(X: np.ndarray, y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Rows to learn, ordinary rows to judge, and odd ones; columns scaled by the first."""
    classes, sizes = np.unique(y, return_counts=True)
    for odd in classes[sizes < len(y) / 2][:MOST_CLASSES]:
        for seed in range(N_SPLITS if len(X) < FEW_ROWS else 1):
            order = np.random.default_rng(seed).permutation(len(X))
            ordinary = X[order[y[order] != odd]][:MOST_ROWS]
            strange = X[order[y[order] == odd]][:MOST_ROWS]
            cut = int(0.7 * len(ordinary))
            scaler = StandardScaler().fit(ordinary[:cut])
            learn, judge, strange = (
                scaler.transform(part) for part in (ordinary[:cut], ordinary[cut:], strange)
            )
            yield learn, judge, strange


def _measured(learn: np.ndarray, judge: np.ndarray, odd: np.ndarray) -> list[float]:
    rows = np.concatenate([judge, odd])
    truth = np.repeat([0, 1], [len(judge), len(odd)])
    aucs, rates = [], []
    for params in OURS.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = DPMixture(random_state=0, **params).fit(learn)
        aucs.append(roc_auc_score(truth, model.outlier_score(rows)))
        rates.append(float(model.is_outlier(judge, rate=RATE).mean()))
    peers = (IsolationForest(random_state=0), LocalOutlierFactor(novelty=True))
    theirs = [roc_auc_score(truth, -peer.fit(learn).score_samples(rows)) for peer in peers]
    return [*aucs, *theirs, *rates]
