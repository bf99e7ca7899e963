"""Dask arrays, data frames and bags: chunks stay on their workers and teach the same."""

from typing import ClassVar

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from everlearn.components.estimator import ComponentTree
from everlearn.engine.chunks import ChunkedRows
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.estimator import OnlinePPCA
from support.bits import assert_same_model

pytestmark = pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
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
        assert model.n_samples_seen_ == 900
        assert model.n_features_in_ == 3
        assert_allclose(np.sort(model.means_[:, 0]), [-8, 0, 8], atol=0.2)
        assert np.isfinite(model.bound_)

    @pytest.mark.parametrize("kind", [sparse.coo_array, sparse.csc_matrix, sparse.csr_array])
    def test_sparse_chunks_of_any_kind(self, kind, client):
        counts = np.abs(POINTS).round()
        model, here = (mixture(family="multinomial", engine=e) for e in (client, None))
        far = da.from_array(counts, chunks=(CHUNKS, -1)).map_blocks(kind)
        assert_same_model(model.fit(far), fitted_here(here, counts))

    def test_neither_workers_nor_their_number_matter(self, client, lonely_client):
        one = mixture(engine=client).fit(chunked(POINTS, client))
        two = mixture(engine=lonely_client).fit(chunked(POINTS, lonely_client))
        assert_same_model(one, two)

    def test_the_same_bits_as_in_this_process(self, client):
        far = mixture(engine=client, batch_size=300).fit(chunked(POINTS, client))
        assert_same_model(far, fitted_here(mixture(batch_size=300), POINTS))

    @pytest.mark.parametrize("family", ["full", "zero-mean", "multinomial"])
    def test_every_family(self, family, client):
        X = np.abs(POINTS).round() if family == "multinomial" else POINTS
        model = mixture(family=family, moves=("merge",), max_components=3, engine=client)
        here = mixture(family=family, moves=("merge",), max_components=3)
        assert_same_model(model.fit(chunked(X, client)), fitted_here(here, X))

    def test_sparse_chunks(self, client):
        X = np.abs(POINTS).round()
        params = {"family": "multinomial", "moves": (), "engine": client}
        far = mixture(**params).fit(chunked(X, client).map_blocks(sparse.csr_matrix))
        assert_allclose(far.bound_, mixture(**params).fit(chunked(X, client)).bound_, rtol=1e-12)

    def test_bags_of_rows_and_what_is_delayed(self, client):
        rows = db.from_sequence(POINTS.tolist(), npartitions=3).map(tuple)
        one = mixture(engine=client, moves=()).fit(rows)
        assert one.n_samples_seen_ == 900
        two = mixture(engine=client, moves=()).fit(dask.delayed(POINTS))
        assert_allclose(one.bound_, two.bound_, rtol=1e-12)

    def test_a_chunk_of_which_nothing_is_known(self, client):
        X = POINTS.copy()
        X[:100] = np.nan
        params = {"n_components": 1, "random_state": 0, "max_iter": 3}
        far = OnlinePPCA(engine=client, **params).fit(chunked(X, client))
        here = OnlinePPCA(engine="serial", **params).fit(X)
        assert_allclose(far.score(X), here.score(X), rtol=1e-6)
        with pytest.raises(ValueError, match=r"'X' of OnlinePPCA.*not missing to begin with"):
            OnlinePPCA(engine=client, **params).fit(da.full((20, 3), np.nan, chunks=(10, 3)))

    def test_gaps_and_weights(self, client):
        X = np.where(RNG.random(POINTS.shape) < 0.1, np.nan, POINTS)
        weights = RNG.integers(0, 3, len(X)).astype(float)
        far = mixture(engine=client, max_components=1).fit(
            chunked(X, client), sample_weight=da.from_array(weights, chunks=(CHUNKS,))
        )
        assert far.n_samples_seen_ == np.count_nonzero(weights)
        here = mixture(max_components=1).fit(X, sample_weight=weights)
        assert_allclose(far.bound_, here.bound_, rtol=1e-9)
        assert_allclose(far.means_, here.means_, rtol=1e-7)

    def test_data_frames_bring_their_names(self, client):
        frame = pd.DataFrame(POINTS, columns=["a", "b", "c"])
        model = mixture(engine=client, max_components=1).fit(dd.from_pandas(frame, npartitions=4))
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        assert_array_equal(model.predict(frame), np.zeros(900))

    def test_stochastic_learning(self, client, lonely_client):
        one = mixture(engine=client, learner="stochastic", moves=()).fit(chunked(POINTS, client))
        two = mixture(engine=lonely_client, learner="stochastic", moves=())
        assert_same_model(one, two.fit(chunked(POINTS, lonely_client)))

    @pytest.mark.parametrize(
        "params", [{}, {"fit_method": "em"}, {"n_mixtures": 2}], ids=["exact", "em", "mixture"]
    )
    def test_ppca(self, params, client, lonely_client):
        def fitted(client):
            model = OnlinePPCA(n_components=2, max_iter=4, random_state=0, engine=client, **params)
            return model.fit(chunked(POINTS, client))

        model = fitted(client)
        assert_same_model(model, fitted(lonely_client))
        here = OnlinePPCA(n_components=2, max_iter=4, random_state=0, **params).fit(POINTS)
        assert_allclose(model.score(POINTS), here.score(POINTS), rtol=1e-6)


class TestComponentTree:
    """Rows stay where they are: sums over them, and samples, come here."""

    PARAMS: ClassVar = {"max_nodes": 5, "max_iter": 2, "batch_size": 300, "random_state": 0}

    def test_the_same_bits_on_any_number_of_workers(self, client, lonely_client):
        one = ComponentTree(engine=client, **self.PARAMS).fit(chunked(POINTS, client))
        two = ComponentTree(engine=lonely_client, **self.PARAMS)
        assert_same_model(one, two.fit(chunked(POINTS, lonely_client)))

    def test_one_batch_is_that_of_one_process(self, client, monkeypatch):
        monkeypatch.setattr("everlearn.components.moves.MAX_SURVEY_ROWS", 500)
        params = {**self.PARAMS, "batch_size": 900, "n_init": 2}
        here = ComponentTree(**params).fit(POINTS)
        far = ComponentTree(engine=client, **params).fit(chunked(POINTS, client))
        assert far.n_samples_seen_ == 900
        assert_array_equal(far.component_ids_, here.component_ids_)
        assert_allclose(far.bound_, here.bound_, rtol=1e-6)
        assert_allclose(far.score(POINTS), here.score(POINTS), rtol=1e-6)

    def test_only_samples_of_rows_come_here(self, client, monkeypatch):
        brought = []
        real = ChunkedRows.take

        def take(self, positions, engine):
            brought.append(len(positions))
            return real(self, positions, engine)

        monkeypatch.setattr(ChunkedRows, "take", take)
        monkeypatch.setattr("everlearn.components.moves.MAX_SURVEY_ROWS", 50)
        monkeypatch.setattr("everlearn.components.search.START_ROWS", 60)
        ComponentTree(engine=client, **self.PARAMS).fit(chunked(POINTS, client))
        assert len(brought) > 2
        assert max(brought) == 60

    def test_bad_values_are_found_where_they_are(self, client):
        X = POINTS.copy()
        X[700, 1] = np.nan
        with pytest.raises(ValueError, match="ComponentTree contains NaN"):
            ComponentTree(engine=client).fit(chunked(X, client))


class TestRefusals:
    @pytest.mark.parametrize("bad", [np.inf, 1e300])
    def test_values_are_looked_at_where_they_are(self, bad, client):
        X = POINTS.copy()
        X[700, 1] = bad
        model = mixture(engine=client)
        with pytest.raises(ValueError, match=r"X.*DPMixture"):
            model.fit(chunked(X, client))
        assert not hasattr(model, "_learned")
        assert not hasattr(model, "n_features_in_")

    def test_chunks_side_by_side(self, client):
        with pytest.raises(ValueError, match="'X' of DPMixture must be chunked by rows only"):
            mixture(engine=client).fit(da.ones((10, 4), chunks=(5, 2)))

    def test_widths_that_differ(self, client):
        X = da.concatenate([da.ones((10, 3)), da.ones((10, 3))]).to_delayed().ravel()
        odd = da.from_delayed(X[0], (10, 3), float)
        even = da.from_delayed(da.ones((5, 2)).to_delayed().ravel()[0], (5, 3), float)
        with pytest.raises(ValueError, match="expecting 3 features"):
            mixture(engine=client).fit(da.concatenate([odd, even]))

    def test_arrays_of_three_axes(self, client):
        X = da.ones((10, 4, 2), chunks=(5, -1, -1))
        model = ComponentTree(engine=client)
        with pytest.raises(ValueError, match=r"ComponentTree.*got shape \(\d+, \d+, \d+\)"):
            model.fit(X)
        with pytest.raises(ValueError, match=r"rechunk\(\{1: -1, 2: -1\}\). Got 4 chunks side"):
            model.fit(X.rechunk((5, 2, 1)))

    def test_a_chunk_that_does_not_count_is_looked_at(self, client):
        X, weights = POINTS.copy(), np.ones(900)
        weights[:100] = 0.0
        X[7, 1] = np.inf
        far = da.from_array(weights, chunks=(CHUNKS,))
        with pytest.raises(ValueError, match=r"X.*DPMixture"):
            mixture(engine=client).fit(chunked(X, client), sample_weight=far)
        other = da.concatenate([da.zeros(77, chunks=77), far[100:]])
        with pytest.raises(ValueError, match=r"'sample_weight' of DPMixture .*\(77,\) .* 100 rows"):
            mixture(engine=client).fit(chunked(POINTS, client), sample_weight=other)
        wide = da.from_delayed(dask.delayed(np.ones((100, 5))), (100, 3), float)
        table = da.concatenate([wide, chunked(POINTS, client)[100:]])
        with pytest.raises(ValueError, match=r"3 features.*5 features"):
            mixture(engine=client).fit(table, sample_weight=far)

    def test_weights_of_which_none_counts(self, client):
        none = da.zeros(900, chunks=(CHUNKS,))
        with pytest.raises(ValueError, match="'sample_weight' of DPMixture must have a positive"):
            mixture(engine=client).fit(chunked(POINTS, client), sample_weight=none)

    def test_engines_of_this_process(self):
        with pytest.raises(ValueError, match=r"'engine' parameter of DPMixture.*'serial'"):
            mixture(engine="serial").fit(da.ones((10, 4)))

    def test_no_rows(self, client):
        with pytest.raises(ValueError, match="X of DPMixture must have a row"):
            mixture(engine=client).fit(da.ones((0, 4)))

    def test_weights_that_are_not_chunked(self, client):
        with pytest.raises(ValueError, match="'sample_weight' of DPMixture must be a Dask array"):
            mixture(engine=client).fit(chunked(POINTS, client), sample_weight=np.ones(900))

    def test_predictions_and_streams_take_none(self, client):
        model = mixture(moves=()).fit(POINTS)
        for method in ("predict", "score", "partial_fit"):
            with pytest.raises(TypeError, match=r"'X' of DPMixture.*Dask collection"):
                getattr(model, method)(chunked(POINTS, client))


def fitted_here(model, X, engine="serial"):
    """The same chunks held by an engine of this process."""
    from everlearn.engine.chunks import Chunk
    from everlearn.engine.opening import open_engine
    from everlearn.engine.protocol import LocalHandle
    from everlearn.mixture.fit import fit_rows
    from everlearn.mixture.inputs import checked_rows

    rows = checked_rows(model, X, reset=True)
    ends = np.cumsum(CHUNKS)
    parts = [rows[int(end - n) : int(end)] for end, n in zip(ends, CHUNKS, strict=True)]
    chunks = tuple(Chunk(LocalHandle(p), len(p), p.mass, p.nbytes) for p in parts)
    with open_engine(engine) as opened:
        held = ChunkedRows(chunks, X.shape[1], rows.missing)
        model._learned = fit_rows(model._settings(), held, model._new_seed(), opened)
    return model
