"""The resamples of the scene experiment are what its page says they are."""

import importlib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def runs(monkeypatch):
    pytest.importorskip("pyarrow", reason="needs pyarrow, which comes with everlearn[bench]")
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.scene_runs")


def test_tens_of_categories_share_none(runs):
    y = np.repeat(np.arange(102), 30)
    tens = [runs.chosen(10, r, y) for r in range(10)]
    assert all(len(rows) == 300 and len(np.unique(y[rows])) == 10 for rows in tens)
    assert len(np.unique(np.concatenate(tens))) == 3000


def test_all_categories_have_as_many_images_each_drawn_anew(runs):
    y = np.repeat(np.arange(102), 30)
    one, two = (runs.chosen(102, r, y) for r in range(2))
    assert (np.bincount(y[one]) == runs.PER_CATEGORY).all()
    assert len(np.unique(one)) == len(one)
    assert not np.array_equal(one, two)
    np.testing.assert_array_equal(one, runs.chosen(102, 0, y))


def test_laps_are_watched_while_a_mixture_learns(runs):
    X = np.random.default_rng(0).normal(size=(60, 2))
    with runs._watched() as trace:
        model = runs.DPMixture(random_state=0).fit(X)
    seconds, counts = zip(*trace, strict=True)
    assert list(seconds) == sorted(seconds)
    assert counts[-1] == model.n_components_
    before = len(trace)
    runs.DPMixture(random_state=0).fit(X)
    assert len(trace) == before
