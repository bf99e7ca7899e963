"""`ClumpedTopicModel`: topics of grouped points within a fixed memory budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, TransformerTags
from sklearn.utils.validation import check_is_fitted

from everlearn.clumps.budget import KeepLimits
from everlearn.clumps.checkpoint import CLUMPED_FIT
from everlearn.clumps.fit import ClumpedFit, compress, given_entries, learn, numbered
from everlearn.clumps.inputs import Grouped, checked_documents, open_documents
from everlearn.clumps.local import DocumentPosterior, FixedTopics
from everlearn.clumps.prior import family_for
from everlearn.clumps.settings import ClumpOptions, ClumpSettings
from everlearn.clumps.state import ClumpedState
from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.families.base import Family
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.gaussian_full import FullGaussian
from everlearn.core.families.multinomial import Multinomial
from everlearn.engine.opening import EngineChoice, local_engine, open_engine
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin, named_errors
from everlearn.estimator.components import ComponentAttributes, Components
from everlearn.estimator.families import check_prior
from everlearn.estimator.params import (
    ByteSize,
    Constraint,
    Instance,
    Interval,
    Options,
    check_params,
    check_unchanged,
    parse_bytes,
)
from everlearn.estimator.saving import SaveMixin

_FAMILIES: Mapping[type, str] = {
    FullGaussian: "full",
    DiagGaussian: "diagonal",
    Multinomial: "multinomial",
}
_LIMITS = frozenset({"memory_budget", "max_clumps", "max_groups", "track_documents"})
"""Changing one of these parameters compresses a fitted model at once."""
_REQUESTS = {"n": (Interval(1, integer=True),), "smoothing": (Interval(0.0),)}


class Neighbours(NamedTuple):
    """The documents most similar to another one, best first.

    `positions` are rows of the index that was searched. `scores` are lower bounds of the
    log-likelihood of the other document under their mixtures of topics.
    """

    positions: IntVec
    scores: Vec


class ClumpedTopicModel(ComponentAttributes, LearnerMixin, SaveMixin, BaseEstimator):
    """Topic model of documents made of points, within a fixed memory budget for years.

    A document is a group of points: the pixels of an image, the events of a session. A topic is a
    distribution of points, and each document has a mixture of topics. The model learns document by
    document and does not need the old ones again. After every epoch (`batch_size` documents) it
    compresses all points seen so far into clumps, points that share their topics, so that it
    stays within `memory_budget`. It finds the number of topics by itself: it splits and joins
    topics whenever that raises the lower bound of the evidence by more than `topic_price`.

    Parameters
    ----------
    family : {"full", "diagonal", "multinomial"}, default="full"
        Distribution of a topic: a Gaussian with full or diagonal covariance, or a multinomial
        over rows of counts.
    prior : "data" or mapping, default="data"
        "data" expects a topic to have a tenth of the variance of the first epoch's points. A
        mapping sets entries by hand, see docs/ask/priors.md.
    topic_price : float or "auto", default="auto"
        Nats by which a topic must raise the bound. Higher prices give fewer topics. "auto" is
        0.015 for each number in an average document of the first epoch (a row of counts is one
        number) and stays fixed from then on. See docs/ask/clumps.md.
    memory_budget : int, str or None, default="64MB"
        Bytes, or text such as "64MB", that may be kept between calls: clumps, single points,
        topics with their prior, and groups of documents. None sets no limit.
    epoch_budget : int, str or None, default=None
        Bytes, or text such as "200MB", for the work on an epoch beside the documents themselves.
        An epoch that is estimated to need more gets fewer documents; a document that needs more by
        itself is refused. None sets no limit.
    max_clumps : int, "auto" or None, default="auto"
        Clumps and single points to keep. "auto" keeps epochs fast: 4000, in proportion more for a
        budget above 64 MB, and at least twice the number of topics before compression. That often
        takes a few hundred kB, however large the budget. None uses all of the budget. With neither
        this nor a budget every point is kept.
    max_groups : int or None, default=None
        Groups of documents to keep. None means 1000 under a budget, otherwise no limit. Groups
        never take more than a quarter of the budget.
    track_documents : bool, default=False
        Whether to remember the group of each document (`document_groups_`). It takes 4 bytes of
        the budget per document ever seen. It can be turned off later, but not on.
    expected_points : float or None, default=None
        Points that you expect in the life of the model. Compression then keeps points apart that
        will belong to different topics by then. None plans for the points seen so far.
    on_budget : {"merge", "error"}, default="merge"
        What to do if clumps for all topics do not fit: "merge" joins topics, those that lose least
        first, with a `ForcedJoinWarning`; "error" raises a `MemoryBudgetError` and leaves the
        model as it was.
    batch_size : int or None, default=10
        Documents in an epoch. None makes one epoch of all documents of a call.
    options : ClumpOptions, mapping or None, default=None
        Rarely used parameters, such as `ClumpOptions(first_clumps=0)`. None means the defaults.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where to compute. None uses all cores; "dask", a `distributed.Client` or an address
        ("tcp://...") uses a cluster. All engines give the same bits.
    random_state : int, RandomState instance or None, default=None
        Changes nothing, because learning draws no random numbers. It is accepted so that every
        everlearn estimator can be created in the same way.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    n_components_ : int
        Number of topics.
    component_ids_ : ndarray of shape (n_components,)
        Permanent ids of the topics, ascending: the order of all that has an entry for each topic.
        `fit` numbers them from 0, the largest first. An id is never used again.
    weights_ : ndarray of shape (n_components,)
        Share of each topic in all points.
    means_ : ndarray of shape (n_components, n_features)
        Mean of each topic; for counts, the probability of each symbol.
    covariances_ : ndarray
        Inverse expected precision of each topic, (K, D, D) if full, (K, D) if diagonal.
    alpha_ : ndarray of shape (n_components,)
        Learned parameters of the Dirichlet prior over the topics of a document.
    bound_ : float
        Lower bound of the log evidence of all points seen, some of them as clumps.
    bound_history_ : ndarray of shape (n_epochs,)
        The bound after each epoch.
    history_ : History
        Points seen, bound and number of topics after each epoch.
    topic_price_ : float
        The price of a topic in nats.
    compression_loss_ : float
        Nats of bound lost by compression so far.
    group_ids_, group_sizes_ : ndarray of shape (n_groups,)
        The first document of each group, by order of arrival, and its number of documents.
    document_groups_ : ndarray of shape (n_documents,)
        The id of each document's group, if `track_documents`.
    n_points_seen_, n_samples_seen_ : int
        Points and documents learned from.
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
    _schema = CLUMPED_FIT
    _options: ClassVar = {"options": ClumpOptions}
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "family": (Options(tuple(_FAMILIES.values())),),
        "prior": (Options(("data",)), Instance((Mapping,), "a mapping")),
        "topic_price": (Options(("auto",)), Interval(0)),
        "memory_budget": (Options((None,)), ByteSize()),
        "epoch_budget": (Options((None,)), ByteSize()),
        "max_clumps": (Options((None, "auto")), Interval(2, integer=True)),
        "max_groups": (Options((None,)), Interval(1, integer=True)),
        "track_documents": (Instance((bool,), "True or False"),),
        "expected_points": (Options((None,)), Interval(1)),
        "on_budget": (Options(("merge", "error")),),
        "batch_size": (Options((None,)), Interval(1, integer=True)),
        **COMMON_CONSTRAINTS,
    }
    _learned: ClumpedFit

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
        expected_points: float | None = None,
        on_budget: str = "merge",
        batch_size: int | None = 10,
        options: ClumpOptions | Mapping[str, Any] | None = None,
        engine: EngineChoice = None,
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
        self.expected_points = expected_points
        self.on_budget = on_budget
        self.batch_size = batch_size
        self.options = options
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Learn from documents, forgetting anything learned before.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            A list of documents, or the points of all documents in one table. A Dask bag of
            documents is fetched part by part, a Dask array or data frame of points at once.
        y : None
            Ignored.
        groups : array-like of shape (n_points,), default=None
            The document of each point, if X is a table. None makes one document of X.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            with open_documents(self, X, groups) as parts:
                self._learned = numbered(learn(self._settings(), None, parts))
        return self

    def partial_fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Learn from more documents. Earlier ones are not needed again.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            A list of documents, or the points of all documents in one table.
        y : None
            Ignored.
        groups : array-like of shape (n_points,), default=None
            The document of each point, if X is a table. None makes one document of X. Labels
            mean nothing beyond one call: every call brings new documents.

        Returns
        -------
        self
            The estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            learned = getattr(self, "_learned", None)
            if learned is not None:
                self._check_learned(learned)
            documents = checked_documents(self, X, groups, reset=learned is None)
            self._learned = learn(self._settings(), learned, documents.parts)
        return self

    def fit_transform(self, X: Any, y: Any = None, *, groups: Any = None) -> Mat:
        """`fit`, then `transform` of the same documents."""
        return self.fit(X, groups=groups).transform(X, groups=groups)

    def set_params(self, **params: Any) -> Self:
        """Change parameters. A fitted model is compressed at once if its limits change.

        Parameters
        ----------
        **params : dict
            Names and values.

        Returns
        -------
        self
            The estimator.
        """
        with self._unchanged_on_error():
            super().set_params(**params)
            if hasattr(self, "_learned") and not _LIMITS.isdisjoint(params):
                self._check_params()
                self._learned = compress(self._settings(), self._learned)
        return self

    # ------------------------------------------------------------- attributes

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
        """Learned parameters of the Dirichlet prior over the topics of a document."""
        return self._fitted().topics.alpha.copy()

    @property
    def bound_(self) -> float:
        """Lower bound of the log evidence of all points seen, some of them as clumps."""
        with open_engine("serial"):  # one BLAS thread, so that all machines give the same bits
            return self._fitted().bound

    @property
    def topic_price_(self) -> float:
        """The price of a topic in nats."""
        return self._fitted().price

    @property
    def compression_loss_(self) -> float:
        """Nats of bound lost by compression so far."""
        return self._fitted().compression_loss

    @property
    def group_ids_(self) -> IntVec:
        """The first document of each group, by order of arrival."""
        return self._fitted().group_ids.copy()

    @property
    def group_sizes_(self) -> IntVec:
        """Number of documents in each group."""
        return self._fitted().sizes.astype(np.int64)

    @property
    def document_groups_(self) -> IntVec:
        """The id of each document's group, one of `group_ids_`, if `track_documents`."""
        state = self._fitted()
        groups = state.document_groups
        if groups is None:
            raise AttributeError(
                f"{type(self).__name__} remembers the group of each document only with "
                "track_documents=True, set before the first document"
            )
        return state.group_ids[groups]

    @property
    def n_points_seen_(self) -> int:
        """Points learned from."""
        return self._fitted().n_points

    @property
    def n_samples_seen_(self) -> int:
        """Documents learned from."""
        return self._fitted().n_documents

    def memory_report(self) -> dict[str, int | None]:
        """Memory kept between calls, in bytes, and the number of objects in it.

        Returns
        -------
        report : dict
            In bytes: "clumps", "single points", "topics", "groups", "documents" (the group of
            each, if tracked), "prior", "total" and "budget". Counts: "n_clumps",
            "n_single_points", "n_groups", and "n_groups_of_clumps", the number of groups in which
            a clump has points, summed over clumps.
        """
        state = self._fitted()
        budget = self.memory_budget
        return {
            **state.memory(),
            "total": state.nbytes,
            "budget": None if budget is None else parse_bytes(budget),
            "n_clumps": len(state.past.clumps),
            "n_single_points": len(state.past.singles),
            "n_groups": len(state.sizes),
            "n_groups_of_clumps": len(state.past.clumps.groups),
        }

    # ------------------------------------------------------------- predictions

    def transform(self, X: Any, *, groups: Any = None) -> Mat:
        """Expected mixture of topics of each document.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        groups : array-like of shape (n_points,), default=None
            The document of each point, if X is a table.

        Returns
        -------
        mixtures : ndarray of shape (n_documents, n_components)
            Columns are in the order of `component_ids_`. Rows sum to 1.
        """
        zeta = self.document_index(X, groups=groups)
        return np.asarray(zeta / zeta.sum(axis=1, keepdims=True))

    def assign(self, X: Any, *, groups: Any = None) -> IntVec | list[IntVec]:
        """The id of the most likely topic of each point, given its document.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        groups : array-like of shape (n_points,), default=None
            The document of each point, if X is a table.

        Returns
        -------
        labels : ndarray of shape (n_points,), or a list of them if X is a list
            Entries of `component_ids_`.
        """
        documents, found = self._infer(X, groups)
        ids = self._fitted().topics.ids
        return documents.like_input([ids[document.labels] for document in found])

    def score(self, X: Any, y: Any = None, *, groups: Any = None) -> float:
        """Lower bound of the mean log-likelihood per point.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        y : None
            Ignored.
        groups : array-like of shape (n_points,), default=None
            The document of each point, if X is a table.

        Returns
        -------
        score : float
            Nats per point, higher is better.
        """
        documents, found = self._infer(X, groups)
        n_points = sum(len(part) for part in documents.parts)
        return sum(document.bound for document in found) / n_points

    def document_index(self, X: Any, *, groups: Any = None) -> Mat:
        """An index of documents for `retrieve`: the Dirichlet posterior of each mixture.

        Parameters
        ----------
        X : list of array-like of shape (n_i, n_features), or array-like (n_points, n_features)
            Documents, as in `fit`.
        groups : array-like of shape (n_points,), default=None
            The document of each point, if X is a table.

        Returns
        -------
        index : ndarray of shape (n_documents, n_components)
            Valid until the model learns again, which changes the topics.
        """
        _, found = self._infer(X, groups)
        return np.array([document.zeta for document in found])

    def retrieve(
        self, X: Any, n: int = 10, index: Any = None, smoothing: float = 0.5
    ) -> Neighbours:
        """The documents most similar to one document.

        A document is similar if its mixture of topics makes the points of X likely.

        Parameters
        ----------
        X : array-like of shape (n_points, n_features)
            The document to find similar ones for.
        n : int, default=10
            Neighbours to return, at most.
        index : ndarray of shape (n_documents, n_components), default=None
            Documents to search, from `document_index`. None searches the groups of documents
            learned from; `group_ids_[positions]` are their first documents.
        smoothing : float, default=0.5
            Points added to each document of the index, as a share of an average document. They
            are spread over topics like all points. 0 gives the score of Gomes, Welling and
            Perona (2008), which hardly ever finds a document that lacks a topic of X.

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
            zetas = self._checked_index(index)
        zetas = zetas + smoothing * state.n_points / state.n_documents * state.topics.shares
        with open_engine(local_engine(self.engine)):
            topics = FixedTopics.of(state.model, state.topics)
            scores = topics.similarity(document.parts[0], zetas)
        best = np.argsort(-scores, kind="stable")[:n]
        return Neighbours(best, scores[best])

    def _infer(self, X: Any, groups: Any) -> tuple[Grouped, list[DocumentPosterior]]:
        """Checked documents, and what the topics say about each."""
        state = self._fitted()
        documents = checked_documents(self, X, groups, reset=False)
        with open_engine(local_engine(self.engine)) as engine:
            topics = FixedTopics.of(state.model, state.topics)
            return documents, topics.infer_all(documents.parts, engine)

    def _checked_index(self, index: Any) -> Mat:
        """An index of `retrieve`: Dirichlet parameters of documents over the topics."""
        with named_errors(self, "index"):
            zetas = np.asarray(index, np.float64)
        k = self.n_components_
        if zetas.ndim != 2 or zetas.shape[1] != k or not (np.isfinite(zetas) & (zetas > 0)).all():
            raise ValueError(
                f"'index' of {type(self).__name__}.retrieve must be positive numbers, {k} for "
                f"each document, as document_index returns them; got shape {zetas.shape}"
            )
        return zetas

    # ------------------------------------------------------------------ inner

    def _settings(self) -> ClumpSettings:
        """The parameters, which must have been checked."""
        name = type(self).__name__
        return ClumpSettings(
            owner=name,
            family=self.family,
            prior=self.prior,
            topic_price=self.topic_price,
            limits=KeepLimits.of(self.memory_budget, self.max_clumps, self.max_groups),
            epoch_budget=None if self.epoch_budget is None else parse_bytes(self.epoch_budget),
            track_documents=self.track_documents,
            expected_points=self.expected_points,
            on_budget=self.on_budget,
            batch_size=self.batch_size,
            options=ClumpOptions.of(self.options, name),
            engine=self.engine,
            verbose=self.verbose,
        )

    def _check_params(self) -> None:
        super()._check_params()
        with named_errors(self, "prior"):
            check_prior(self.family, self.prior)

    def _check_learned(self, learned: ClumpedFit) -> None:
        """Refuse a family, price or prior other than the one that learning began with.

        The value found for "auto" or "data" may be passed explicitly: that changes nothing.
        """
        state, name = learned.state, type(self).__name__
        check_unchanged(name, "family", self.family, _FAMILIES[type(state.model.family)])
        found = learned.price_rule == "auto" and self.topic_price == "auto"
        if not found:
            check_unchanged(name, "topic_price", self.topic_price, state.price)
        if self.track_documents and state.document_groups is None:
            check_unchanged(name, "track_documents", True, False)
        self._check_prior(learned)

    def _check_prior(self, learned: ClumpedFit) -> None:
        given, owner = given_entries(self._settings()), type(self).__name__
        if learned.given_prior and given != learned.given_prior:
            now = f"a prior with {list(given)}" if given else "data"
            check_unchanged(owner, "prior", now, f"a prior with {list(learned.given_prior)}")
        if not given:
            return
        with named_errors(self, "prior"):
            ones = np.ones((1, learned.n_features))
            own: Any = family_for(self.family, self.prior, ones)
        known: Any = learned.state.model.family
        for name in given:
            value, old = getattr(own.prior, name), getattr(known.prior, name)
            if not np.array_equal(value, old):
                check_unchanged(owner, "prior", f"{name}: {value}", f"{name}: {old}")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.family == "multinomial"
        tags.transformer_tags = TransformerTags()
        return tags
