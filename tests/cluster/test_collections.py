"""Dask arrays, data frames and bags: chunks stay on their workers and teach the same."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose

from cluster.bits import assert_same_model
from everlearn.estimators.mixture import DPMixture

pytestmark = pytest.mark.filterwarnings("ignore::everlearn.core.errors.NotConvergedWarning")
RNG = np.random.default_rng(1)
POINTS = np.concatenate([RNG.normal(c, 1.0, (300, 3)) for c in (-8, 0, 8)])
RNG.shuffle(POINTS)
CHUNKS = (100, 150, 250, 50, 200, 150)


def mixture(**params):
    return DPMixture(random_state=0, max_laps=6, **params)


def chunked(X, client):
    return client.persist(da.from_array(X, chunks=(CHUNKS, -1)))


class TestRows:
    def test_components_are_found_where_the_chunks_are(self, client):
        model = mixture(engine=client).fit(chunked(POINTS, client))
        assert model.n_components_ == 3
        assert model.n_rows_seen_ == 900
        assert model.n_features_in_ == 3
        assert_allclose(np.sort(model.means_[:, 0]), [-8, 0, 8], atol=0.2)
        assert np.isfinite(model.bound_)

    def test_neither_workers_nor_their_number_matter(self, client, lonely_client):
        one = mixture(engine=client).fit(chunked(POINTS, client))
        two = mixture(engine=lonely_client).fit(chunked(POINTS, lonely_client))
        assert_same_model(one, two)

    def test_the_same_bits_as_in_this_process(self, client):
        far = mixture(engine=client, batch_size=300).fit(chunked(POINTS, client))
        assert_same_model(far, fitted_here(mixture(batch_size=300), POINTS))


def fitted_here(model, X, engine="serial"):
    """The same chunks held by an engine of this process."""
    from everlearn.estimators.collections import OpenRows
    from everlearn.estimators.mixture_input import checked_rows
    from everlearn.estimators.mixture_learning import learn_elsewhere
    from everlearn.inference.chunks import Chunk, ChunkedRows
    from everlearn.inference.engine import Here
    from everlearn.runtime.engine import open_engine

    rows = checked_rows(model, X, reset=True)
    ends = np.cumsum(CHUNKS)
    parts = [rows[int(end - n) : int(end)] for end, n in zip(ends, CHUNKS, strict=True)]
    chunks = tuple(Chunk(Here(p), len(p), p.mass, p.nbytes) for p in parts)
    with open_engine(engine) as opened:
        given = OpenRows(opened, ChunkedRows(chunks, X.shape[1]), bool(np.isnan(X).any()))
        model._learned = learn_elsewhere(model, given, model._new_seed())
    return model
