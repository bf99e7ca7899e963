"""What a fitted `TopicTree` shows and answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents, split_documents
from everlearn.engine.opening import nearby, open_engine
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin
from everlearn.estimator.collections import brought_here
from everlearn.estimator.params import Constraint, Instance, Interval, Options, check_params
from everlearn.estimator.saving import SaveMixin
from everlearn.estimator.tree_view import FittedTree, TreeNode, check_room_for_a_path
from everlearn.store.schema import Arrays
from everlearn.text.inputs import (
    DOCUMENT_CONSTRAINTS,
    TextOptions,
    document_tags,
    documents_of,
    word_names,
)
from everlearn.trees.checkpoint import pack_tree, unpack_tree
from everlearn.trees.fit import (
    LEVEL_RANGE,
    Learned,
    begin,
    learn_corpus,
    learn_stream,
    random_order,
    tree_rules,
    with_words,
)
from everlearn.trees.kernels.paths import Found, PathTable
from everlearn.trees.local import PathStep, found_under, held_out_likelihood, mean_table
from everlearn.trees.stream import TreeState

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
    def n_samples_seen_(self) -> int:
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


_LEVEL = Interval(*LEVEL_RANGE)


@dataclass(frozen=True, slots=True)
class LevelPrior:
    """A constraint: numbers that densities of levels can be computed with, one for each level."""

    def allows(self, value: Any) -> bool:
        """Whether the value is a sequence of at least two such numbers."""
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)) or len(value) < 2:
            return False
        return all(_LEVEL.allows(v) for v in value)

    def __str__(self) -> str:
        return f"a sequence, for each level {_LEVEL}"


_TRUTH = Instance((bool, np.bool_), "a truth value")


class TopicTree(TopicTreePredictions, SaveMixin, BaseEstimator):
    """Hierarchical topic model: each document follows one path of a tree of topics.

    The root has the words that all documents share, nodes below it those of ever narrower
    subjects. How many branches there are is found (a nested Chinese restaurant process); all
    infinitely many paths that the tree does not hold yet are reckoned with.

    `fit` draws a tree with a collapsed sampler and refines it by variational inference;
    `partial_fit` learns from documents that need not come again, with births and mergers as they
    come. Derivations: docs/math/topic_tree.md.

    Parameters
    ----------
    depth : int, default=3
        Levels of a path, the root's included.
    concentration : float, default=1.0
        Larger values expect more branches.
    word_prior : float, default=0.5
        Dirichlet parameter of a topic for each word. Smaller values give more and sharper topics;
        the size of the tree depends on it more than on anything else.
    level_prior : sequence of depth floats or None, default=None
        Dirichlet parameters of a document's levels, from the root down, to begin with. None is
        (50, 20, 10), halved from level to level beyond.
    learn_levels : bool, default=True
        Whether the prior of levels is learned, which matters more than any other choice. It may
        switch levels off, see `level_prior_`.
    max_nodes : int, default=1000
        No more are born.
    learning : {"batch", "memoized", "stream"}, default="batch"
        How `fit` learns: from all documents at once; in batches that are visited again and again,
        whose statistics are remembered; or in one pass, as `partial_fit` does.
    init : {"gibbs", "incremental"}, default="gibbs"
        Where `fit` begins its variational laps: at the tree after `n_sweeps` of the sampler, or
        right after each document was drawn once.
    n_sweeps : int, default=40
        Sweeps of the sampler in `fit`. In the first half the prior of words is smaller and grows.
    n_iterations : int, default=6
        Variational laps in `fit`; 0 keeps the drawn tree.
    local : {"path", "meanfield"}, default="path"
        Posterior of a document's levels: one for each path, or one for all paths, which is looser.
    n_candidates : int, default=8
        Paths of a document that are worked out, out of all that are looked at.
    moves : {"sampled", "paper", None}, default="sampled"
        How the tree changes. "sampled" merges siblings wherever the tree is likelier for it;
        branches are born as the sampler draws them. "paper" grows, prunes and merges between
        variational laps by the posterior of paths alone, which hardly ever acts on text. None
        leaves the sampled tree as it is.
    min_mass : float, default=0.5
        Documents that a branch needs to stay, and tokens that a last node needs, at the end of
        `fit`.
    batch_size : int, default=50
        Documents that are learned together on a stream, or remembered together ("memoized").
    reservoir : int, default=300
        Documents of the past that a stream keeps and can still move.
    stream_sweeps : int, default=8
        Sweeps of the sampler over each batch of a stream; the first has 30.
    shuffle : bool, default=True
        Whether `fit` with `learning="stream"` visits documents in random order.
    vocabulary : sequence or mapping of words, default=None
        The words, in the order of the columns; None lets tokens and texts bring them.
    stop_words : "english", collection of words or None, default=None
        Words of texts to leave out.
    text : TextOptions, mapping of its fields or None, default=None
        How texts become words (`token_pattern`), and how many words at most (`max_features`).
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where documents are worked on; all engines give the same bits. None uses all cores;
        "dask", a `distributed.Client` or an address ("tcp://...") a cluster.
        The sampler itself visits one document after the other.
    random_state : int, RandomState instance or None, default=None
        Determines all draws.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    tree_ : FittedTree
        Nodes with permanent ids, parents, masses and top words; ``print(model.tree_)`` shows it.
    n_nodes_, n_components_ : int
        Nodes of the tree.
    component_ids_ : ndarray of shape (n_nodes,)
        Permanent ids, parents first.
    components_ : ndarray of shape (n_nodes, n_words)
        Dirichlet parameters of the topics.
    level_prior_ : ndarray of shape (depth,)
        Prior of levels, as learned.
    bound_history_ : ndarray
        The bound after each variational lap of the last `fit`.
    vocabulary_ : ndarray of shape (n_words,)
        The word of each column.
    n_samples_seen_, n_tokens_seen_ : int
        What was learned from.

    Examples
    --------
    >>> from everlearn import TopicTree
    >>> texts = [
    ...     "the cat and the dog sleep",
    ...     "the dog and the cat bark",
    ...     "the stock and the bond fall",
    ...     "the bond and the stock rise",
    ... ] * 25
    >>> model = TopicTree(depth=2, n_sweeps=20, random_state=0).fit(texts)
    >>> model.tree_.root.words[0]
    'the'
    >>> same = model.predict(["cat dog", "dog cat", "stock bond"])
    >>> bool(same[0] == same[1] != same[2])
    True
    """

    checkpoint_key: ClassVar[str] = "topic-tree"
    _options: ClassVar = {"text": TextOptions}
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "depth": (Interval(2, 32, integer=True),),
        "concentration": (Interval(1e-6, 1e6),),
        "word_prior": (Interval(1e-3, 1e6),),
        "level_prior": (Options((None,)), LevelPrior()),
        "learn_levels": (_TRUTH,),
        "max_nodes": (Interval(2, 2**20, integer=True),),
        "learning": (Options(("batch", "memoized", "stream")),),
        "init": (Options(("gibbs", "incremental")),),
        "n_sweeps": (Interval(0, 2**15, integer=True),),
        "n_iterations": (Interval(0, integer=True),),
        "local": (Options(("path", "meanfield")),),
        "n_candidates": (Interval(1, integer=True),),
        "moves": (Options(("sampled", "paper", None)),),
        "min_mass": (Interval(0),),
        "batch_size": (Interval(1, integer=True),),
        "reservoir": (Interval(0, integer=True),),
        "stream_sweeps": (Interval(1, 2**15, integer=True),),
        "shuffle": (_TRUTH,),
        **DOCUMENT_CONSTRAINTS,
        **COMMON_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        depth: int = 3,
        concentration: float = 1.0,
        word_prior: float = 0.5,
        level_prior: Any = None,
        learn_levels: bool = True,
        max_nodes: int = 1000,
        learning: str = "batch",
        init: str = "gibbs",
        n_sweeps: int = 40,
        n_iterations: int = 6,
        local: str = "path",
        n_candidates: int = 8,
        moves: str | None = "sampled",
        min_mass: float = 0.5,
        batch_size: int = 50,
        reservoir: int = 300,
        stream_sweeps: int = 8,
        shuffle: bool = True,
        vocabulary: Any = None,
        stop_words: Any = None,
        text: Any = None,
        engine: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.depth = depth
        self.concentration = concentration
        self.word_prior = word_prior
        self.level_prior = level_prior
        self.learn_levels = learn_levels
        self.max_nodes = max_nodes
        self.learning = learning
        self.init = init
        self.n_sweeps = n_sweeps
        self.n_iterations = n_iterations
        self.local = local
        self.n_candidates = n_candidates
        self.moves = moves
        self.min_mass = min_mass
        self.batch_size = batch_size
        self.reservoir = reservoir
        self.stream_sweeps = stream_sweeps
        self.shuffle = shuffle
        self.vocabulary = vocabulary
        self.stop_words = stop_words
        self.text = text
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a corpus, forgetting anything learned before.

        Parameters
        ----------
        X : documents
            Counts of shape (n_documents, n_words), dense or sparse; or a list of arrays of word
            numbers, of lists of words, or of texts. Dask collections are brought here.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            (X,) = brought_here(self, X=X)
            documents, words = documents_of(self, X, None, grow=True)
            seed = self._new_seed()
            learned = begin(self, words, seed)
            if self.learning == "stream":
                order = random_order(self, len(documents), seed)
                self._learned = learn_stream(self, learned, documents, order)
            else:
                self._learned = learn_corpus(self, learned, documents)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from documents that need not come again, in the order in which they come.

        Parameters
        ----------
        X : documents
            As in `fit`. Words may be new if documents are not given as counts.
        y : None
            Ignored.

        Returns
        -------
        self
            The estimator, which has learned the documents.
        """
        with self._unchanged_on_error():
            self._check_params()
            known = getattr(self, "_learned", None)
            self._check_same_depth()
            space = None if known is None else known.words
            documents, words = documents_of(self, X, space, grow=True)
            if known is None:
                known = begin(self, words, self._new_seed())
            self._learned = learn_stream(self, with_words(known, words), documents)
        return self

    # ------------------------------------------------------------------ inner

    def _check_params(self) -> None:
        super()._check_params()
        check_room_for_a_path(self)
        if self.level_prior is not None and len(self.level_prior) != self.depth:
            raise ValueError(
                f"the 'level_prior' parameter of {type(self).__name__} must have a number for each "
                f"of the {self.depth} levels. Got {len(self.level_prior)} instead."
            )

    def _check_same_depth(self) -> None:
        known = getattr(self, "_learned", None)
        if known is not None and known.state.topics.tree.depth != self.depth:
            raise ValueError(
                f"the 'depth' parameter of {type(self).__name__} was "
                f"{known.state.topics.tree.depth} when learning began and cannot change without a "
                f"new fit. Got {self.depth} instead."
            )

    def __sklearn_tags__(self) -> Tags:
        return document_tags(super().__sklearn_tags__())

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted estimator as JSON and arrays; `save` writes them."""
        self._fitted()
        self._check_params()
        self._check_same_depth()
        return pack_tree(self, self._learned)

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        return unpack_tree(cls, header, arrays)
