"""One call of `fit` or `partial_fit`: rows in chunks, the beginning of a stream, ids of nodes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.components.fit import SETTLING_ROWS, fit_chunks, fit_rows, learn_rows
from everlearn.components.settings import ComponentTreeSettings
from everlearn.engine.chunks import Chunk, ChunkedRows
from everlearn.engine.local import SerialEngine
from everlearn.engine.protocol import LocalHandle
from everlearn.engine.rows import Rows
from support.component_data import rows_of

SETTINGS = ComponentTreeSettings(depth=2, max_nodes=4, tol=1e-3, patience=2, birth_window=600)


def chunked(X, *cuts):
    """Rows in chunks, held in this process."""
    parts = [Rows(part) for part in np.split(X, cuts)]
    chunks = (Chunk(LocalHandle(p), len(p), p.mass, p.nbytes) for p in parts)
    return ChunkedRows(tuple(chunks), X.shape[1])


def learned(X, size, settings=SETTINGS, seed=0):
    fit = None
    for start in range(0, len(X), size):
        fit = learn_rows(settings, fit, X[start : start + size], seed, SerialEngine())
    return fit


@pytest.mark.parametrize("cuts", [(), (40, 41, 110)])
def test_rows_in_chunks_are_learned_as_rows_in_memory(cuts):
    X = rows_of(150) + 100.0
    here = fit_rows(SETTINGS, X, 3, SerialEngine())
    there = fit_chunks(SETTINGS, chunked(X, *cuts), 3, SerialEngine())
    assert (there.n_rows, there.n_prior_rows, there.seed) == (150, 150, 3)
    assert_allclose(there.origin, here.origin, rtol=1e-12)
    assert_allclose(there.state.model.scale, here.state.model.scale, rtol=1e-10)
    assert_array_equal(there.state.tree.ids, here.state.tree.ids)
    assert_allclose(there.state.bound(), here.state.bound(), rtol=1e-9)
    assert there.state.n_open == 0


def test_the_best_of_some_starts_is_kept_and_nodes_are_numbered_by_mass():
    X = rows_of(150)
    starts = [
        fit_rows(ComponentTreeSettings(**params), X, 3, SerialEngine())
        for params in ({"max_nodes": 6, "max_iter": 3, "n_init": n} for n in (1, 4))
    ]
    assert starts[1].state.bound() >= starts[0].state.bound()
    for fit in starts:
        tree = fit.state.tree
        assert_array_equal(np.sort(tree.ids), np.arange(len(tree)))
        mass = tree.through(fit.state.total.slots)
        assert (np.diff(mass[np.argsort(tree.ids)]) <= 1e-9).all()
        assert_array_equal(fit.state.total.ids, tree.ids)
        assert fit.seed == 3
        assert fit.state.next_id > tree.ids.max()


def test_few_first_rows_do_not_decide_on_the_prior():
    """The stream begins again when its rows have doubled; ids and rounds go on."""
    X = rows_of(90)
    X[:10] *= 1e-3
    fit, ids = None, -1
    for stop, n_prior in ((10, 10), (19, 10), (20, 20), (39, 20), (90, 90)):
        known = 0 if fit is None else fit.n_rows
        fit = learn_rows(SETTINGS, fit, X[known:stop], 0, SerialEngine())
        assert (fit.n_rows, fit.n_prior_rows) == (stop, n_prior)
        assert fit.state.total.n == stop
        assert_allclose(fit.origin, X[:n_prior].mean(axis=0), rtol=1e-9, atol=1e-12)
        began_again = stop == n_prior
        assert (fit.state.tree.ids.min() > ids) == began_again
        ids = fit.state.next_id - 1 if began_again else ids
    assert_allclose(fit.state.model.scale, X.var(axis=0).mean(), rtol=1e-9)
    rounds = [point.lap for point in fit.history.points]
    assert len(rounds) > 1
    assert (np.diff(rounds) > 0).all()


def test_a_prior_of_enough_rows_stays():
    X = rows_of(4 * SETTLING_ROWS)
    fit = learned(X[:SETTLING_ROWS], SETTLING_ROWS)
    later = learn_rows(SETTINGS, fit, X[SETTLING_ROWS:], 1, SerialEngine())
    assert later.n_prior_rows == SETTLING_ROWS
    assert_array_equal(later.origin, fit.origin)
    assert later.state.model == fit.state.model
    assert later.seed == fit.seed == 0


def test_rows_that_are_gone_cannot_decide_again():
    """Once a row has left the window, the prior stays however few there are."""
    settings = ComponentTreeSettings(depth=2, max_nodes=4, birth_window=16)
    X = rows_of(60)
    fit = learned(X[:24], 24, settings)
    assert fit.state.n_open < 24
    later = learn_rows(settings, fit, X[24:], 0, SerialEngine())
    assert later.n_prior_rows == 24
