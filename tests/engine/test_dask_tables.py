"""Tables with text in Dask data frames: the same model as from the frame in memory."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from everlearn.mixture.estimator import DPMixture

pytestmark = pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    k = rng.integers(3, size=n)
    frame = pd.DataFrame(
        {
            "plan": np.array(["free", "pro", "team"])[(k + (rng.random(n) < 0.1)) % 3],
            "spend": rng.normal(10.0 * k, 3.0),
            "visits": rng.poisson(1 + 7 * k).astype(float),
            "member": rng.random(n) < 0.5,
            "grade": rng.integers(1, 5, n),
        }
    )
    frame.loc[::7, ["plan", "visits"]] = None
    return frame


def mixture(**params):
    return DPMixture(random_state=0, max_laps=6, **params)


def test_the_columns_and_the_model_are_those_of_the_frame(client):
    frame = table(900)
    here = mixture(moves=(), max_components=1).fit(frame)
    far = mixture(moves=(), max_components=1, engine=client).fit(
        dd.from_pandas(frame, npartitions=3, sort=False)
    )
    assert far.columns_ == here.columns_
    assert [column.kind for column in far.columns_] == [
        "categories",
        "numbers",
        "counts",
        "categories",
        "categories",
    ]
    assert_allclose(far.bound_, here.bound_, rtol=1e-9)
    assert_allclose(far.predict_proba(frame[:50]), here.predict_proba(frame[:50]), atol=1e-6)
    assert list(far.feature_names_in_) == list(frame)


def test_clusters_are_found_where_the_chunks_are(client):
    frame = table(1200)
    far = mixture(engine=client).fit(dd.from_pandas(frame, npartitions=4, sort=False))
    assert far.n_components_ == 3
    assert far.n_samples_seen_ == 1200
    later = table(300, seed=1).assign(plan="trial")
    far.set_params(engine="serial").partial_fit(later)
    assert far.columns_[0].values == ("free", "pro", "team", "trial")


def test_a_value_of_one_chunk_gets_a_code_and_one_without_weight_none(client):
    frame = table(600)
    frame["plan"] = frame["plan"].astype(object)
    frame.loc[1, "plan"], frame.loc[500, "plan"] = "early", "late"
    X = dd.from_pandas(frame, npartitions=3, sort=False)
    weights = dd.from_pandas(pd.Series(np.arange(600) != 1, index=frame.index).astype(float), 3)
    model = mixture(moves=(), max_components=1, engine=client).fit(X, sample_weight=weights)
    assert model.columns_[0].values == ("free", "late", "pro", "team")
    assert model.n_samples_seen_ == 599


def test_a_frame_of_numbers_is_as_ever_and_a_table_if_it_is_to_be(client):
    frame = table(300)[["spend", "grade"]]
    X = dd.from_pandas(frame, npartitions=2, sort=False)
    assert mixture(engine=client, moves=()).fit(X).columns_ == ()
    kinds = [c.kind for c in mixture(engine=client, moves=(), family="table").fit(X).columns_]
    assert kinds == ["numbers", "categories"]


def test_free_text_and_dates_are_named(client):
    frame = table(300).assign(name=[f"row {i}" for i in range(300)])
    with pytest.raises(ValueError, match="'name' has 300 different values"):
        mixture(engine=client).fit(dd.from_pandas(frame, npartitions=3, sort=False))
    frame = table(300).assign(when=pd.Timestamp("2026-01-01"))
    with pytest.raises(ValueError, match="'when', got dates"):
        mixture(engine=client).fit(dd.from_pandas(frame, npartitions=3, sort=False))
