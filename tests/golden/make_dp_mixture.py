"""Writes the golden files of `DPMixture` anew, for when a format version is added.

Run from the top of the repository with ``PYTHONPATH=src:tests python
tests/golden/make_dp_mixture.py``. Files of released versions are never replaced.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from everlearn.mixture.estimator import DPMixture
from support.streams import FAMILIES, batches_of

HERE = Path(__file__).parent


def learned(family: str) -> tuple[DPMixture, list[list[float | None]]]:
    """A model with sealed and open rows, weights, and what else its family can have."""
    model = DPMixture(family=family, birth_window=40, batch_size=20, random_state=7)
    batches = batches_of(family, [60, 30, 9], seed=11)
    probe = batches_of(family, [6], seed=12)[0]
    if family == "diagonal":
        batches[1][::5, 0] = probe[::3, 1] = np.nan
    for rows in batches:
        X = sparse.csr_array(rows) if family == "multinomial" else rows
        model.partial_fit(X, sample_weight=1.0 + np.arange(len(rows)) % 3)
    return model, [[None if np.isnan(x) else round(x, 6) for x in row] for row in probe.tolist()]


def main() -> None:
    golden: dict[str, Any] = {}
    for family in FAMILIES:
        model, probe = learned(family)
        model.save(HERE / f"dp_mixture_{family}.evl")
        X = np.array(probe, float)
        golden[family] = {
            "probe": probe,
            "component_ids": model.component_ids_.tolist(),
            "n_rows_seen": model.n_samples_seen_,
            "bound": model.bound_,
            "weights": model.weights_.tolist(),
            "means": model.means_.tolist(),
            "probabilities": model.predict_proba(X).tolist(),
            "scores": model.score_samples(X).tolist(),
        }
    text = json.dumps(golden, indent=1) + "\n"
    (HERE / "dp_mixture.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
