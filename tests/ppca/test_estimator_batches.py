"""`partial_fit_each` is `partial_fit` of one batch after the other, to the bit."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from everlearn.ppca.estimator import OnlinePPCA
from everlearn.ppca.local import block_rows
from support.ppca_data import SETTINGS, WIDTH, model_of, rows_of
from support.streams import file_of

SIZES = (40, 1, 7, 25, 40, 3)
BLOCK = block_rows(WIDTH, 2)


def batches_of(gaps: float = 0.0) -> list[Any]:
    stops = np.cumsum(SIZES)
    return np.split(rows_of(int(stops[-1]), gaps=gaps), stops[:-1])


def one_by_one(model: OnlinePPCA, batches: list[Any]) -> OnlinePPCA:
    for batch in batches:
        model.partial_fit(batch)
    return model


@pytest.mark.parametrize("begun", [0, 2], ids=["from nothing", "going on"])
@pytest.mark.parametrize(
    "params", [{}, {"batch_size": 9}, {"engine": "threads", "batch_size": None}]
)
@pytest.mark.parametrize("setting", SETTINGS)
def test_it_is_the_same_model(setting: str, params: dict[str, Any], begun: int) -> None:
    batches = batches_of()
    alone = one_by_one(model_of(setting, **params), batches)
    together = one_by_one(model_of(setting, **params), batches[:begun])
    assert file_of(together.partial_fit_each(batches[begun:])) == file_of(alone)


def test_small_batches_beside_one_that_is_worth_threads() -> None:
    """Alone, they would be learned by one thread."""
    rows = rows_of(3 * BLOCK + 60)
    batches = np.split(rows, [20, 20 + 3 * BLOCK])
    alone, together = (OnlinePPCA(2, engine="threads", random_state=0) for _ in range(2))
    for model in (alone, together):
        model.partial_fit(rows_of(30))
    assert file_of(together.partial_fit_each(batches)) == file_of(one_by_one(alone, batches))


@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("n_mixtures", [1, 3])
def test_gaps_and_mixtures_too(gaps: float, n_mixtures: int) -> None:
    batches = batches_of(gaps)
    alone, together = (OnlinePPCA(2, n_mixtures=n_mixtures, random_state=0) for _ in range(2))
    together.partial_fit(batches[0]).partial_fit_each(batches[1:])
    assert file_of(together) == file_of(one_by_one(alone, batches))


def test_other_tables_than_arrays_are_learned_as_they_come() -> None:
    batches = batches_of()
    alone = one_by_one(OnlinePPCA(2, random_state=0), [pd.DataFrame(batch) for batch in batches])
    together = OnlinePPCA(2, random_state=0).partial_fit(pd.DataFrame(batches[0]))
    together.partial_fit_each([pd.DataFrame(batch) for batch in batches[1:]])
    assert file_of(together) == file_of(alone)


@pytest.mark.parametrize("spoilt", [np.inf, 1e300])
@pytest.mark.parametrize("begun", [0, 1], ids=["from nothing", "going on"])
def test_if_one_is_refused_none_is_learned(spoilt: float, begun: int) -> None:
    batches = batches_of()
    model = one_by_one(OnlinePPCA(2, random_state=0), batches[:begun])
    before = dict(model.__dict__)
    batches[-1][0, 0] = spoilt
    with pytest.raises(ValueError, match="OnlinePPCA"):
        model.partial_fit_each(batches[begun:])
    assert model.__dict__ == before


def test_a_batch_of_no_rows_is_refused() -> None:
    batches = batches_of()
    model = OnlinePPCA(2, random_state=0).partial_fit(batches[0])
    with pytest.raises(ValueError, match="0 sample"):
        model.partial_fit_each([batches[1], batches[2][:0]])
    assert model.n_steps_ == 1
    assert model.partial_fit_each([]).n_steps_ == 1
