"""`Clusters`: clusters of any shape, on a ladder of levels with a default cut."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from everlearn.clusters.checkpoint import CLUSTERS_FIT
from everlearn.clusters.codebook import squared_distances
from everlearn.clusters.fit import ClustersFit, held_bytes, learn_rows
from everlearn.clusters.inputs import checked_rows
from everlearn.clusters.levels import Cut, Levels
from everlearn.clusters.settings import ClustersSettings
from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.engine.opening import EngineChoice
from everlearn.errors import NotConvergedWarning
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin
from everlearn.estimator.history import History
from everlearn.estimator.params import (
    ByteSize,
    Constraint,
    Interval,
    Options,
    check_params,
    parse_bytes,
)
from everlearn.estimator.saving import SaveMixin
from everlearn.mixture.estimator import DPMixture
from everlearn.store.schema import Schema

_NUMBER: Final = Interval(1, 2**20, integer=True)
_CUT_CONSTRAINTS: Final = {"n_clusters": (_NUMBER,)}


class Clusters(SaveMixin, LearnerMixin, ClusterMixin, BaseEstimator):
    """Clusters of any shape: finds their number, and shows coarser and finer levels.

    Rows are summarized by prototypes, and prototypes are linked that are near to the same rows.
    Communities of this graph, from coarse to fine, are the ladder of levels. The default level is
    the one that cuts fewest links compared with data that have no clusters. A level is a choice:
    print `levels_`, and look at others with `cut`. `fit` learns from a data set, `partial_fit`
    from a stream with bounded memory; each can follow the other.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of clusters. None finds it. Set it if you know the level that you want.
    family : {"auto", "diagonal", "full"}, default="auto"
        Distribution of the components of `mixture_`. Clusters do not depend on it.
    memory_budget : int, str or None, default=None
        Bytes that the model may hold, as a number or as text such as "2MB". A smaller budget
        keeps a smaller sample. None keeps a sample of 5000 rows.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where to compute `mixture_`. Clusters are computed in this process.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample and of the prototypes.
    verbose : int, default=0
        1 shows a progress bar while `mixture_` is learned.

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters.
    cluster_ids_ : ndarray of shape (n_clusters,)
        Permanent ids of the clusters, ascending: the order of `weights_` and `means_`. `fit`
        numbers clusters from 0 on, the largest first. When a stream is grouped anew, a cluster
        keeps the id of the old one with which it shares most rows. No id is ever used twice.
    labels_ : ndarray of shape (n_rows,)
        Id of the cluster of each row that `fit` learned, as `predict` gives it. They are not
        saved, and there are none after `partial_fit`.
    levels_ : Levels
        The ladder: clusters, share of links cut and gap of each level, which one is the default
        and why, and what was joined. Print it.
    weights_ : ndarray of shape (n_clusters,)
        Share of rows in each cluster.
    means_ : ndarray of shape (n_clusters, n_features)
        Mean row of each cluster.
    mixture_ : DPMixture
        A mixture of the sampled rows, for densities, outlier scores and components. It is learned
        when it is first used.
    n_components_, component_ids_
        The same as `n_clusters_` and `cluster_ids_`, under the names that all estimators share.
    history_ : History
        Rows, gap of the default level (as `bound`) and number of clusters each time the stream
        was grouped, with the clusters that were joined or split off.
    n_samples_seen_ : int
        Rows learned from.
    n_features_in_ : int
        Columns of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import Clusters
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 1, (100, 2)) for c in (-9, 0, 9)])
    >>> model = Clusters(random_state=0).fit(X)
    >>> model.n_clusters_
    3
    >>> sorted(set(model.cut(2).predict(X).tolist()))
    [0, 1]
    """

    checkpoint_key: ClassVar[str] = "clusters"
    _schema: ClassVar[Schema] = CLUSTERS_FIT
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "n_clusters": (Options((None,)), _NUMBER),
        "family": (Options(("auto", "diagonal", "full")),),
        "memory_budget": (Options((None,)), ByteSize()),
        **COMMON_CONSTRAINTS,
    }
    _learned: ClustersFit

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        family: str = "auto",
        memory_budget: int | str | None = None,
        engine: EngineChoice = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.family = family
        self.memory_budget = memory_budget
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a data set, and forget anything learned before.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows. Columns with different units are standardised.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            rows = checked_rows(self, X, reset=True)
            learned = learn_rows(self._settings(), None, rows, self._new_seed())
            if self.n_clusters is not None:
                self._check_number("n_clusters", self.n_clusters, learned)
            self._learned = replace(learned, labels=learned.predict(rows))
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows that need not come again.

        The sample is grouped anew when the rows have grown by a tenth.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.
        y : None
            Ignored.

        Returns
        -------
        self
            The estimator, which has learned the rows.
        """
        with self._unchanged_on_error():
            self._check_params()
            known: ClustersFit | None = getattr(self, "_learned", None)
            rows = checked_rows(self, X, reset=known is None)
            seed = self._new_seed() if known is None else known.seed
            self._learned = learn_rows(self._settings(), known, rows, seed)
        return self

    # --------------------------------------------------------------- predictions

    def predict(self, X: Any) -> Labels:
        """Permanent id of the cluster of each row.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Entries of `cluster_ids_`.
        """
        learned = self._fitted()
        return learned.predict(checked_rows(self, X, reset=False))

    def cut(self, n_clusters: int) -> Cut:
        """The clusters at another level of the ladder.

        Parameters
        ----------
        n_clusters : int
            Number of clusters, at most that of the finest level.

        Returns
        -------
        cut : Cut
            Its `predict` gives the cluster of each row at this level. It stays as it is when the
            model learns on.
        """
        learned = self._fitted()
        check_params(f"{type(self).__name__}.cut", {"n_clusters": n_clusters}, _CUT_CONSTRAINTS)
        self._check_number("n_clusters", n_clusters, learned)
        _, groups, joins = learned.grouping.cut(int(n_clusters))
        return Cut(int(n_clusters), joins, learned.grouping, groups, self._read)

    def score_samples(self, X: Any) -> Vec:
        """Minus the squared distance of each row from its nearest prototype.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        scores : ndarray of shape (n_rows,)
            In the units in which clusters are found, see `levels_`. Larger is better.
        """
        found, rows = self._fitted().grouping, checked_rows(self, X, reset=False)
        return -squared_distances(found.units.measured(rows), found.books)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Larger is better.
        """
        return float(np.mean(self.score_samples(X)))

    # ---------------------------------------------------------------- attributes

    @property
    def n_clusters_(self) -> int:
        """Number of clusters."""
        return self._fitted().grouping.n_groups

    @property
    def cluster_ids_(self) -> IntVec:
        """Permanent ids of the clusters, ascending."""
        return np.sort(self._fitted().ids)

    @property
    def n_components_(self) -> int:
        """The same as `n_clusters_`."""
        return self.n_clusters_

    @property
    def component_ids_(self) -> IntVec:
        """The same as `cluster_ids_`."""
        return self.cluster_ids_

    @property
    def labels_(self) -> Labels:
        """Id of the cluster of each row that `fit` learned."""
        labels = self._fitted().labels
        if labels is None:
            raise AttributeError(
                f"{type(self).__name__} has labels_ only after a fit of rows in this process. They "
                "are not saved, and partial_fit drops them. Use predict(X)."
            )
        return labels

    @property
    def levels_(self) -> Levels:
        """The ladder of levels, as a table."""
        return Levels.of(self._fitted().grouping)

    @property
    def weights_(self) -> Vec:
        """Share of rows in each cluster."""
        learned = self._fitted()
        return learned.shares[learned.order]

    @property
    def means_(self) -> Mat:
        """Mean row of each cluster."""
        learned = self._fitted()
        return learned.means[learned.order]

    @property
    def mixture_(self) -> DPMixture:
        """A mixture of the sampled rows, learned when it is first used."""
        learned = self._fitted()
        known: tuple[ClustersFit, DPMixture] | None = getattr(self, "_mixture", None)
        if known is not None and known[0] is learned:
            return known[1]
        mixture = DPMixture(
            family=self.family,
            engine=self.engine,
            random_state=learned.seed % 2**32,
            verbose=self.verbose,
        )
        with warnings.catch_warnings():  # a rough fit serves for densities
            warnings.simplefilter("ignore", NotConvergedWarning)
            mixture.fit(learned.sample.rows)
        self._mixture = (learned, mixture)
        return mixture

    @property
    def history_(self) -> History:
        """Rows, gap and clusters each time the stream was grouped."""
        return self._fitted().history

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned from."""
        return self._fitted().n_rows

    def memory_report(self) -> dict[str, int | None]:
        """Bytes that the model holds, and the limits that its budget sets.

        Returns
        -------
        report : dict
            "sample", "prototypes", "graph", "levels", "total" and "budget" in bytes;
            "max_sample_rows".
        """
        learned, settings = self._fitted(), self._settings()
        held = held_bytes(learned)
        return {
            **held,
            "total": sum(held.values()),
            "budget": settings.memory_budget,
            "max_sample_rows": settings.most_rows(learned.n_features),
        }

    # -------------------------------------------------------------------- inner

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def _fitted(self) -> ClustersFit:
        check_is_fitted(self)
        return self._learned

    def _read(self, X: Any) -> Mat:
        return checked_rows(self, X, reset=False)

    def _settings(self) -> ClustersSettings:
        """All parameters, for the time of one call."""
        wanted, budget = self.n_clusters, self.memory_budget
        return ClustersSettings(
            owner=type(self).__name__,
            n_clusters=None if wanted is None else int(wanted),
            memory_budget=None if budget is None else parse_bytes(budget),
        )

    def _check_number(self, name: str, wanted: int, learned: ClustersFit) -> None:
        """Refuse more clusters than the finest level has."""
        most = learned.grouping.most_groups
        if wanted > most:
            raise ValueError(
                f"the {name!r} parameter of {type(self).__name__} must be at most {most}, the "
                f"number of groups on the finest level of these rows. Got {wanted!r} instead."
            )
