"""What a lifelong topic model shows: topics, documents, bounds, and the memory it takes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, TransformerTags
from sklearn.utils.validation import check_is_fitted

from everlearn.clumps.checkpoint import STATE_KEYS, pack_state, unpack_state
from everlearn.clumps.fit import (
    RELATIVE_PRICE,
    Asked,
    Learned,
    check_same_model,
    compress,
    learn,
    limits_of,
)
from everlearn.clumps.inputs import Grouped, checked_documents, open_documents
from everlearn.clumps.local import Reader, Reading
from everlearn.clumps.state import ClumpedState
from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.core.families.base import Family
from everlearn.engine.opening import nearby, open_engine
from everlearn.errors import CheckpointError
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin, named_errors
from everlearn.estimator.components import ComponentAttributes, Components
from everlearn.estimator.families import check_prior
from everlearn.estimator.history import History
from everlearn.estimator.params import (
    ByteSize,
    Constraint,
    Instance,
    Interval,
    Options,
    check_params,
)
from everlearn.estimator.saving import SaveMixin, checked_names, feature_names, plain_params
from everlearn.store.schema import Arrays, section


class ClumpedAttributes(ComponentAttributes):
    """Fitted attributes, computed from the state when asked for."""

    _learned: Learned
    topic_price: float | str

    def _fitted(self) -> ClumpedState:
        check_is_fitted(self)
        return self._learned.state

    def _components(self) -> tuple[Family[Any], Components]:
        state = self._fitted()
        return state.model.family, state.topics

    @property
    def weights_(self) -> Vec:
        """Share of each topic in all points seen."""
        return self._fitted().topics.shares

    @property
    def alpha_(self) -> Vec:
        """Learned parameters of the Dirichlet over the topics of a document."""
        return self._fitted().topics.alpha.copy()

    @property
    def bound_(self) -> float:
        """Lower bound of the log evidence of all points seen, as they are kept."""
        with open_engine("serial"):  # the same sum however many threads linear algebra has
            return self._fitted().bound

    @property
    def topic_price_(self) -> float:
        """Nats of bound that a topic must earn."""
        price = self._fitted().price
        return RELATIVE_PRICE * abs(self.bound_) if self.topic_price == "relative" else price

    @property
    def compression_loss_(self) -> float:
        """Nats of bound that compression has cost so far."""
        return self._fitted().compression_loss

    @property
    def group_ids_(self) -> IntVec:
        """Number, in the order of arrival, of the first document of each group."""
        return self._fitted().group_ids.copy()

    @property
    def group_sizes_(self) -> IntVec:
        """Documents in each group."""
        return self._fitted().sizes.astype(np.int64)

    @property
    def document_groups_(self) -> Labels:
        """Position of the group that each document is in, in the order of arrival."""
        groups = self._fitted().document_groups
        if groups is None:
            raise AttributeError(
                f"{type(self).__name__} knows the group of each document only with "
                "track_documents=True, from the first document on"
            )
        return groups.copy()

    @property
    def n_points_seen_(self) -> int:
        """Points learned from."""
        return self._fitted().n_points

    @property
    def n_samples_seen_(self) -> int:
        """Documents learned from."""
        return self._fitted().n_documents

    def memory_report(self: Any) -> dict[str, int | None]:
        """Bytes that are kept between calls, by what they are for, and what they are kept of.

        Returns
        -------
        report : dict
            "clumps", "single points", "topics", "groups", "documents" (which group each is in, if
            tracked), "prior", "total" and "budget" in bytes; "n_clumps", "n_single_points" and
            "n_groups"; "n_groups_of_clumps", the groups that clumps have points in, summed over
            clumps.
        """
        state: ClumpedState = self._fitted()
        budget = limits_of(self).max_bytes
        return {
            **state.memory(),
            "budget": None if np.isinf(budget) else int(budget),
            "n_clumps": len(state.past.clumps),
            "n_single_points": len(state.past.singles),
            "n_groups": len(state.sizes),
            "n_groups_of_clumps": len(state.past.clumps.groups),
        }


_REQUESTS = {"n": (Interval(1, integer=True),), "smoothing": (Interval(0.0),)}


class Neighbours(NamedTuple):
    """Documents that resemble another one, most alike first.

    `positions` are rows of the index that was searched, `scores` the lower bounds of the
    log-likelihood of the other document under their mixtures of topics.
    """

    positions: IntVec
    scores: Vec


class ClumpedPredictions(ClumpedAttributes):
    """Documents in the light of the topics, none of which they change."""

    engine: Any

    def transform(self, X: Any, *, groups: Any = None) -> Mat:
        """Expected mixture of topics of each document.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        groups : array-like of shape (n_points,), default=None
            Which points make a document, if X is no list.

        Returns
        -------
        mixtures : ndarray of shape (n_documents, n_components)
            Rows sum to 1.
        """
        zeta = self.document_index(X, groups=groups)
        return np.asarray(zeta / zeta.sum(axis=1, keepdims=True))

    def assign(self, X: Any, *, groups: Any = None) -> Labels | list[Labels]:
        """The likeliest topic of each point, in the light of its document.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        groups : array-like of shape (n_points,), default=None
            Which points make a document, if X is no list.

        Returns
        -------
        labels : ndarray of shape (n_points,), or a list of them if X is a list
            Positions of topics; `component_ids_[labels]` are permanent.
        """
        documents, readings = self._read(X, groups)
        return documents.like_input([reading.labels for reading in readings])

    def score(self, X: Any, y: Any = None, *, groups: Any = None) -> float:
        """Mean log-likelihood per point, as far as a lower bound tells it.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        y : None
            Ignored.
        groups : array-like of shape (n_points,), default=None
            Which points make a document, if X is no list.

        Returns
        -------
        score : float
            Nats per point, higher is better.
        """
        documents, readings = self._read(X, groups)
        n_points = sum(len(part) for part in documents.parts)
        return sum(reading.bound for reading in readings) / n_points

    def document_index(self, X: Any, *, groups: Any = None) -> Mat:
        """What `retrieve` needs to know of documents: Dirichlet posteriors of their mixtures.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        groups : array-like of shape (n_points,), default=None
            Which points make a document, if X is no list.

        Returns
        -------
        index : ndarray of shape (n_documents, n_components)
            Valid as long as the topics stay as they are.
        """
        _, readings = self._read(X, groups)
        return np.array([reading.zeta for reading in readings])

    def retrieve(
        self, X: Any, n: int = 10, index: Any = None, smoothing: float = 0.5
    ) -> Neighbours:
        """The documents whose mixtures of topics make one document likeliest.

        A document that has no point of a topic would hardly ever be found for one that has, so
        each is taken to have some points more, spread over the topics as all points seen are.

        Parameters
        ----------
        X : array-like of shape (n_points, n_features)
            The document to look for.
        n : int, default=10
            Neighbours wanted, at most.
        index : ndarray of shape (n_documents, n_components), default=None
            Documents to search, from `document_index`; None searches the groups learned from, and
            `group_ids_[positions]` says which documents these are.
        smoothing : float, default=0.5
            Points that each document is taken to have more, as a share of those that documents
            have on average. 0 is the score of Gomes, Welling and Perona (2008).

        Returns
        -------
        neighbours : Neighbours
            `positions` and `scores`, best first.
        """
        state = self._fitted()
        requests = {"n": n, "smoothing": smoothing}
        check_params(f"{type(self).__name__}.retrieve", requests, _REQUESTS)
        document = checked_documents(self, X, None, reset=False)
        if len(document.parts) != 1:
            raise ValueError(
                f"'X' of {type(self).__name__}.retrieve must be one document, "
                f"got {len(document.parts)}"
            )
        if index is None:
            zetas = state.topics.alpha + state.topics.counts / state.sizes[:, None]
        else:
            zetas = _checked_index(self, index)
        zetas = zetas + smoothing * state.n_points / state.n_documents * state.topics.shares
        with open_engine(nearby(self.engine)):
            scores = Reader.of(state.model, state.topics).resemblance(document.parts[0], zetas)
        best = np.argsort(-scores, kind="stable")[:n]
        return Neighbours(best, scores[best])

    def _read(self, X: Any, groups: Any) -> tuple[Grouped, list[Reading]]:
        state = self._fitted()
        documents = checked_documents(self, X, groups, reset=False)
        with open_engine(nearby(self.engine)) as engine:
            reader = Reader.of(state.model, state.topics)
            return documents, reader.read_all(documents.parts, engine)


def _checked_index(estimator: ClumpedPredictions, index: Any) -> Mat:
    """Dirichlet parameters of documents over the topics there are."""
    with named_errors(estimator, "index"):
        zetas = np.asarray(index, np.float64)
    k = estimator.n_components_
    if zetas.ndim != 2 or zetas.shape[1] != k or not (np.isfinite(zetas) & (zetas > 0)).all():
        raise ValueError(
            f"'index' of {type(estimator).__name__}.retrieve must be positive numbers, {k} for "
            f"each document, as document_index gives them; got shape {zetas.shape}"
        )
    return zetas


FAMILIES = ("full", "diagonal", "multinomial")
_LIMITS = frozenset({"memory_budget", "max_clumps", "max_groups", "track_documents"})
_LATER: Mapping[str, Any] = {"epoch_budget": None, "track_documents": False}
"""Parameters that older files do not have, and what they were then."""


class ClumpedTopicModel(ClumpedPredictions, LearnerMixin, SaveMixin, BaseEstimator):
    """Memory-bounded topic model: documents are groups of points, topics are distributions.

    Documents arrive in epochs. After each, all points seen so far are compressed into clumps of
    points that share their topics, and documents into groups that share their mixtures, so that
    the model learns for years within a fixed number of bytes. The number of topics is found:
    topics are split and joined while that raises the bound by more than the price of a topic.

    Parameters
    ----------
    family : {"full", "diagonal", "multinomial"}, default="full"
        Distribution of a topic: a Gaussian with full or diagonal covariance, or a multinomial
        over rows of counts.
    prior : "data" or mapping, default="data"
        "data" expects a topic to have a tenth of the variance of the first epoch's points. A
        mapping sets entries by hand, see docs/ask/priors.md.
    topic_price : float, "auto" or "relative", default="auto"
        Nats of bound that a topic must earn: a split has to gain more, and topics are joined
        that lose less. Higher prices give fewer topics. "auto" is 0.015 for each number in an
        average document of the first epoch (a row of counts is one), see docs/ask/clumps.md. It
        never changes afterwards. "relative" is the published rule: a split has to gain 1e-5 of
        the bound's absolute value, and joins must not lose. It depends on the units of the points
        and asks for more the more was seen, which is why it is not the default.
    memory_budget : int, str or None, default="64MB"
        Bytes, or text such as "64MB", that may be kept between calls: clumps, single points,
        topics with their prior, and groups. None sets no limit.
    epoch_budget : int, str or None, default=None
        Bytes, or text such as "200MB", that work on an epoch may take beside the documents given.
        Epochs that would need more, as far as can be reckoned, have fewer documents; a document
        that needs more by itself is refused. None sets no limit.
    max_clumps : int, "auto" or None, default="auto"
        Clumps and single points to keep. "auto" keeps epochs fast: 4000, in proportion more for a
        budget beyond 64 MB, or twice the topics there are before compression if these are more.
        A budget that holds these, often a few hundred kB, is then not used further until it
        exceeds 64 MB. None uses all of the budget, and keeps single points where that saves
        bytes. With neither this nor a budget every point is kept.
    max_groups : int or None, default=None
        Groups of documents to keep; None means 1000 under a budget. They never take more than a
        quarter of it.
    track_documents : bool, default=False
        Whether to remember which group each document is in (`document_groups_`). That takes 4
        bytes of the budget for each document ever seen; it must be asked for before the first
        and can be given up at any time.
    group_merge : {"cosine", "free-energy"}, default="cosine"
        Which groups are merged first: those whose mixtures point the same way, or those whose
        merger costs the bound least.
    expected_points : float or None, default=None
        Points expected in the life of the model. Compression then keeps what will matter once so
        many have come; None looks no further than the points seen.
    on_budget : {"merge", "error"}, default="merge"
        What to do if clumps of all topics do not fit: join those that lose least, with a
        `ForcedJoinWarning`, or raise a `MemoryBudgetError` and stay as before.
    batch_size : int or None, default=10
        Documents of an epoch; None takes all documents of a call at once.
    first_clumps : int, default=500
        Large documents (above 5,000 points on average) are cut into so many clumps each for the
        search of topics, which makes it several times faster; 0 searches on points.
    raw_iterations : int, default=3
        Passes over the points after a search on first clumps, and after one round of splits and
        joins on the points themselves.
    max_topics : int, default=10000
        No splits beyond this many topics.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where points are worked on; all engines give the same bits. None uses all cores;
        "dask", a `distributed.Client` or an address ("tcp://...") a cluster.
    random_state : int, RandomState instance or None, default=None
        Accepted as by every estimator; learning here draws no random numbers.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    n_components_ : int
        Topics in use.
    component_ids_ : ndarray of shape (n_components,)
        Permanent ids; never used twice in the life of a model.
    weights_, means_, covariances_, alpha_ : ndarray
        Shares of topics in all points, their means and inverse expected precisions, and the
        learned Dirichlet parameters of documents.
    bound_ : float
        Lower bound of the log evidence of every point seen, as they are kept.
    bound_history_ : ndarray
        The bound after each epoch.
    history_ : History
        Points seen, bound and number of topics after each epoch.
    topic_price_ : float
        The price in nats.
    compression_loss_ : float
        Nats of bound that compression has cost so far.
    group_ids_, group_sizes_ : ndarray of shape (n_groups,)
        The first document of each group, by order of arrival, and how many it has.
    document_groups_ : ndarray of shape (n_documents_seen,)
        The position in `group_ids_` of the group of each document, with `track_documents`.
    n_points_seen_, n_samples_seen_ : int
        What was learned from.
    n_features_in_ : int
        Width of a point.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import ClumpedTopicModel
    >>> rng = np.random.default_rng(0)
    >>> centres = np.array([[-9.0, 0.0], [0.0, 9.0], [9.0, 0.0]])
    >>> def document(shares):
    ...     return rng.normal(centres[rng.choice(3, 200, p=shares)], 1.0)
    >>> model = ClumpedTopicModel(max_clumps=50)
    >>> model = model.partial_fit([document([0.5, 0.5, 0.0]) for _ in range(5)])
    >>> model = model.partial_fit([document([0.0, 0.2, 0.8]) for _ in range(5)])
    >>> model.n_components_
    3
    """

    checkpoint_key: ClassVar[str] = "clumped-topic-model"

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "family": (Options(FAMILIES),),
        "prior": (Options(("data",)), Instance((Mapping,), "a mapping")),
        "topic_price": (Options(("auto", "relative")), Interval(0)),
        "memory_budget": (Options((None,)), ByteSize()),
        "epoch_budget": (Options((None,)), ByteSize()),
        "max_clumps": (Options((None, "auto")), Interval(2, integer=True)),
        "max_groups": (Options((None,)), Interval(1, integer=True)),
        "group_merge": (Options(("cosine", "free-energy")),),
        "expected_points": (Options((None,)), Interval(1)),
        "track_documents": (Instance((bool,), "True or False"),),
        "on_budget": (Options(("merge", "error")),),
        "batch_size": (Options((None,)), Interval(1, integer=True)),
        "first_clumps": (Interval(0, integer=True),),
        "raw_iterations": (Interval(1, integer=True),),
        "max_topics": (Interval(1, integer=True),),
        **COMMON_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        family: str = "full",
        prior: str | Mapping[str, Any] = "data",
        topic_price: float | str = "auto",
        memory_budget: int | str | None = "64MB",
        epoch_budget: int | str | None = None,
        max_clumps: int | str | None = "auto",
        max_groups: int | None = None,
        track_documents: bool = False,
        group_merge: str = "cosine",
        expected_points: float | None = None,
        on_budget: str = "merge",
        batch_size: int | None = 10,
        first_clumps: int = 500,
        raw_iterations: int = 3,
        max_topics: int = 10_000,
        engine: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.family = family
        self.prior = prior
        self.topic_price = topic_price
        self.memory_budget = memory_budget
        self.epoch_budget = epoch_budget
        self.max_clumps = max_clumps
        self.max_groups = max_groups
        self.track_documents = track_documents
        self.group_merge = group_merge
        self.expected_points = expected_points
        self.on_budget = on_budget
        self.batch_size = batch_size
        self.first_clumps = first_clumps
        self.raw_iterations = raw_iterations
        self.max_topics = max_topics
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Learn from documents, forgetting anything learned before.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            A list of documents, or all points one below the other. A Dask bag of documents is
            brought here one part after the other, a Dask array or data frame of points at once.
        y : None
            Ignored.
        groups : array-like of shape (n_points,), default=None
            Which points make a document, if X is no list; None takes X for one document.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            with open_documents(self, X, groups) as parts:
                self._learned = learn(self, None, parts)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Learn from documents that need not come again.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            A list of documents, or all points one below the other.
        y : None
            Ignored.
        groups : array-like of shape (n_points,), default=None
            Which points make a document, if X is no list; None takes X for one document. Every
            call brings new documents, whatever their groups were called before.

        Returns
        -------
        self
            The estimator, which has learned the documents.
        """
        with self._unchanged_on_error():
            self._check_params()
            learned = getattr(self, "_learned", None)
            if learned is not None:
                check_same_model(self, learned.asked, learned.state)
            documents = checked_documents(self, X, groups, reset=learned is None)
            self._learned = learn(self, learned, documents.parts)
        return self

    def fit_transform(self, X: Any, y: Any = None, *, groups: Any = None) -> Mat:
        """`fit`, then `transform` of the same documents."""
        return self.fit(X, groups=groups).transform(X, groups=groups)

    def set_params(self, **params: Any) -> Self:
        """Change parameters; a fitted model compresses at once if its limits change.

        Parameters
        ----------
        **params : dict
            Names and values.

        Returns
        -------
        self
            The estimator, within the new limits.
        """
        with self._unchanged_on_error():
            super().set_params(**params)
            if hasattr(self, "_learned") and not _LIMITS.isdisjoint(params):
                self._check_params()
                self._learned = compress(self, self._learned)
        return self

    # ---------------------------------------------------------------------- inner

    def _check_params(self) -> None:
        super()._check_params()
        with named_errors(self, "prior"):
            check_prior(self.family, self.prior)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.family == "multinomial"
        tags.transformer_tags = TransformerTags()
        return tags

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted estimator as JSON and arrays; `save` writes them."""
        state = self._fitted()
        self._check_params()
        check_same_model(self, self._learned.asked, state)
        header, arrays = pack_state(state)
        return {
            "params": plain_params(self.get_params(deep=False), 0),
            "state": header,
            "history": self.history_.to_json(),
            "feature_names": feature_names(self),
        }, arrays

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        names = inspect.signature(cls).parameters
        given = header.get("params")
        params = {**_LATER, **given} if isinstance(given, Mapping) else given
        estimator = cls(**section({"params": params}, "params", names))
        state = unpack_state(section(header, "state", STATE_KEYS), arrays)
        history = History.from_json(section(header, "history", ("points", "moves", "counts")))
        width = state.model.family.n_features
        try:
            estimator._check_params()
            asked = Asked.of(estimator)
            check_same_model(estimator, asked, state)
            estimator._learned = Learned(state, history, asked, limits_of(estimator))
        except (OverflowError, TypeError, ValueError) as error:
            raise CheckpointError(f"the header's 'params': {error}") from error
        estimator.n_features_in_ = width
        columns = header.get("feature_names")
        if columns is not None:
            estimator.feature_names_in_ = checked_names(columns, width)
        return estimator
