"""A stream that is stopped and resumed."""

import numpy as np
import pytest

from everlearn.attic.app_streaming import identical, learn_stream
from everlearn.mixture.estimator import DPMixture

ROWS = np.random.default_rng(3).normal(size=(70, 2)) + np.repeat([[0.0], [9.0]], 35, axis=0)


def test_resumed_equals_never_stopped(run):
    assert run.identical
    assert run.stopped_at == 320
    assert run.checkpoint_bytes > 0
    assert run.seconds > 0


def test_trace_has_every_batch(run):
    assert [p.rows for p in run.trace] == list(range(40, 601, 40))
    assert run.trace[-1].bound == run.model.bound_
    assert run.trace[-1].n_components == run.model.n_components_


@pytest.mark.parametrize("batch", [1, 30, 70, 1000])
def test_every_row_is_learned_once(batch):
    seen = []
    run = learn_stream(DPMixture(random_state=0), ROWS, batch, seen.append)
    assert run.model.n_samples_seen_ == len(ROWS)
    assert run.identical
    assert tuple(seen) == run.trace


def test_a_difference_is_noticed():
    one = DPMixture(random_state=0).partial_fit(ROWS)
    assert identical(one, DPMixture(random_state=0).partial_fit(ROWS))
    moved = ROWS.copy()
    moved[0, 0] = np.nextafter(moved[0, 0], 100)
    assert not identical(one, DPMixture(random_state=0).partial_fit(moved))
    assert not identical(one, DPMixture(random_state=0).partial_fit(ROWS[:-1]))
