"""The loaders of images read what is in the files, one image at a time."""

import importlib
import os
from pathlib import Path

import numpy as np
import pytest

from support.pictures import colours, encoded

ROOT = Path(__file__).resolve().parents[2]
PHOTOS = [colours(8, 6, seed) for seed in range(4)]


@pytest.fixture
def loaders(monkeypatch):
    pytest.importorskip("pyarrow", reason="needs pyarrow, which comes with everlearn[bench]")
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.images")


@pytest.fixture
def small(loaders, monkeypatch, tmp_path):
    """The loaders over four images of two categories."""
    import pyarrow as pa
    from pyarrow import parquet

    files = [encoded(photo) for photo in PHOTOS]
    names = [f"{i}.jpg" for i in range(4)]
    faces = pa.table({"file": names, "jpeg": files})
    parquet.write_table(faces, tmp_path / "faces_easy.parquet")
    sample = pa.table({"category": ["b", "a", "b", "a"], "file": names, "jpeg": files})
    parquet.write_table(sample, tmp_path / "caltech101_sample.parquet")
    monkeypatch.setattr(loaders, "HOME", tmp_path)
    monkeypatch.setattr(loaders, "UNPACKED", tmp_path / "unpacked")
    return loaders


def test_faces_are_read_in_order(small):
    assert len(small.faces()) == 4
    two = small.faces(2)
    assert two.names == ["0.jpg", "1.jpg"]
    assert two.labels == ["Faces_easy"]
    for photo, expected in zip(two.photographs, PHOTOS, strict=False):
        np.testing.assert_array_equal(photo, expected)


def test_categories_become_labels(small):
    found = small.caltech()
    assert [found.labels[i] for i in found.y] == ["b", "a", "b", "a"]
    assert found.names[1] == "a/1.jpg"


def test_some_can_be_chosen(small):
    found = small.caltech().chosen(np.array([3, 0]))
    assert found.y.tolist() == [0, 1]
    assert found.names == ["a/3.jpg", "b/0.jpg"]
    np.testing.assert_array_equal(found.photographs[0], PHOTOS[3])
    assert len(found.photographs[1:]) == 1


def test_archives_are_made_once_and_anew_when_the_file_is_newer(small, tmp_path):
    small.faces()
    archive = tmp_path / "unpacked" / "faces_easy.zip"
    made = archive.stat().st_mtime_ns
    small.faces()
    assert archive.stat().st_mtime_ns == made
    os.utime(tmp_path / "faces_easy.parquet", ns=(made + 10**9, made + 10**9))
    small.faces()
    assert archive.stat().st_mtime_ns > made
    assert [path.name for path in (tmp_path / "unpacked").iterdir()] == ["faces_easy.zip"]


@pytest.mark.data("caltech101")
def test_the_shared_images_are_there(loaders):
    faces, sample = loaders.faces(), loaders.caltech()
    assert (len(faces), faces.photographs[434].shape) == (435, (200, 160, 3))
    assert len(sample) == 3060
    assert np.bincount(sample.y).tolist() == [30] * 102
    assert min(sample.photographs[17].shape[:2]) == 128
