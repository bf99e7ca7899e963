"""The local step of the published algorithm: one posterior of levels for all paths of a document.

`TreeOptions(local="meanfield")` uses it. It is looser than `PathStep`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.core.documents import Documents
from everlearn.core.tree import Tree
from everlearn.engine.protocol import Engine
from everlearn.trees.kernels.meanfield import gather_meanfield, infer_meanfield
from everlearn.trees.kernels.paths import PathTable, Posteriors, choose_slots
from everlearn.trees.local import (
    PathStats,
    empty_posteriors,
    run_blocks,
    with_entropy,
    word_counts,
)


@dataclass(frozen=True, slots=True)
class MeanFieldStep:
    """The local step with one posterior of levels for all paths of a document.

    most : slots that are worked out for a document
    steps : iterations over a document's words
    """

    most: int = 8
    steps: int = 8

    def start(self, documents: Documents, tree: Tree) -> Posteriors:
        m, n_phi = min(self.most, len(tree)), len(documents.words)
        return empty_posteriors(len(documents), m, 1, n_phi, tree.depth)

    def run(
        self, documents: Documents, paths: PathTable, q: Posteriors, engine: Engine, *, choose: bool
    ) -> None:
        shared = (paths, np.log(paths.table), self.steps, choose)
        run_blocks(documents, q, engine, _improve, shared)

    def gathered(self, documents: Documents, paths: PathTable, q: Posteriors) -> PathStats:
        stats = PathStats.zeros(paths, len(documents))
        gather_meanfield(word_counts(documents), paths, q, stats.counts, stats.slots, stats.logs)
        return with_entropy(stats, paths, q.bounds)


def _improve(
    shared: tuple[PathTable, Mat, int, bool], block: tuple[Documents, Posteriors]
) -> Posteriors:
    (paths, logs, steps, choose), (documents, q) = shared, block
    words, n = word_counts(documents), len(documents)
    if choose:
        # `choose_slots` moves levels along with their slots, but here all slots share them.
        unused = np.zeros((*q.slots.shape, q.g.shape[2]))
        choose_slots(words, 0, n, paths, q._replace(g=unused))
    infer_meanfield(words, 0, n, paths, logs, steps, q)
    return q
