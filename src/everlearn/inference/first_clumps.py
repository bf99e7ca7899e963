"""First clumps: large documents in a few hundred clumps each, on which topics are searched for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everlearn.core.arrays import Labels, Vec
from everlearn.inference.clumped_topics import GroupedModel
from everlearn.inference.clumps import Items, clumped
from everlearn.inference.partition import Leaves, Refiner


@dataclass(frozen=True, slots=True)
class LeavesEach:
    """So many divisions that each document has room for."""

    room: Vec

    def costs(self, leaves: Leaves) -> Vec:
        return np.ones(len(leaves))

    def take(self, region: int, cost: float) -> bool:
        self.room[region] -= cost
        return bool(self.room[region] >= 0)


def first_clumps(model: GroupedModel, points: Items, documents: Labels, most: int) -> Items:
    """The points of each document in at most `most` clumps.

    `documents` are positions from 0 up, one for each point; a document has one group.
    """
    n_documents = int(documents.max()) + 1
    sizes = np.ones(int(points.groups.max()) + 1)
    every = np.arange(n_documents)
    leaves = Leaves.start(points, documents, every, np.ones(n_documents), sizes)
    limit = LeavesEach(np.full(n_documents, most - 1.0))
    Refiner(model, points, sizes, documents=False).refine(leaves, limit)
    return clumped(points, leaves.of, len(leaves))
