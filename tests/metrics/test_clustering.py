"""Scores of clusterings against numbers worked out by hand."""

import tracemalloc
from math import log, sqrt

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from everlearn.metrics.clustering import (
    adjusted_mutual_information,
    clustering_scores,
    normalized_mutual_information,
    purity,
)

# Six rows, classes of 3 and 3, clusters of 2, 1 and 3: the table is [[2, 1, 0], [0, 0, 3]].
CLASSES = ["a", "a", "a", "b", "b", "b"]
CLUSTERS = [4, 4, 9, 7, 7, 7]
CLASS_ENTROPY = log(2)
CLUSTER_ENTROPY = log(3) / 3 + log(6) / 6 + log(2) / 2


def test_scores_worked_out_by_hand():
    scores = clustering_scores(CLASSES, CLUSTERS)
    completeness = CLASS_ENTROPY / CLUSTER_ENTROPY  # clusters tell classes: I is H(classes)
    assert scores.n_clusters == 3
    assert scores.purity == 1.0
    assert scores.homogeneity == pytest.approx(1.0)
    assert scores.completeness == pytest.approx(completeness)
    assert scores.v_measure == pytest.approx(2 * completeness / (1 + completeness))
    assert scores.nmi == pytest.approx(sqrt(completeness))
    # pairs together: classes 6, clusters 1 + 3, both 4; of 15; expected 6 * 4 / 15
    assert scores.ari == pytest.approx((4 - 1.6) / (5 - 1.6))


def test_chance_by_counting_all_ways_to_deal():
    """Two classes of two rows, two clusters of two: of 6 deals 2 tell everything, 4 nothing."""
    expected = 2 / 6 * log(2)
    mixed = adjusted_mutual_information([0, 0, 1, 1], [0, 1, 0, 1])
    assert mixed == pytest.approx((0 - expected) / (log(2) - expected))


def test_purity_counts_the_main_class_of_each_cluster():
    assert purity([0, 0, 1, 2, 2, 2], [0, 0, 0, 1, 1, 1]) == pytest.approx(5 / 6)
    assert purity([0, 1, 2], [0, 0, 0]) == pytest.approx(1 / 3)


def test_purity_of_as_many_clusters_as_rows_takes_little_memory():
    """A table of all classes by all clusters would be one of 3.2 GB."""
    rows = np.arange(20_000)
    tracemalloc.start()
    try:
        assert purity(rows, rows[::-1]) == 1.0
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("average", ["min", "geometric", "arithmetic", "max"])
def test_every_normalisation_is_scikit_learns_of_that_name(average):
    rng = np.random.default_rng(0)
    a, b = rng.integers(4, size=60), rng.integers(6, size=60)
    assert normalized_mutual_information(a, b, average) == normalized_mutual_info_score(
        a, b, average_method=average
    )
    assert adjusted_mutual_information(a, b, average) == adjusted_mutual_info_score(
        a, b, average_method=average
    )


def test_defaults_are_the_papers():
    """Its Table 1: NMI is sqrt(h c), and AMI is about min(h, c) where there are many rows."""
    rng = np.random.default_rng(0)
    classes = rng.integers(10, size=20_000)
    clusters = np.where(rng.random(20_000) < 0.7, classes, rng.integers(20, size=20_000))
    scores = clustering_scores(classes, clusters)
    h, c = scores.homogeneity, scores.completeness
    assert scores.nmi == pytest.approx(sqrt(h * c))
    assert scores.ami == pytest.approx(min(h, c), abs=2e-3)
    assert abs(h - c) > 0.02  # else the last lines could not tell one mean from another


@pytest.mark.parametrize(
    "score",
    [purity, clustering_scores, normalized_mutual_information, adjusted_mutual_information],
)
@pytest.mark.parametrize(
    ("classes", "clusters", "message"),
    [
        (
            [0, 1],
            [0, 1, 1],
            "'classes' and 'clusters' of {} must have the same length. Got 2 and 3",
        ),
        ([], [], "'classes' and 'clusters' of {} must have one or more rows"),
        ([[0], [1]], [0, 1], "'classes' of {} must have shape"),
        ([0, 1], [[0], [1]], "'clusters' of {} must have shape"),
    ],
)
def test_errors_name_the_function_that_was_called(score, classes, clusters, message):
    with pytest.raises(ValueError, match=message.format(score.__name__)):
        score(classes, clusters)
