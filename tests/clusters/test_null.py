"""The null and the gap."""

import numpy as np
import pytest

from everlearn.clusters.codebook import graph_of, learn_codebooks, near_prototypes
from everlearn.clusters.ladder import Rung, climb
from everlearn.clusters.null import NullCurve, gaps, null_curve
from everlearn.core.arrays import Mat
from support.cluster_data import rows_of


def ladder(rows: Mat) -> list[Rung]:
    books = learn_codebooks(rows, 0)
    return climb(graph_of(near_prototypes(rows, books), books.shape[1]), 0)


@pytest.mark.parametrize("n_columns", [2, 10])
def test_a_gaussian_cuts_what_the_null_cuts(n_columns: int) -> None:
    rows = np.random.default_rng(0).normal(size=(1500, n_columns))
    rungs, null = ladder(rows), null_curve(rows, 0, on_sphere=False)
    expected = [null.at(rung.effective) for rung in rungs]
    np.testing.assert_allclose([rung.cut for rung in rungs], expected, atol=0.04)


def test_clusters_cut_less() -> None:
    rows = rows_of(900)
    rungs = ladder(rows)
    gap = gaps(rungs, null_curve(rows, 0, on_sphere=False))
    best = rungs[int(gap.argmax())]
    assert best.n_groups == 6
    assert gap.max() > 0.1


def test_the_null_is_bent_where_the_fine_end_cuts_less() -> None:
    effective = np.geomspace(2, 64, 8)
    null = NullCurve(np.log(effective), np.linspace(0.3, 0.9, 8))
    groups = np.zeros(1, np.int32)
    cut = np.linspace(0.3, 0.9, 8) ** 2
    cut[2] /= 2
    found = gaps([Rung(groups, e, c) for e, c in zip(effective, cut, strict=True)], null)
    np.testing.assert_allclose(found, np.where(np.arange(8) == 2, cut[2], 0), atol=1e-9)


def test_levels_rise_in_number_and_cut() -> None:
    rungs = ladder(rows_of(500))
    assert rungs[0].n_groups <= 6 <= rungs[-1].n_groups
    assert rungs[-1].cut > rungs[0].cut
    for rung in rungs:
        assert 1 <= rung.effective <= rung.n_groups + 1e-9
