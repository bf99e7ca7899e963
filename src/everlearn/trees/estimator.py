"""`TopicTree`: a hierarchical topic model."""

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
from everlearn.core.priors.nested import NestedPrior
from everlearn.engine.opening import EngineChoice, local_engine, open_engine
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin
from everlearn.estimator.collections import fetch_collections
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.params import (
    Constraint,
    Instance,
    Interval,
    Options,
    check_params,
    check_unchanged,
)
from everlearn.estimator.saving import SaveMixin
from everlearn.estimator.tree_view import FittedTree, TreeNode, check_room_for_a_path
from everlearn.text.inputs import (
    DOCUMENT_CONSTRAINTS,
    TextOptions,
    document_tags,
    documents_of,
    word_names,
)
from everlearn.text.ranking import RANKING_CONSTRAINTS, TopicWords
from everlearn.text.vocabulary import Vocabulary
from everlearn.trees.checkpoint import TREE_FIT
from everlearn.trees.fit import TreeFit, learn_corpus, learn_stream, shuffled_order
from everlearn.trees.kernels.paths import PathTable, Posteriors
from everlearn.trees.local import PathStep, held_out_likelihood, mean_table, predicted_paths
from everlearn.trees.model import TreeRules
from everlearn.trees.settings import LEVEL_RANGE, TreeOptions, TreeSettings
from everlearn.trees.stream import TreeState

_PREDICTION_STEP = PathStep(most=16, steps=30)
_SHOWN_WORDS = 8
_METHODS = {"method": (Options(("completion", "paper")),)}
_LEVEL = Interval(*LEVEL_RANGE)
_TRUTH = Instance((bool, np.bool_), "a truth value")


@dataclass(frozen=True, slots=True)
class LevelPrior:
    """A constraint: a sequence of two or more Dirichlet parameters."""

    def allows(self, value: Any) -> bool:
        """Whether the value is such a sequence."""
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)) or len(value) < 2:
            return False
        return all(_LEVEL.allows(v) for v in value)

    def __str__(self) -> str:
        return f"a sequence, for each level {_LEVEL}"


class TopicTree(LearnerMixin, TransformerMixin, SaveMixin, BaseEstimator):
    """Hierarchical topic model: each document follows one path of a tree of topics.

    The root holds the words that all documents share, the nodes below it those of narrower and
    narrower subjects. You do not choose the number of branches: the model infers it (nested Chinese
    restaurant process).

    `fit` samples a tree and refines it by variational inference. `partial_fit` learns from a
    stream: each document is seen once, and branches are added and merged on the way. Derivations:
    docs/math/topic_tree.md.

    Parameters
    ----------
    depth : int, default=3
        Levels of the tree, including the root.
    concentration : float, default=1.0
        Larger values give more branches.
    topic_word_prior : float, default=0.5
        Dirichlet parameter of each word in a topic. Smaller values give more and sharper topics.
        No other parameter changes the size of the tree as much.
    level_prior : "learn" or sequence of depth floats, default="learn"
        Dirichlet parameters of a document's levels, from the root down. "learn" fits them to the
        documents, which predicts best, and may switch levels off, see `level_prior_`. A sequence
        such as (50, 20, 10) keeps them fixed, and all levels in use.
    max_nodes : int, default=1000
        Most nodes of the tree.
    learning : {"batch", "memoized", "stream"}, default="batch"
        How `fit` learns. "batch" refines the tree with all documents at once. "memoized" refines it
        batch by batch, and remembers the statistics of each batch. "stream" sees each document
        once, as `partial_fit` does.
    n_sweeps : int, default=40
        Sweeps of the sampler in `fit`; not used by "stream". 0 draws each document only once.
    batch_size : int, default=50
        Documents that are learned together with "memoized", "stream" and `partial_fit`.
    reservoir : int, default=300
        Past documents that a stream keeps and can still move to other branches.
    shuffle : bool, default=True
        Whether `fit` with `learning="stream"` visits documents in random order.
    vocabulary : sequence or mapping of words, default=None
        The words, in the order of the columns. None learns them from tokens and texts.
    stop_words : "auto", name of a language, collection of words or None, default=None
        Words of texts to leave out; "english" has a list. "auto" finds them in the first 100 texts
        or more, in any language: frequent words that occur in all texts at much the same rate. What
        it found, `stop_words_`, stays.
    text : TextOptions, mapping of its fields or None, default=None
        How texts become words (`token_pattern`), and how many words at most (`max_features`).
    options : TreeOptions, mapping of its fields or None, default=None
        Rarely used parameters.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where documents are processed. None uses all cores; "dask", a `distributed.Client` or an
        address ("tcp://...") a cluster. All give the same results. The sampler runs in one thread.
    random_state : int, RandomState instance or None, default=None
        Seed of all random draws. Pass an int for reproducible results.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    tree_ : FittedTree
        Nodes with permanent ids, parents, masses and top words; ``print(model.tree_)`` shows it.
    n_nodes_, n_components_ : int
        Nodes of the tree.
    component_ids_ : ndarray of shape (n_nodes,)
        Permanent ids, rising. `fit` numbers from 0, parents first; later nodes get new numbers.
    components_ : ndarray of shape (n_nodes, n_words)
        Dirichlet parameters of the topics.
    level_prior_ : ndarray of shape (depth,)
        Dirichlet parameters of levels in use. A level near 0.01 is all but switched off.
    bound_history_ : ndarray
        The bound after each variational pass of the last `fit`.
    vocabulary_ : ndarray of shape (n_words,)
        The word of each column.
    n_samples_seen_, n_tokens_seen_ : int
        Documents and tokens learned from.

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
    _schema = TREE_FIT
    _options: ClassVar[Mapping[str, type[ExpertOptions]]] = {
        "text": TextOptions,
        "options": TreeOptions,
    }
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "depth": (Interval(2, 32, integer=True),),
        "concentration": (Interval(1e-6, 1e6),),
        "topic_word_prior": (Interval(1e-3, 1e6),),
        "level_prior": (Options(("learn",)), LevelPrior()),
        "max_nodes": (Interval(2, 2**20, integer=True),),
        "learning": (Options(("batch", "memoized", "stream")),),
        "n_sweeps": (Interval(0, 2**15, integer=True),),
        "batch_size": (Interval(1, integer=True),),
        "reservoir": (Interval(0, integer=True),),
        "shuffle": (_TRUTH,),
        **DOCUMENT_CONSTRAINTS,
        **COMMON_CONSTRAINTS,
    }
    _learned: TreeFit

    def __init__(
        self,
        *,
        depth: int = 3,
        concentration: float = 1.0,
        topic_word_prior: float = 0.5,
        level_prior: Any = "learn",
        max_nodes: int = 1000,
        learning: str = "batch",
        n_sweeps: int = 40,
        batch_size: int = 50,
        reservoir: int = 300,
        shuffle: bool = True,
        vocabulary: Any = None,
        stop_words: Any = None,
        text: TextOptions | Mapping[str, Any] | None = None,
        options: TreeOptions | Mapping[str, Any] | None = None,
        engine: EngineChoice = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.depth = depth
        self.concentration = concentration
        self.topic_word_prior = topic_word_prior
        self.level_prior = level_prior
        self.max_nodes = max_nodes
        self.learning = learning
        self.n_sweeps = n_sweeps
        self.batch_size = batch_size
        self.reservoir = reservoir
        self.shuffle = shuffle
        self.vocabulary = vocabulary
        self.stop_words = stop_words
        self.text = text
        self.options = options
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a corpus. Whatever the model learned before is forgotten.

        Parameters
        ----------
        X : documents
            Counts of shape (n_documents, n_words), dense or sparse; or a list of arrays of word
            numbers, of lists of words, or of texts. Dask collections are loaded into this process.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            (X,) = fetch_collections(self, X=X)
            documents, words = documents_of(self, X, None, grow=True)
            settings, seed = self._settings(), self._new_seed()
            empty = TreeFit.empty(words, settings, seed)
            if settings.learning == "stream":
                order = shuffled_order(len(documents), seed) if settings.shuffle else None
                self._learned = learn_stream(empty, documents, settings, order).numbered()
            else:
                self._learned = learn_corpus(empty, documents, settings).numbered()
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from more documents, in the order in which they come, each seen once.

        Parameters
        ----------
        X : documents
            As in `fit`. Tokens and texts may bring new words.
        y : None
            Ignored.

        Returns
        -------
        self
            The estimator, which has learned the documents.
        """
        with self._unchanged_on_error():
            self._check_params()
            known: TreeFit | None = getattr(self, "_learned", None)
            if known is not None:
                self._check_learned(known)
            space = None if known is None else known.words
            documents, words = documents_of(self, X, space, grow=True)
            settings = self._settings()
            if known is None:
                known = TreeFit.empty(words, settings, self._new_seed())
            self._learned = learn_stream(known.with_words(words), documents, settings)
        return self

    # ------------------------------------------------------------------ attributes

    @property
    def tree_(self) -> FittedTree:
        """The nodes with their permanent ids, masses and top words. Print it to see the tree."""
        topics = self._fitted().topics
        tree, mass = topics.tree, topics.mass
        words = dict(zip(self.component_ids_, self.top_words(_SHOWN_WORDS), strict=True))
        return FittedTree(
            tuple(
                TreeNode(
                    int(tree.ids[i]),
                    None if i == 0 else int(tree.ids[tree.parents[i]]),
                    int(tree.levels[i]),
                    float(mass[i]),
                    tuple(str(word) for word in words[tree.ids[i]]),
                )
                for i in range(len(tree))
            )
        )

    def to_networkx(self) -> Any:
        """The tree as a `networkx.DiGraph`. Nodes carry `level`, `mass` and `words`."""
        return self.tree_.to_networkx()

    @property
    def n_nodes_(self) -> int:
        """Nodes of the tree."""
        return len(self._fitted().topics.tree)

    @property
    def n_components_(self) -> int:
        """Nodes of the tree. The same as `n_nodes_`."""
        return self.n_nodes_

    @property
    def component_ids_(self) -> IntVec:
        """Permanent ids of the nodes, rising. The id of a removed node is not used again."""
        return np.sort(self._fitted().topics.tree.ids)

    @property
    def components_(self) -> Mat:
        """Dirichlet parameters of the nodes' topics over words, (n_nodes, n_words)."""
        state = self._fitted()
        return np.asarray(state.topics.counts.T[self._order()] + state.word_prior)

    @property
    def level_prior_(self) -> Vec:
        """Dirichlet parameters of a document's levels. Near 0.01, a level is all but unused."""
        return self._fitted().topics.alpha.copy()

    @property
    def bound_history_(self) -> Vec:
        """Lower bound of the log-evidence after each variational pass of the last `fit`."""
        self._fitted()
        return np.array(self._learned.bounds)

    @property
    def vocabulary_(self) -> NDArray[Any]:
        """The word of each column, or its number if words have no names."""
        self._fitted()
        return word_names(self, self._learned.words)

    @property
    def stop_words_(self) -> list[str]:
        """Words that ``stop_words="auto"`` leaves out, the most frequent first; none before."""
        self._fitted()
        found = self._learned.words.stop_words
        return [] if found is None else found.words

    @property
    def n_samples_seen_(self) -> int:
        """Documents learned from."""
        return self._fitted().n_documents

    @property
    def n_tokens_seen_(self) -> int:
        """Tokens learned from."""
        return self._fitted().n_tokens

    def top_words(self, n: int = 10, by: str = "distinctiveness") -> list[list[Any]]:
        """The words that describe each node best.

        Parameters
        ----------
        n : int, default=10
            Most words per node.
        by : {"distinctiveness", "probability"}, default="distinctiveness"
            "distinctiveness" puts words first that a node has often, and more often than all other
            nodes. "probability" puts the likeliest words first.

        Returns
        -------
        words : list of lists
            One list per node, in the order of `component_ids_`. Only words that occur at the node,
            and by distinctiveness only those that it has more often than the others.
        """
        check_params(f"{type(self).__name__}.top_words", {"n": n, "by": by}, RANKING_CONSTRAINTS)
        state, names = self._fitted(), self.vocabulary_
        counts = state.topics.counts
        nodes = TopicWords(counts, counts.sum(axis=0), len(counts), state.word_prior)
        found = nodes.top(n, by, own=True)
        return [names[found[i]].tolist() for i in self._order()]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`, such as "path3" for node 3 and "level0".

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            One name per column.
        """
        depth = self._fitted().topics.tree.depth
        names = [f"path{i}" for i in self.component_ids_] + [f"level{i}" for i in range(depth)]
        return np.array(names, dtype=object)

    # ---------------------------------------------------------------- predictions

    def transform(self, X: Any) -> Mat:
        """Probabilities of paths, and shares of levels, for each document.

        Parameters
        ----------
        X : documents
            As in `fit`. Unknown words are ignored.

        Returns
        -------
        posterior : ndarray of shape (n_documents, n_nodes + depth)
            First, for each node of `component_ids_`, the probability that the document's path ends
            there. A path that ends above the last level goes on to nodes that the tree does not
            have yet. Then the expected share of the document's words at each level. Both parts of a
            row sum to 1.
        """
        tree = self._fitted().topics.tree
        q = self._posteriors(X)
        # Unused candidates have the slot -1: they fall into one more column, which is dropped.
        paths = np.zeros((len(q.slots), len(tree) + 1))
        np.add.at(paths, (np.arange(len(paths))[:, None], q.slots), q.shares)
        paths = paths[:, self._order()]
        paths /= paths.sum(axis=1, keepdims=True)
        total = np.maximum(q.g.sum(axis=2, keepdims=True), 1e-300)
        levels = np.einsum("nm,nml->nl", q.shares, q.g / total)
        return np.hstack([paths, levels / levels.sum(axis=1, keepdims=True)])

    def predict(self, X: Any) -> IntVec:
        """The most probable path of each document.

        Parameters
        ----------
        X : documents
            As in `fit`.

        Returns
        -------
        ids : ndarray of shape (n_documents,)
            The id of the last node of the path. ``tree_.path(id)`` gives the whole path.
        """
        tree = self._fitted().topics.tree
        q = self._posteriors(X)
        best = q.shares.argmax(axis=1)
        return np.asarray(tree.ids[q.slots[np.arange(len(best)), best]])

    def score_samples(self, X: Any, method: str = "completion") -> Vec:
        """Mean log-likelihood of the words of each document, see `score`.

        Parameters
        ----------
        X : documents
            As in `fit`.
        method : {"completion", "paper"}, default="completion"
            See `score`.

        Returns
        -------
        log_likelihood : ndarray of shape (n_documents,)
            Nats per word; 0 if the document has no words to score.
        """
        log_likelihood, n_tokens = self._likelihood(X, method)
        return np.asarray(log_likelihood / np.maximum(n_tokens, 1))

    def score(self, X: Any, y: Any = None, method: str = "completion") -> float:
        """Mean log-likelihood per word of new documents.

        Parameters
        ----------
        X : documents
            As in `fit`.
        y : None
            Ignored.
        method : {"completion", "paper"}, default="completion"
            "completion" infers path and levels from one half of a document's words and scores the
            other half. "paper" scores the same words that it infers from, as published, which is
            too optimistic.

        Returns
        -------
        score : float
            Nats per word; larger is better.
        """
        log_likelihood, n_tokens = self._likelihood(X, method)
        return float(log_likelihood.sum() / max(1, n_tokens.sum()))

    # ------------------------------------------------------------------ inner

    def _check_params(self) -> None:
        super()._check_params()
        check_room_for_a_path(self)
        given = self.level_prior
        if not isinstance(given, str) and len(given) != self.depth:
            raise ValueError(
                f"the 'level_prior' parameter of {type(self).__name__} must have a number for each "
                f"of the {self.depth} levels. Got {len(given)} instead."
            )

    def _check_learned(self, learned: TreeFit) -> None:
        """Refuse a depth other than the one that learning began with."""
        began = learned.state.topics.tree.depth
        check_unchanged(type(self).__name__, "depth", self.depth, began)

    def _settings(self) -> TreeSettings:
        """The checked parameters, as learning takes them."""
        depth, learned_levels = int(self.depth), isinstance(self.level_prior, str)
        levels = _first_levels(depth) if learned_levels else np.asarray(self.level_prior, float)
        options = TreeOptions.of(self.options, type(self).__name__)
        return TreeSettings(
            rules=TreeRules(
                depth,
                NestedPrior(float(self.concentration)),
                float(self.topic_word_prior),
                int(self.max_nodes),
                learned_levels,
            ),
            first_levels=levels,
            step=PathStep(int(options.n_candidates)),
            learning=self.learning,
            n_sweeps=int(self.n_sweeps),
            n_passes=int(options.n_passes),
            min_mass=float(options.min_mass),
            merge=bool(options.merge),
            batch_size=int(self.batch_size),
            reservoir=int(self.reservoir),
            stream_sweeps=int(options.stream_sweeps),
            shuffle=bool(self.shuffle),
            engine=self.engine,
            verbose=int(self.verbose),
        )

    def _fitted(self) -> TreeState:
        check_is_fitted(self)
        return self._learned.state

    def _order(self) -> IntVec:
        """Positions of the nodes, in ascending order of their ids. The tree is sorted by mass."""
        return np.argsort(self._fitted().topics.tree.ids)

    def _likelihood(self, X: Any, method: str) -> tuple[Vec, IntVec]:
        """Log-likelihood of the words of each document that count, and their number."""
        check_params(f"{type(self).__name__}.score", {"method": method}, _METHODS)
        seen = scored = self._read(X)
        if method == "completion":
            seen, scored = split_documents(seen, 0)
        with open_engine(local_engine(self.engine)) as engine:
            sums = held_out_likelihood(self._path_table(), seen, scored, engine, _PREDICTION_STEP)
        return np.where(scored.lengths > 0, sums, 0.0), scored.lengths

    def _posteriors(self, X: Any) -> Posteriors:
        documents = self._read(X)
        with open_engine(local_engine(self.engine)) as engine:
            return predicted_paths(self._path_table(), documents, engine, _PREDICTION_STEP)

    def _path_table(self) -> PathTable:
        state = self._fitted()
        self._check_params()
        return mean_table(state.topics, state.word_prior, NestedPrior(float(self.concentration)))

    def _read(self, X: Any) -> Documents:
        self._fitted()
        return documents_of(self, X, self._learned.words, grow=False)[0]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def __sklearn_tags__(self) -> Tags:
        return document_tags(super().__sklearn_tags__())

    def _saved_params(self) -> dict[str, Any]:
        params = super()._saved_params()
        if self.vocabulary is not None:
            params["vocabulary"] = Vocabulary.fixed(self.vocabulary).words
        if not isinstance(self.level_prior, str):
            params["level_prior"] = [float(value) for value in self.level_prior]
        return params


def _first_levels(depth: int) -> Vec:
    """The level prior that learning begins with: 50, 20, and half of the level above from there."""
    levels = [50.0, 20.0]
    while len(levels) < depth:
        levels.append(levels[-1] / 2.0)
    return np.array(levels)
