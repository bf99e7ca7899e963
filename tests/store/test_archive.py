"""Checkpoint files: what goes in comes out, and an old file stays until the new one is there."""

import hashlib
import importlib.metadata
import io
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
from everlearn.store import header as header_module
from everlearn.store.archive import read_checkpoint, remove_leftovers, write_checkpoint
from support.store_files import BAD_NAMES, assert_same, posix_only, unpack

DTYPES = ["float64", "float32", "int64", "int32", "uint8", "bool", "<U5"]
SHAPES = [(), (0,), (3, 0), (7,), (2, 3, 4)]


# What goes in comes out


def sample(dtype, shape):
    return np.asarray(np.random.default_rng(0).integers(0, 200, size=shape)).astype(dtype)


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


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(24.0).reshape(2, 3, 4)[:, ::-2].T,
        np.arange(5, dtype=">i4"),
        np.broadcast_to(np.float32(2.5), (3, 2)),
        np.array([np.nan, -0.0, np.inf]),
        np.array(["", "naïve", "\U0001f600"]),
    ],
    ids=["fortran", "strided", "big-endian", "broadcast", "not-finite", "unicode"],
)
def test_round_trip_of_any_memory_layout(path, array):
    write_checkpoint(path, {}, {"a": array})
    assert_same(read_checkpoint(path).arrays, {"a": array})


def test_members_are_ordinary_npy_files(path):
    arrays = {
        f"{dtype}/{len(shape)}": sample(dtype, shape) for dtype in DTYPES[:-1] for shape in SHAPES
    }
    write_checkpoint(path, {}, arrays)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for name, array in arrays.items():
            member = io.BytesIO(archive.read(f"{name}.npy"))
            assert_same({"a": np.load(member, allow_pickle=False)}, {"a": array})
            member.seek(0)
            np.lib.format.read_magic(member)
            np.lib.format.read_array_header_1_0(member)
            assert member.tell() % 64 == 0  # as the format asks


def test_large_members_use_zip64(path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    write_checkpoint(path, {}, {"a": np.arange(99.0)})
    assert b"PK\x06\x06" in path.read_bytes()
    assert_same(read_checkpoint(path).arrays, {"a": np.arange(99.0)})


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


def test_header_tells_format_versions_and_members(path, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"9.9 of {name}")
    write_checkpoint(path, {"k": 1}, {"a": np.zeros((2, 1), np.float32)})
    document, members = unpack(path)
    assert document == {
        "format": "everlearn",
        "format_version": 1,
        "library_version": "9.9 of everlearn",
        "members": {
            "a": {
                "dtype": "<f4",
                "shape": [2, 1],
                "sha256": hashlib.sha256(members["a.npy"]).hexdigest(),
            }
        },
        "model": {"k": 1},
    }


def test_library_that_is_not_installed_has_a_version_too(path, monkeypatch):
    def not_installed(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", not_installed)
    write_checkpoint(path, {}, {})
    assert unpack(path)[0]["library_version"] == "0+unknown"


# What cannot be stored


@pytest.mark.parametrize(
    ("header", "error", "message"),
    [
        ({"a": {"b": [0.0, float("nan")]}}, ValueError, r"header\['a'\]\['b'\]\[1\].*finite.*nan"),
        ({"a": float("-inf")}, ValueError, r"header\['a'\].*-inf"),
        ({"a": np.float64("nan")}, ValueError, r"header\['a'\]"),
        ({"a": (1, 2)}, TypeError, r"header\['a'\].*tuple"),
        ({"a": np.int64(1)}, TypeError, r"header\['a'\].*int64"),
        ({"a": {1: 2}}, TypeError, r"keys of header\['a'\].*got 1"),
        ({1: 2}, TypeError, r"keys of header must be str, got 1"),
    ],
)
def test_header_that_is_not_json(path, header, error, message):
    with pytest.raises(error, match=message):
        write_checkpoint(path, header, {})
    assert not list(path.parent.iterdir())


def test_header_that_contains_itself(path):
    header = {}
    header["a"] = [header]
    with pytest.raises(ValueError, match=r"header\['a'\]\[0\].*deeper than 100"):
        write_checkpoint(path, header, {})


def test_header_too_large_to_write(path, monkeypatch):
    monkeypatch.setattr(header_module, "MAX_HEADER_BYTES", 1000)
    with pytest.raises(ValueError, match="header must fit in 1000 bytes"):
        write_checkpoint(path, {"a": "x" * 1000}, {})
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.array([None]), ValueError),
        (np.array([1 + 2j]), ValueError),
        (np.array(["2020-01-01"], "datetime64[D]"), ValueError),
        (np.zeros(2, [("a", float)]), ValueError),
        (np.array(b"abc"), ValueError),
        (np.array([2], np.uint8).view(bool), ValueError),
        (np.array([0x110000], np.uint32).view("<U1"), ValueError),
        (np.ma.masked_array([1.0, 2.0], [True, False]), TypeError),
        ([1.0, 2.0], TypeError),
        (np.float64(1.0), TypeError),
    ],
)
def test_array_that_cannot_be_stored(path, array, error):
    with pytest.raises(error, match="array 'culprit'"):
        write_checkpoint(path, {}, {"fine": np.zeros(1), "culprit": array})
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize("name", BAD_NAMES)
def test_name_that_an_array_cannot_have(path, name):
    with pytest.raises(ValueError, match="array names must"):
        write_checkpoint(path, {}, {name: np.zeros(1)})


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


def test_array_that_changes_while_it_is_written_gives_a_sound_file(path):
    array = np.zeros(2**21)
    stop = threading.Event()

    def alter():
        while not stop.is_set():
            np.add(array, 1.0, out=array)

    thread = threading.Thread(target=alter)
    thread.start()
    try:
        for _ in range(5):
            write_checkpoint(path, {}, {"a": array})
            assert read_checkpoint(path).arrays["a"].shape == array.shape
    finally:
        stop.set()
        thread.join()


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
