"""The local step of a tree of topics in which path and levels of a document are independent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.tree import Tree
from everlearn.inference.engine import Engine, pieces
from everlearn.inference.kernels.tree_meanfield import Blended, blend_paths, gather_blended
from everlearn.inference.kernels.tree_paths import Found, PathTable, choose_slots
from everlearn.inference.local.tree_paths import (
    BLOCK,
    PathStats,
    bag,
    moved_levels,
    rewrite,
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
        entries = documents.indptr

        def part_of(where: slice) -> Blended:
            phi = found.phi[entries[where.start] : entries[where.stop]]
            return found._replace(
                slots=found.slots[where], shares=found.shares[where], g=found.g[where], phi=phi,
                bounds=found.bounds[where],
            )  # fmt: skip

        blocks = pieces(documents, BLOCK, part_of)
        shared = (paths, np.log(paths.table), self.steps, choose)
        for block, new in zip(blocks, engine.map(_update, blocks, shared), strict=True):
            rewrite(part_of(block.whole), new)

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


def _update(shared: tuple[PathTable, Mat, int, bool], block: tuple[Documents, Blended]) -> Blended:
    """What was found of a block, brought up to date; the one given is written to."""
    (paths, logs, steps, choose), (documents, found) = shared, block
    words, n = bag(documents), len(documents)
    if choose:
        unused = np.zeros((*found.slots.shape, found.g.shape[1]))
        choose_slots(words, 0, n, paths, Found(found.slots, found.shares, unused, found.bounds))
    blend_paths(words, 0, n, paths, logs, steps, found)
    return found
