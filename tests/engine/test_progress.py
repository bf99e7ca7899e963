"""The number of components over time, for whoever asks."""

import numpy as np
import pytest

from everlearn import DPMixture
from everlearn.engine.progress import watched_growth

ROWS = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (60, 2)) for c in (-9, 0, 9)])


def test_laps_are_watched_inside_alone():
    DPMixture(random_state=0).fit(ROWS)
    with watched_growth() as trace:
        model = DPMixture(random_state=0).fit(ROWS)
    assert len(trace) == len(model.bound_history_)
    assert trace[-1][1] == model.n_components_
    seconds = [second for second, _ in trace]
    assert seconds == sorted(seconds)
    n = len(trace)
    DPMixture(random_state=0).fit(ROWS)
    assert len(trace) == n


def test_an_inner_block_has_its_own():
    with watched_growth() as outer:
        with watched_growth() as inner, pytest.raises(ValueError, match="NaN"):
            DPMixture(family="full").fit(np.full((9, 2), np.nan))
        DPMixture(random_state=0).fit(ROWS)
    assert inner == []
    assert outer
