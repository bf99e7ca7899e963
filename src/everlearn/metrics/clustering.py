"""How well clusters agree with known classes.

For all scores, higher is better and 1 is perfect. Purity and homogeneity rise with the number of
clusters, so read them beside `n_clusters`.

NMI and AMI divide by a mean of two entropies. The defaults are those of the Par-InGMM paper: the
geometric mean for NMI, the maximum for AMI. scikit-learn's default is the arithmetic mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    homogeneity_completeness_v_measure,
    normalized_mutual_info_score,
)
from sklearn.metrics.cluster import contingency_matrix

Average: TypeAlias = Literal["min", "geometric", "arithmetic", "max"]
"""The mean of the entropies of classes and clusters that mutual information is divided by."""


@dataclass(frozen=True, slots=True)
class ClusteringScores:
    """Scores of clusters against classes. Higher is better, and 1 is perfect.

    Attributes
    ----------
    n_clusters : number of clusters with at least one row
    purity : share of rows with the most frequent class of their cluster, above 0
    homogeneity : 1 minus the entropy of classes within clusters over the entropy of classes, from
        0; 1 if no cluster mixes classes
    completeness : the same with classes and clusters exchanged, from 0; 1 if no class is split
    v_measure : harmonic mean of homogeneity and completeness, from 0
    nmi : mutual information over the geometric mean of both entropies, from 0
    ami : mutual information minus its mean for random clusters, over the larger entropy minus that
        mean; about 0 for random clusters, and it can be negative
    ari : share of pairs of rows on which classes and clusters agree, adjusted for chance in the
        same way; about 0 for random clusters, at least -0.5
    """

    n_clusters: int
    purity: float
    homogeneity: float
    completeness: float
    v_measure: float
    nmi: float
    ami: float
    ari: float


def clustering_scores(classes: ArrayLike, clusters: ArrayLike) -> ClusteringScores:
    """All scores of clusters against classes. Higher is better, and 1 is perfect.

    Parameters
    ----------
    classes, clusters : array-like of shape (n_rows,)
        The class and the cluster of each row.

    Returns
    -------
    ClusteringScores
        NMI and AMI are normalised as in the Par-InGMM paper.

    Examples
    --------
    >>> scores = clustering_scores([0, 0, 1, 1], [5, 5, 6, 7])
    >>> scores.n_clusters, scores.purity, scores.homogeneity, round(scores.completeness, 3)
    (3, 1.0, 1.0, 0.667)
    """
    _check_labels("clustering_scores", classes, clusters)
    homogeneity, completeness, v_measure = homogeneity_completeness_v_measure(classes, clusters)
    return ClusteringScores(
        n_clusters=len(np.unique(np.asarray(clusters))),
        purity=purity(classes, clusters),
        homogeneity=float(homogeneity),
        completeness=float(completeness),
        v_measure=float(v_measure),
        nmi=normalized_mutual_information(classes, clusters),
        ami=adjusted_mutual_information(classes, clusters),
        ari=float(adjusted_rand_score(classes, clusters)),
    )


def purity(classes: ArrayLike, clusters: ArrayLike) -> float:
    """Share of rows with the most frequent class of their cluster, above 0 and up to 1.

    Higher is better. It is 1 if no cluster mixes classes, so also if each row is a cluster.

    Parameters
    ----------
    classes, clusters : array-like of shape (n_rows,)
        The class and the cluster of each row.

    Examples
    --------
    >>> purity([0, 0, 1, 1, 1], [7, 7, 7, 8, 8])
    0.8
    """
    _check_labels("purity", classes, clusters)
    # Sparse, because there may be as many clusters as rows.
    table = contingency_matrix(classes, clusters, sparse=True)
    return float(table.max(axis=0).sum() / table.sum())


def normalized_mutual_information(
    classes: ArrayLike, clusters: ArrayLike, average: Average = "geometric"
) -> float:
    """Mutual information of classes and clusters over a mean of their entropies, from 0 to 1.

    Higher is better: 0 if clusters say nothing about classes, 1 if they are the same division.
    Random clusters score above 0, and more so if they are many.

    Parameters
    ----------
    classes, clusters : array-like of shape (n_rows,)
        The class and the cluster of each row.
    average : {"min", "geometric", "arithmetic", "max"}, default="geometric"
        The mean of the two entropies. scikit-learn's default is "arithmetic".

    Examples
    --------
    >>> round(normalized_mutual_information([0, 0, 1, 1], [0, 0, 1, 2]), 3)  # sqrt(2 / 3)
    0.816
    """
    _check_labels("normalized_mutual_information", classes, clusters)
    return float(normalized_mutual_info_score(classes, clusters, average_method=average))


def adjusted_mutual_information(
    classes: ArrayLike, clusters: ArrayLike, average: Average = "max"
) -> float:
    """Mutual information of classes and clusters, adjusted for chance, up to 1.

    The mean for random clusters of the same sizes is subtracted, here and from the mean of the
    entropies that it is divided by. Higher is better: about 0 for random clusters, 1 if clusters
    and classes are the same division. It can be slightly negative.

    Parameters
    ----------
    classes, clusters : array-like of shape (n_rows,)
        The class and the cluster of each row.
    average : {"min", "geometric", "arithmetic", "max"}, default="max"
        The mean of the two entropies. scikit-learn's default is "arithmetic".

    Examples
    --------
    >>> adjusted_mutual_information([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    _check_labels("adjusted_mutual_information", classes, clusters)
    return float(adjusted_mutual_info_score(classes, clusters, average_method=average))


def _check_labels(owner: str, classes: ArrayLike, clusters: ArrayLike) -> None:
    """Raise a ValueError unless both have one label for each row, and at least one row."""
    shapes = {"classes": np.shape(classes), "clusters": np.shape(clusters)}
    for name, shape in shapes.items():
        if len(shape) != 1:
            raise ValueError(
                f"{name!r} of {owner} must have shape (n_rows,), one label for each row. Got "
                f"shape {shape}."
            )
    n_classes, n_clusters = (shape[0] for shape in shapes.values())
    if n_classes != n_clusters:
        raise ValueError(
            f"'classes' and 'clusters' of {owner} must have the same length. Got {n_classes} and "
            f"{n_clusters} labels."
        )
    if not n_classes:
        raise ValueError(
            f"'classes' and 'clusters' of {owner} must have one or more rows. Got none."
        )
