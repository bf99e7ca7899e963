"""Watching for topics that collapse into one while documents come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from everlearn.inference.topic_model import RoundInfo

_FEW_DOCUMENTS, _FIRST_BATCHES = 16, 5
_COLLAPSED = 0.8


@dataclass(frozen=True, slots=True)
class Collapse:
    """Most of an average document's words are in one topic."""

    model: int
    share: float
    n_topics: int


@dataclass(frozen=True, slots=True)
class Watch:
    """Where the words of the last documents went, while these are too few to be judged.

    n_documents : how many they are
    sums : for each model, the sum of their shares in each topic, by the topic's permanent number
    """

    n_documents: int = 0
    sums: tuple[Mapping[int, float], ...] = ()

    def after(self, infos: Sequence[RoundInfo]) -> tuple[Watch, Collapse | None]:
        """What to go on with after a batch, of which each model tells, and what is to be said."""
        if infos[0].clock <= _FIRST_BATCHES:
            return Watch(), None
        n = self.n_documents + infos[0].n_documents
        if self.sums or n < _FEW_DOCUMENTS:
            before = self.sums or tuple({} for _ in infos)
            sums = tuple(_added(old, info) for old, info in zip(before, infos, strict=True))
            if n < _FEW_DOCUMENTS:
                return Watch(n, sums), None
            largest = [max(s.values(), default=0.0) / n for s in sums]
        else:
            largest = [float(info.shares.max(initial=0.0)) for info in infos]
        worst = max(range(len(largest)), key=lambda q: largest[q] if infos[q].n_topics > 2 else 0.0)
        if largest[worst] > _COLLAPSED and infos[worst].n_topics > 2:
            return Watch(), Collapse(worst, largest[worst], infos[worst].n_topics)
        return Watch(), None


def _added(sums: Mapping[int, float], info: RoundInfo) -> dict[int, float]:
    out = dict(sums)
    for topic, share in zip(info.ids.tolist(), info.shares.tolist(), strict=True):
        out[topic] = out.get(topic, 0.0) + info.n_documents * share
    return out
