"""Random streams depend on seed, purpose and position, and on nothing else."""

from itertools import combinations, product
from typing import get_args

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from everlearn.core.random import Purpose, stream


def draws(*key):
    return stream(*key).integers(2**62, size=4)


def test_the_same_key_gives_the_same_draws():
    assert_array_equal(draws(7, "birth", 3, 1), draws(7, "birth", 3, 1))


def test_other_streams_do_not_disturb():
    a = stream(7, "birth", 0)
    first = a.random()
    stream(7, "birth", 1).random(100)
    again = stream(7, "birth", 0)
    assert again.random() == first
    assert again.random() == a.random()


def test_all_keys_differ():
    positions = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (3,), (3, 0), (3, 0, 0), (2**40,)]
    seeds = [0, 1, 7, 2**32, 7 + 2 * 2**32]
    keys = product(seeds, get_args(Purpose), positions)
    seen = [tuple(draws(seed, purpose, *position)) for seed, purpose, position in keys]
    assert len(set(seen)) == len(seen)


def test_neighbouring_streams_are_uncorrelated():
    columns = [stream(1, "order", i).standard_normal(4000) for i in range(6)]
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in combinations(columns, 2)]
    assert np.max(np.abs(correlations)) < 4.5 / np.sqrt(4000)


def test_an_unknown_purpose_is_refused():
    with pytest.raises(KeyError):
        stream(1, "luck")
