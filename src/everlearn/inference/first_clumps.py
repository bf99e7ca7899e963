"""First clumps: large documents in a few hundred clumps each, on which topics are searched for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everlearn.core.arrays import IntVec, Labels
from everlearn.inference.clumped_topics import GroupedModel
from everlearn.inference.clumps import Items, clumped
from everlearn.inference.partition import Leaves, Refiner


@dataclass(frozen=True, slots=True)
class LeavesEach:
    """So many divisions that each document has room for."""

    room: IntVec

    def take(self, leaves: Leaves, leaf: int) -> bool:
        document = leaves.region[leaf]
        self.room[document] -= 1
        return bool(self.room[document] >= 0)


def first_clumps(model: GroupedModel, points: Items, documents: Labels, most: int) -> Items:
    """The points of each document in at most `most` clumps.

    `documents` are positions from 0 up, one for each point; a document has one group.
    """
    n_documents = int(documents.max()) + 1
    sizes = np.ones(int(points.groups.max()) + 1)
    every = np.arange(n_documents)
    leaves = Leaves.start(points, documents, every, np.ones(n_documents), sizes)
    limit = LeavesEach(np.full(n_documents, most - 1))
    Refiner(model, points, sizes, documents=False).refine(leaves, limit)
    return clumped(points, leaves.of, len(leaves))
