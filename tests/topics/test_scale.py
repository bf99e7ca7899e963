"""The unit of the numbers that a regression learns."""

import numpy as np
import pytest

from everlearn.topics.scale import MIN_TARGETS, Scale


def test_parts_of_the_targets_have_the_scale_of_all() -> None:
    y = np.random.default_rng(0).normal(5.0, 3.0, MIN_TARGETS)
    found = (
        Scale.of(y[:1]).with_numbers(np.array([np.nan])).with_numbers(y[1:7]).with_numbers(y[7:])
    )
    assert found.n == MIN_TARGETS
    assert found.mean == pytest.approx(y.mean())
    assert found.spread == pytest.approx(y.std())
    assert found.with_numbers(y + 100.0) is found
