"""Checkpoint files: what goes in comes out, and an old file stays until the new one is there."""

import hashlib
import importlib.metadata
import os
import stat
import tempfile
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from everlearn.errors import CheckpointError
from everlearn.store.archive import read_checkpoint, remove_leftovers, write_checkpoint
from support.store_files import DTYPES, SHAPES, assert_same, posix_only, sample

# What goes in comes out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(path, dtype, shape):
    array = sample(dtype, shape)
    write_checkpoint(path, {}, {"a": array})
    read = read_checkpoint(path).arrays["a"]
    assert_same({"a": read}, {"a": array})
    assert read.flags.c_contiguous
    assert read.flags.writeable


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
scalars = st.sampled_from(["<f8", ">f8", "<f4", "<i8", "<i4", "u1", "?", "<U3"])
plain_arrays = scalars.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
)


@given(
    st.dictionaries(st.text(), json_values, max_size=4),
    st.dictionaries(st.from_regex(r"[a-z_]{1,6}(/[a-z0-9]{1,3})?", fullmatch=True), plain_arrays),
)
def test_round_trip_of_anything(header, arrays):
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder, "a.evl"), header, arrays)
        read = read_checkpoint(Path(folder, "a.evl"))
    assert repr(read.header) == repr(sorted_deeply(header))
    assert_same(read.arrays, arrays)


def sorted_deeply(value):
    """Dicts in the order of their keys; by repr, -0.0 and 0.0, 1 and True differ."""
    if isinstance(value, dict):
        return {key: sorted_deeply(value[key]) for key in sorted(value)}
    return [sorted_deeply(item) for item in value] if isinstance(value, list) else value


# The bytes of the file


def test_same_content_gives_same_bytes(tmp_path):
    first, second = tmp_path / "first.evl", tmp_path / "second.evl"
    a, b = np.arange(6.0).reshape(2, 3), np.array([1])
    write_checkpoint(first, {"k": 1, "j": {"v": 2, "u": 3}}, {"a": a, "b": b})
    write_checkpoint(second, {"j": {"u": 3, "v": 2}, "k": 1}, {"b": b, "a": np.asfortranarray(a)})
    assert first.read_bytes() == second.read_bytes()


def test_bytes_of_version_1_are_frozen(path, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.2.3")
    write_checkpoint(path, {"é": [1.5, None]}, {"s/a": np.array(["b", "cd"]), "n": np.array(7)})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == "69db656201f68085b6c2cafedef15fe9f987b59056f6da91344ba5cb572e0d8c"


# Replacing a file


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_failure_leaves_the_old_file(small, monkeypatch, function, error):
    before = small.read_bytes()

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with pytest.raises(type(error)):
            write_checkpoint(small, {}, {"z": np.zeros(9)})
    assert small.read_bytes() == before
    assert list(small.parent.iterdir()) == [small]


def test_failure_in_the_middle_leaves_the_old_file(small, monkeypatch):
    before = small.read_bytes()
    original = zipfile.ZipFile.open

    def fail_at_header(self, entry, *args, **kwargs):
        if entry.filename == "header.json":
            assert len(list(small.parent.iterdir())) == 2  # the half-written file is there
            raise OSError("disk full")
        return original(self, entry, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "open", fail_at_header)
        with pytest.raises(OSError, match="disk full"):
            write_checkpoint(small, {}, {"z": np.zeros(9)})
    assert small.read_bytes() == before
    assert list(small.parent.iterdir()) == [small]


@posix_only
def test_failure_to_sync_the_directory_is_told_and_leaves_a_sound_file(small, monkeypatch):
    original = os.fsync

    def fail_at_directory(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError("no sync")
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fail_at_directory)
    with pytest.raises(OSError, match="no sync"):
        write_checkpoint(small, {"step": 4}, {})
    assert read_checkpoint(small).header == {"step": 4}
    assert list(small.parent.iterdir()) == [small]


@posix_only
def test_permissions_follow_the_umask(path):
    before = os.umask(0o027)
    try:
        write_checkpoint(path, {}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix_only
def test_link_survives(tmp_path, path):
    link = tmp_path / "latest.evl"
    link.symlink_to(path)
    write_checkpoint(link, {"step": 1}, {})
    assert link.is_symlink()
    assert read_checkpoint(path).header == {"step": 1}


def test_leftovers_of_killed_writers_can_be_removed(tmp_path, monkeypatch):
    path, other = tmp_path / "m.evl", tmp_path / "other.evl"
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", lambda path: None)  # a killed writer removes nothing
        patch.setattr(os, "replace", lambda *paths: 1 / 0)
        for target in (path, other):
            with pytest.raises(ZeroDivisionError):
                write_checkpoint(target, {}, {})
    assert len(list(tmp_path.iterdir())) == 2
    remove_leftovers(path)
    (left,) = tmp_path.iterdir()
    remove_leftovers(other)
    assert not left.exists()


def test_directory_is_not_replaced(tmp_path):
    with pytest.raises(CheckpointError, match="it is a directory; name a file in it"):
        write_checkpoint(tmp_path, {}, {})


def test_folder_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_checkpoint(tmp_path / "absent" / "a.evl", {}, {})


def test_readers_never_see_a_mixture(path):
    """Each file holds one number everywhere; a torn read would hold two, or be refused."""

    def write(step):
        arrays = {name: np.full(2000, step) for name in "abc"}
        write_checkpoint(path, {"step": step}, arrays)

    done, failures, n_reads = threading.Event(), [], [0] * 4

    def read(reader):
        try:
            while not done.is_set():
                read = read_checkpoint(path)
                for array in read.arrays.values():
                    assert (array == read.header["step"]).all()
                n_reads[reader] += 1
        except Exception as error:
            failures.append(error)

    write(0)
    threads = [threading.Thread(target=read, args=(reader,)) for reader in range(len(n_reads))]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 2
    step = 0
    while step < 200 and time.monotonic() < end:
        step += 1
        write(step)
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert min(n_reads) > 0
    assert read_checkpoint(path).header == {"step": step}
