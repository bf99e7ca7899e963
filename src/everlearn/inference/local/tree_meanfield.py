"""The local step of a tree of topics in which path and levels of a document are independent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everlearn.core.arrays import Vec
from everlearn.core.documents import Documents
from everlearn.core.tree import Tree
from everlearn.inference.engine import Engine
from everlearn.inference.kernels.tree_meanfield import Blended, blend_paths, gather_blended
from everlearn.inference.kernels.tree_paths import Found, PathTable, choose_slots
from everlearn.inference.local.tree_paths import (
    PathStats,
    bag,
    blocks,
    moved_levels,
    with_entropy,
)


@dataclass(frozen=True, slots=True)
class MeanFieldStep:
    """The local step with one posterior of levels for all paths of a document.

    most : slots that are looked at for a document; all, if there are no more
    steps : iterations over a document's words
    """

    most: int = 8
    steps: int = 8

    def start(self, documents: Documents, tree: Tree) -> Blended:
        """Nothing is known of the documents."""
        n, m = len(documents), min(self.most, len(tree))
        return Blended(
            np.full((n, m), -1, np.int32), np.zeros((n, m)), np.zeros((n, tree.depth)),
            np.zeros((len(documents.words), tree.depth)), np.zeros(n),
        )  # fmt: skip

    def run(
        self,
        documents: Documents,
        paths: PathTable,
        found: Blended,
        engine: Engine,
        *,
        choose: bool,
    ) -> None:
        """Bring `found` up to date; `choose` looks at all slots again."""
        words, logs = bag(documents), np.log(paths.table)
        unused = np.zeros((*found.slots.shape, found.g.shape[1]))
        chosen = Found(found.slots, found.shares, unused, found.bounds)

        def task(_: None, block: tuple[int, int]) -> None:
            if choose:
                choose_slots(words, *block, paths, chosen)
            blend_paths(words, *block, paths, logs, self.steps, found)

        engine.map(task, blocks(len(documents)), None)

    def moved(self, found: Blended, by: Vec) -> Blended:
        """A copy of what was found, for a prior of levels that has changed so much."""
        g = moved_levels(found.g, by)
        slots, shares = found.slots.copy(), found.shares.copy()
        return Blended(slots, shares, g, found.phi.copy(), found.bounds.copy())

    def gathered(self, documents: Documents, paths: PathTable, found: Blended) -> PathStats:
        """Statistics of documents that were found under these paths."""
        stats = PathStats.zeros(paths, len(documents))
        gather_blended(bag(documents), paths, found, stats.counts, stats.slots, stats.logs)
        return with_entropy(stats, paths, found.bounds)
