"""What a fitted `TopicTree` shows and answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.halves import split_documents
from everlearn.core.params import Interval, Options, check_params
from everlearn.estimators.base import LearnerMixin
from everlearn.estimators.documents import documents_of, word_names
from everlearn.estimators.topic_tree_learning import Learned, tree_rules
from everlearn.estimators.tree_view import FittedTree, TreeNode
from everlearn.inference.kernels.tree_paths import Found, PathTable
from everlearn.inference.learners.tree_stream import TreeState
from everlearn.inference.local.tree_paths import (
    PathStep,
    found_under,
    held_out_likelihood,
    mean_table,
)
from everlearn.runtime.engine import nearby, open_engine

_STEP = PathStep(most=16, steps=30)
_SHOWN_WORDS = 8
_METHODS = {"method": (Options(("completion", "paper")),)}
_COUNT = {"n": (Interval(1, integer=True),)}


class TopicTreePredictions(LearnerMixin, TransformerMixin):
    """Fitted attributes and answers, computed from the counts when asked for."""

    _learned: Learned
    engine: str | None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def _fitted(self) -> TreeState:
        check_is_fitted(self)
        return self._learned.state

    # ------------------------------------------------------------------ attributes

    @property
    def tree_(self) -> FittedTree:
        """The nodes with their permanent ids, masses and top words; printing it shows it."""
        topics = self._fitted().topics
        tree, mass = topics.tree, topics.mass
        words = self.top_words(_SHOWN_WORDS)
        return FittedTree(
            tuple(
                TreeNode(
                    int(tree.ids[i]),
                    None if i == 0 else int(tree.ids[tree.parents[i]]),
                    int(tree.levels[i]),
                    float(mass[i]),
                    tuple(str(word) for word in words[i]),
                )
                for i in range(len(tree))
            )
        )

    def to_networkx(self) -> Any:
        """The tree as a `networkx.DiGraph`; nodes carry `level`, `mass` and `words`."""
        return self.tree_.to_networkx()

    @property
    def n_nodes_(self) -> int:
        """Nodes of the tree."""
        return len(self._fitted().topics.tree)

    @property
    def n_components_(self) -> int:
        """Nodes of the tree, under the name that all estimators have for it."""
        return self.n_nodes_

    @property
    def component_ids_(self) -> IntVec:
        """Permanent ids of the nodes, parents first; never used twice in the life of a model."""
        return self._fitted().topics.tree.ids.copy()

    @property
    def components_(self) -> Mat:
        """Dirichlet parameters of the nodes' topics over words, (n_nodes, n_words)."""
        state = self._fitted()
        return np.asarray(state.topics.counts.T + state.word_prior)

    @property
    def level_prior_(self) -> Vec:
        """Dirichlet parameters of a document's levels; near 0.01 a level is switched off."""
        return self._fitted().topics.alpha.copy()

    @property
    def bound_history_(self) -> Vec:
        """Lower bound of the log-evidence after each variational lap of the last `fit`."""
        self._fitted()
        return np.array(self._learned.bounds)

    @property
    def vocabulary_(self) -> NDArray[Any]:
        """The word of each column, or its number if words have no names."""
        self._fitted()
        return word_names(self, self._learned.words)

    @property
    def n_documents_seen_(self) -> int:
        """Documents learned from."""
        return self._fitted().n_documents

    @property
    def n_tokens_seen_(self) -> int:
        """Tokens learned from."""
        return self._fitted().n_tokens

    def top_words(self, n: int = 10) -> list[list[Any]]:
        """The words that each node has most of.

        Parameters
        ----------
        n : int, default=10
            How many at most.

        Returns
        -------
        words : list of lists
            One list a node, in the order of `component_ids_`; words that a node has none of are
            left out.
        """
        check_params(f"{type(self).__name__}.top_words", {"n": n}, _COUNT)
        counts, names = self._fitted().topics.counts, self.vocabulary_
        best = np.argsort(-counts, axis=0, kind="stable")[:n]
        return [
            names[[w for w in best[:, i] if counts[w, i] > 0]].tolist()
            for i in range(counts.shape[1])
        ]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: "path" and a node's id, then "level" and a number.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            One name for each column.
        """
        tree = self._fitted().topics.tree
        names = [f"path{i}" for i in tree.ids] + [f"level{i}" for i in range(tree.depth)]
        return np.array(names, dtype=object)

    # ------------------------------------------------------------------ answers

    def transform(self, X: Any) -> Mat:
        """Where documents belong: probabilities of paths, and shares of levels.

        Parameters
        ----------
        X : documents
            As in `fit`; words that the model does not know are left out.

        Returns
        -------
        posterior : ndarray of shape (n_documents, n_nodes + depth)
            First the probability that the path ends at each node (on the last level) or leaves
            the known tree there (above); then the expected share of the words at each level. Both
            parts of a row sum to 1.
        """
        tree = self._fitted().topics.tree
        found = self._found(self._read(X))
        paths = np.zeros((len(found.slots), len(tree) + 1))
        np.add.at(paths, (np.arange(len(paths))[:, None], found.slots), found.shares)
        paths = paths[:, :-1] / paths[:, :-1].sum(axis=1, keepdims=True)
        total = np.maximum(found.g.sum(axis=2, keepdims=True), 1e-300)
        levels = np.einsum("nm,nml->nl", found.shares, found.g / total)
        return np.hstack([paths, levels / levels.sum(axis=1, keepdims=True)])

    def predict(self, X: Any) -> IntVec:
        """The best path of each document.

        Parameters
        ----------
        X : documents
            As in `fit`.

        Returns
        -------
        ids : ndarray of shape (n_documents,)
            The id of the last known node of the path; ``tree_.path(id)`` has the others.
        """
        tree = self._fitted().topics.tree
        found = self._found(self._read(X))
        best = found.shares.argmax(axis=1)
        return np.asarray(tree.ids[found.slots[np.arange(len(best)), best]])

    def score_samples(self, X: Any, method: str = "completion") -> Vec:
        """Held-out log-likelihood of each document, per word; see `score`.

        Parameters
        ----------
        X : documents
            As in `fit`.
        method : {"completion", "paper"}, default="completion"
            See `score`.

        Returns
        -------
        log_likelihood : ndarray of shape (n_documents,)
            Nats per word; 0 for a document without words to score.
        """
        log_likelihood, n_tokens = self._likelihood(X, method)
        return np.asarray(log_likelihood / np.maximum(n_tokens, 1))

    def score(self, X: Any, y: Any = None, method: str = "completion") -> float:
        """Mean log-likelihood of words of documents that were not learned from.

        Parameters
        ----------
        X : documents
            As in `fit`.
        y : None
            Ignored.
        method : {"completion", "paper"}, default="completion"
            "completion" finds path and levels from one half of a document's words and scores the
            other, given one path for all of them. "paper" scores the words that path and levels
            were found from, which flatters every model.

        Returns
        -------
        score : float
            Nats per word; larger is better.
        """
        log_likelihood, n_tokens = self._likelihood(X, method)
        return float(log_likelihood.sum() / max(1, n_tokens.sum()))

    # ------------------------------------------------------------------ inner

    def _likelihood(self, X: Any, method: str) -> tuple[Vec, IntVec]:
        check_params(f"{type(self).__name__}.score", {"method": method}, _METHODS)
        seen = scored = self._read(X)
        if method == "completion":
            seen, scored = split_documents(seen, 0)
        with open_engine(nearby(self.engine)) as engine:
            found = held_out_likelihood(self._paths(), seen, scored, engine, _STEP)
        return np.where(scored.lengths > 0, found, 0.0), scored.lengths

    def _found(self, documents: Documents) -> Found:
        with open_engine(nearby(self.engine)) as engine:
            return found_under(self._paths(), documents, engine, _STEP)

    def _paths(self) -> PathTable:
        state = self._fitted()
        self._check_params()
        return mean_table(state.topics, state.word_prior, tree_rules(self).paths)

    def _read(self, X: Any) -> Documents:
        self._fitted()
        return documents_of(self, X, self._learned.words, grow=False)[0]
