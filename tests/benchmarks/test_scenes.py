"""The resamples of the scene experiment are what its page says they are, and can be drawn."""

import importlib
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from support.pictures import colours, encoded

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


def test_clusters_of_a_scene_are_drawn(runs, monkeypatch, tmp_path):
    """The last thing that a reproduction of hours does."""
    pytest.importorskip("matplotlib", reason="needs matplotlib, of everlearn[bench]")
    pages, loaders = (
        importlib.import_module(f"benchmarks.{name}") for name in ("scene_pages", "images")
    )
    names = [f"folder {k}/{i}.png" for k in range(11) for i in range(10)]
    with ZipFile(tmp_path / "all.zip", "w") as archive:
        for i, name in enumerate(names):
            archive.writestr(name, encoded(colours(8, 6, i)))
    y, folders = np.repeat(np.arange(11), 10), [f"folder {k}" for k in range(11)]
    photographs = loaders.Photographs(tmp_path / "all.zip", names)
    rows = np.random.default_rng(0).normal(size=(110, 11)) + 40 * np.eye(11)[y]
    scene = runs.Scene("CNN", 10, 0)
    chosen = runs.chosen(10, 0, y)
    monkeypatch.setattr(runs.Scene, "load", lambda self: (rows[chosen], y[chosen]))
    monkeypatch.setattr(pages, "caltech", lambda: loaders.Images(photographs, y, folders, names))
    monkeypatch.setattr(pages, "KEPT", tmp_path)
    monkeypatch.setattr(importlib.import_module("benchmarks.figures"), "IMAGES", tmp_path)
    growth = {"full": [(0.1, 1), (0.2, 10)]}
    pages.write_sheets(scene, "diagonal, shared", growth, "clusters")
    assert (tmp_path / "clusters.png").stat().st_size > 1000
    written = pages.sheets_page(scene).read_text()
    assert "100 images of 10 categories, in clusters" in written
    shown = {folder for folder in folders if f"{folder}, certainty" in written}
    assert shown == {folders[k] for k in y[chosen]}
