"""A label means the same topic for life."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.estimator.saving import load

CENTRES = np.array([[-9.0, 0.0], [0.0, 9.0], [9.0, 0.0], [0.0, -9.0]])


def document(seed: int, shares: Any) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(CENTRES[rng.choice(4, 200, p=shares)], 1.0)


OLD = [document(seed, [0.2, 0.3, 0.5, 0.0]) for seed in range(10)]
NEW = [document(seed, [0.0, 0.9, 0.0, 0.1]) for seed in range(10, 30)]


def test_fit_numbers_topics_from_0_the_largest_first() -> None:
    model = ClumpedTopicModel(max_clumps=60).fit(OLD)
    assert_array_equal(model.component_ids_, [0, 1, 2])
    assert (np.diff(model.weights_) < 0).all()
    assert_array_equal(model.means_.round(-1), [[10, 0], [0, 10], [-10, 0]])
    labels = model.assign(OLD)
    assert_array_equal(np.bincount(np.concatenate(labels)), (2000 * model.weights_).round())


def test_labels_stay_when_sizes_and_the_number_of_topics_change(tmp_path: Path) -> None:
    model = ClumpedTopicModel(max_clumps=60).fit(OLD)
    before, means = model.assign(OLD), model.means_
    model.partial_fit(NEW)
    assert model.n_components_ == 4
    assert (np.diff(model.weights_) > 0).any()  # no order by size any more
    assert_array_equal(model.component_ids_[:3], [0, 1, 2])
    assert model.component_ids_[3] > 2
    np.testing.assert_allclose(model.means_[:3], means, atol=0.5)
    for old, new in zip(before, model.assign(OLD), strict=True):
        assert (old == new).mean() > 0.99
    model.save(tmp_path / "model.evl")
    assert_array_equal(load(tmp_path / "model.evl").assign(NEW[0]), model.assign(NEW[0]))


def test_columns_follow_the_ids() -> None:
    model = ClumpedTopicModel(max_clumps=60).fit(OLD).partial_fit(NEW)
    (shares,) = model.transform(NEW[:1])
    counts = np.bincount(np.searchsorted(model.component_ids_, model.assign(NEW[0])), minlength=4)
    np.testing.assert_allclose(shares, counts / 200, atol=0.02)
