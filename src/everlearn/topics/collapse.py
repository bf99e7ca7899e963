"""Notice topics that collapse into one while a classifier learns, and warn of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from everlearn.errors import TopicCollapseWarning
from everlearn.topics.batches import BatchInfo
from everlearn.topics.settings import TopicSettings

_FEWEST_DOCUMENTS = 16
"""Fewer documents may well have the same topic by chance."""
_FIRST_BATCHES = 5
"""No warning so early: topics are still finding their place."""
_COLLAPSED = 0.8


@dataclass(frozen=True, slots=True)
class Collapse:
    """One topic holds most words of an average document.

    model : index of the model; 0 unless each class has its own
    share : of the words that the topic holds
    n_topics : topics of the model
    """

    model: int
    share: float
    n_topics: int


@dataclass(frozen=True, slots=True)
class RecentShares:
    """Shares of the topics in the latest documents, while these are too few to judge by.

    n_documents : number of these documents
    sums : for each model, the sum of their shares of each topic, by the topic's permanent id
    """

    n_documents: int = 0
    sums: tuple[Mapping[int, float], ...] = ()

    def add_batch(self, infos: Sequence[BatchInfo]) -> tuple[RecentShares, Collapse | None]:
        """The shares to go on with after a batch, and the collapse that it shows, if any.

        `infos` has one entry for each model.
        """
        if infos[0].clock <= _FIRST_BATCHES:
            return RecentShares(), None
        n = self.n_documents + infos[0].n_documents
        if self.sums or n < _FEWEST_DOCUMENTS:
            before = self.sums or tuple({} for _ in infos)
            sums = tuple(_added(old, info) for old, info in zip(before, infos, strict=True))
            if n < _FEWEST_DOCUMENTS:
                return RecentShares(n, sums), None
            largest = [max(s.values(), default=0.0) / n for s in sums]
        else:
            largest = [float(info.shares.max(initial=0.0)) for info in infos]
        # One of two topics may well hold nearly all words.
        worst = max(range(len(largest)), key=lambda q: largest[q] if infos[q].n_topics > 2 else 0.0)
        if largest[worst] > _COLLAPSED and infos[worst].n_topics > 2:
            return RecentShares(), Collapse(worst, largest[worst], infos[worst].n_topics)
        return RecentShares(), None


def _added(sums: Mapping[int, float], info: BatchInfo) -> dict[int, float]:
    out = dict(sums)
    for topic, share in zip(info.ids.tolist(), info.shares.tolist(), strict=True):
        out[topic] = out.get(topic, 0.0) + info.n_documents * share
    return out


def warn_of_collapse(settings: TopicSettings, collapse: Collapse, stacklevel: int) -> None:
    """Warn the user, and say which parameters may help."""
    remedy = "other values of 'C' and 'variance'" if settings.anchored else "anchors=True"
    model = f" for class {settings.classes[collapse.model]}" if settings.n_models > 1 else ""
    warnings.warn(
        f"{settings.name} has put {collapse.share:.0%} of its documents' words into one of "
        f"{collapse.n_topics} topics{model}. Try {remedy}.",
        TopicCollapseWarning,
        stacklevel=stacklevel + 1,
    )
