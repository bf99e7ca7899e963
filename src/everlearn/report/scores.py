"""Scores of new records before the model learned them, read from the run log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from everlearn.core.arrays import Vec

_REFERENCE: Final = 50
"""Scored batches before a fall that it is compared with, at most."""
_LEAST: Final = 3
"""Scored batches that must lie on each side of a fall."""
_SURE: Final = 5.0
"""Report a fall above this many standard errors. 2 would be too few, because many places are tried.
"""
_RECENT: Final = 10


@dataclass(frozen=True, slots=True)
class Drift:
    """New records fit worse than earlier ones: since when, and mean scores before and since."""

    records: int
    before: float
    since: float


@dataclass(frozen=True, slots=True)
class NewScores:
    """Mean scores of batches that the model had not learned yet.

    Attributes
    ----------
    n_batches : number of scored batches that each mean is of
    first, last : mean of the first and of the last scored batches
    """

    n_batches: int
    first: float
    last: float


def new_scores(log: Sequence[Mapping[str, Any]]) -> NewScores | None:
    """Mean scores of the first and the last batches; None if the log has no score of a new one.

    Each batch counts by its records.
    """
    _, scores, weights = _scored(log)
    if not len(scores):
        return None
    n = max(1, min(_RECENT, len(scores) // 2))
    return NewScores(
        n,
        float(np.average(scores[:n], weights=weights[:n])),
        float(np.average(scores[-n:], weights=weights[-n:])),
    )


def drift_of(log: Sequence[Mapping[str, Any]]) -> Drift | None:
    """The fall of the scores of new batches that lasts until now, if there is one.

    Each place is tried: the batches since then against those right before it. The noise of a score
    is estimated from the differences of neighbours, which a single fall hardly changes.
    """
    records, scores, _ = _scored(log)
    n = len(scores)
    if n < 2 * _LEAST:
        return None
    noise = float(np.abs(np.diff(scores)).mean()) * np.sqrt(np.pi) / 2
    if noise <= 1e-9 * float(np.abs(scores).max()):
        return None
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    places = np.arange(_LEAST, n - _LEAST + 1)
    begins = np.maximum(0, places - _REFERENCE)
    before = (sums[places] - sums[begins]) / (places - begins)
    since = (sums[n] - sums[places]) / (n - places)
    falls = (before - since) / (noise * np.sqrt(1 / (places - begins) + 1 / (n - places)))
    falls[np.median(scores[-_LEAST:]) > before - 2 * noise / np.sqrt(_LEAST)] = 0.0  # has ended
    best = int(falls.argmax())
    if falls[best] <= _SURE:
        return None
    place = begins[best] + _break_of(scores[begins[best] :])
    recent = scores[max(0, place - _REFERENCE) : place]
    return Drift(int(records[place - 1]), float(recent.mean()), float(scores[place:].mean()))


def _break_of(scores: Vec) -> int:
    """Where to cut the scores in two so that the means of the parts differ most."""
    n = len(scores)
    cuts = np.arange(_LEAST, n - _LEAST + 1)
    below = np.cumsum(scores)[cuts - 1]
    contrast = (below / cuts - (scores.sum() - below) / (n - cuts)) * np.sqrt(cuts * (n - cuts))
    return int(cuts[contrast.argmax()])


def _scored(log: Sequence[Mapping[str, Any]]) -> tuple[Vec, Vec, Vec]:
    """Records learned by the end of each scored batch, its score as new, and its records."""
    found, known = [], 0
    for line in log:
        records, score = int(line.get("records", 0)), line.get("score_before")
        if isinstance(score, (int, float)) and records > known:
            found.append((records, float(score), records - known))
        known = records
    table = np.array(found, np.float64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]
