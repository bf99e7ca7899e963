"""`TopicTree`: a hierarchy of topics that grows with the documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from everlearn.core.params import Constraint, Instance, Interval, Options
from everlearn.estimators.base import COMMON_CONSTRAINTS
from everlearn.estimators.collections import brought_here
from everlearn.estimators.documents import DOCUMENT_CONSTRAINTS, document_tags, documents_of
from everlearn.estimators.persistence import Arrays, SaveMixin
from everlearn.estimators.topic_params import TOKEN_PATTERN, TOPIC_CONSTRAINTS
from everlearn.estimators.topic_tree_checkpoint import pack_tree, unpack_tree
from everlearn.estimators.topic_tree_learning import (
    LEVEL_RANGE,
    begin,
    learn_corpus,
    learn_stream,
    random_order,
    with_words,
)
from everlearn.estimators.topic_tree_predictions import TopicTreePredictions
from everlearn.estimators.tree_view import check_room_for_a_path

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
    max_words : int, default=100000
        No more words are learned from tokens and texts.
    stop_words : "english", collection of words or None, default=None
        Words of texts to leave out.
    token_pattern : str
        What a word of a text is, as a regular expression.
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
    n_documents_seen_, n_tokens_seen_ : int
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
        "stop_words": TOPIC_CONSTRAINTS["stop_words"],
        "token_pattern": TOPIC_CONSTRAINTS["token_pattern"],
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
        max_words: int = 100_000,
        stop_words: Any = None,
        token_pattern: str = TOKEN_PATTERN,
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
        self.max_words = max_words
        self.stop_words = stop_words
        self.token_pattern = token_pattern
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
