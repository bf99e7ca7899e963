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
