"""Topic trees as published: Wang and Blei, Variational Inference for the Nested CRP (NIPS 2009).

It differs from `TopicTree` in three ways, each of which is weaker (docs/papers/ncrp.md): documents
have one posterior of levels for all paths, the tree starts from one draw of each document, and it
changes by the moves of `published_moves.py` alone.
"""

from dataclasses import dataclass, field

import numpy as np

from benchmarks.reference.published_kernels import gather_meanfield, infer_meanfield
from benchmarks.reference.published_moves import published_moves
from everlearn.core.arrays import Mat
from everlearn.core.documents import Documents
from everlearn.core.tree import Tree
from everlearn.engine.protocol import Engine
from everlearn.trees.fit import sample_tree
from everlearn.trees.kernels.paths import PathTable, Posteriors, choose_slots
from everlearn.trees.local import PathStats, empty_posteriors, with_entropy, word_counts
from everlearn.trees.model import TreeTopics
from everlearn.trees.settings import TreeSettings
from everlearn.trees.variational import CHOOSE_EVERY, begin, pruned, visit, without_empty

MOVES_EVERY = 3
"""Passes between two rounds of moves."""
PASSES_AFTER = 2
"""Passes after the last change of the tree, so that documents settle in it."""


@dataclass
class MeanFieldStep:
    """A local step with one posterior of levels for all paths of a document.

    It takes the place of a `PathStep`. Posteriors have levels of shape (n_documents, 1, depth).

    Attributes
    ----------
    most : slots that are worked out for a document
    steps : iterations over a document's words
    phi : (n_entries, depth) levels of each distinct word of the documents, from the last run
    """

    most: int = 8
    steps: int = 8
    phi: Mat = field(default_factory=lambda: np.empty((0, 0)))

    def start(self, documents: Documents, tree: Tree) -> Posteriors:
        """Posteriors of documents before the first step."""
        q = empty_posteriors(len(documents), min(self.most, len(tree)), tree.depth)
        return q._replace(g=q.g[:, :1].copy())

    def run(
        self, documents: Documents, paths: PathTable, q: Posteriors, engine: Engine, *, choose: bool
    ) -> None:
        """Improve `q` in place, in this process."""
        words, n = word_counts(documents), len(documents)
        if choose:
            # `choose_slots` moves levels along with their slots, but here all slots share them.
            unused = np.zeros((*q.slots.shape, q.g.shape[2]))
            choose_slots(words, 0, n, paths, q._replace(g=unused))
        self.phi = np.zeros((len(documents.words), q.g.shape[2]))
        infer_meanfield(words, 0, n, paths, np.log(paths.table), self.steps, q, self.phi)

    def gathered(self, documents: Documents, paths: PathTable, q: Posteriors) -> PathStats:
        """Statistics of the documents of the last run."""
        stats = PathStats.zeros(paths, len(documents))
        sums = stats.counts, stats.slots, stats.logs
        gather_meanfield(word_counts(documents), paths, q, self.phi, *sums)
        return with_entropy(stats, paths, q.bounds)


def published_tree(
    start: TreeTopics, documents: Documents, settings: TreeSettings, engine: Engine, seed: int
) -> TreeTopics:
    """The tree after one draw of each document and all variational passes.

    `settings` has no sweeps and no merges, and a `MeanFieldStep`.
    """
    topics, _ = sample_tree(start, documents, settings, seed, _quiet)
    state, fresh = begin(topics, [documents], settings.step), 0
    for done in range(settings.n_passes):
        choose = (done - fresh) % CHOOSE_EVERY == 0
        state = visit(state, 0, settings.rules, settings.step, engine, choose=choose)
        left, topics = settings.n_passes - 1 - done, state.topics
        if left >= PASSES_AFTER and done % MOVES_EVERY == MOVES_EVERY - 1:
            q = state.batches[0].q
            topics = published_moves(topics, [(documents, q)], settings.rules, seed, done)
        if left == PASSES_AFTER:
            topics = pruned(topics, settings.min_mass)
        if topics is not state.topics:
            state, fresh = begin(topics, [documents], settings.step), done + 1
    return without_empty(state.topics)


def _quiet(done: int, n_nodes: int) -> None:
    """Shows no progress."""
