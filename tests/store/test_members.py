"""The members of a file: arrays that can be stored, and files that lie about them."""

import io
import threading
import tracemalloc
import zipfile

import numpy as np
import pytest

from everlearn.store.archive import read_checkpoint, write_checkpoint
from support.store_files import (
    BAD_NAMES,
    DTYPES,
    SHAPES,
    assert_same,
    encode,
    forge,
    refuse,
    resealed,
    sample,
    unpack,
    with_member,
)

# What goes in comes out, or is refused


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


# Forgery: the seal and the digests are right, and the members lie


def test_honest_forgery_is_read(small):
    expected = read_checkpoint(small)
    document, members = unpack(small)
    forge(small, encode(document), members)
    assert read_checkpoint(small).header == expected.header
    assert_same(read_checkpoint(small).arrays, expected.arrays)


class Trap:
    """Says so when it is unpickled."""

    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


def pickled_npy():
    content = io.BytesIO()
    np.save(content, np.array([Trap()], dtype=object), allow_pickle=True)
    return content.getvalue()


@pytest.mark.parametrize("dtype", ["|O", "<f8"])
def test_pickle_is_not_opened(small, dtype):
    document, members = unpack(small)
    content = pickled_npy()
    n_floats = -(-(len(content) - 128) // 8)
    content = content.ljust(128 + 8 * n_floats, b"\0")
    with_member(document, members, content, dtype=dtype, shape=[n_floats])
    forge(small, encode(document), members)
    refuse(small, "'x.npy'.*(dtype must be bool|must begin with)")
    assert not Trap.sprung
    np.load(io.BytesIO(content), allow_pickle=True)
    assert Trap.sprung  # the trap was a real one
    Trap.sprung = False


@pytest.mark.parametrize("name", BAD_NAMES)
def test_forged_name(small, name):
    document, members = unpack(small)
    with_member(document, members, members["x.npy"], name=name)
    forge(small, encode(document), members)
    refuse(small, "not a name that an array can have")


@pytest.mark.parametrize(
    ("dtype", "size", "item"), [("|b1", 1, b"\x02"), ("<U1", 4, b"\x00\x00\x11\x00")]
)
def test_forged_items(small, dtype, size, item):
    write_checkpoint(small, {}, {"x": np.zeros(3, dtype)})
    document, members = unpack(small)
    with_member(document, members, members["x.npy"][:-size] + item)
    forge(small, encode(document), members)
    refuse(small, "'x.npy' holds bytes that are no")


def test_members_must_be_those_of_the_table(small):
    document, members = unpack(small)
    forge(small, encode(document), {"x.npy": members["x.npy"]})
    refuse(small, r"missing \['y.npy'\], extra \[\]")
    forge(small, encode(document), {**members, "z.npy": b""})
    refuse(small, r"missing \[\], extra \['z.npy'\]")
    forge(small, None, members)
    refuse(small, "'header.json' is missing")


def test_name_does_not_end_at_a_null(small):
    document, members = unpack(small)
    forge(small, encode(document), {"x.npy?more": members["x.npy"], "y.npy": members["y.npy"]})
    small.write_bytes(resealed(small.read_bytes().replace(b"x.npy?more", b"x.npy\0more")))
    refuse(small, r"missing \['x.npy'\], extra \['x.npy\\x00more'\]")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_member_must_not_appear_twice(small):
    document, members = unpack(small)
    forge(
        small,
        encode(document),
        members,
        tamper=lambda archive: archive.writestr("x.npy", members["x.npy"]),
    )
    refuse(small, "'x.npy' appears twice")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_member(small, method):
    document, members = unpack(small)
    forge(small, encode(document), members, compression=method)
    refuse(small, "'x.npy' is compressed")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"file_size": 2**40}, "'x.npy' is compressed"),
        ({"file_size": 2**40, "compress_size": 2**40}, "declare .* bytes, the file has only"),
        ({"file_size": 180, "compress_size": 180}, "'x.npy' must have 176 bytes"),
        ({"flag_bits": 1}, "'x.npy' cannot be read.*encrypted"),
        ({"header_offset": 2**62}, "'x.npy' cannot be read"),
        ({"header_offset": 2**64 - 1}, "'x.npy' cannot be read"),
        ({"header_offset": 100}, "'x.npy' cannot be read"),
        ({"CRC": 0}, "'x.npy' cannot be read.*CRC"),
        ({"extract_version": 99}, "zip archive cannot be read"),
    ],
)
def test_forged_zip_directory(small, changes, message):
    document, members = unpack(small)

    def tamper(archive):
        for name, value in changes.items():
            setattr(archive.getinfo("x.npy"), name, value)

    forge(small, encode(document), members, tamper=tamper)
    refuse(small, message)


def peak_memory(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_bounded_by_the_file(path):
    array = np.zeros(2**21)
    write_checkpoint(path, {}, {"x": array})
    assert array.nbytes <= peak_memory(lambda: read_checkpoint(path)) < array.nbytes + 2**22


def test_lie_about_the_size_allocates_nothing(small):
    document, members = unpack(small)
    document["members"]["x"]["shape"] = [2**27]
    forge(small, encode(document), members)
    assert peak_memory(lambda: refuse(small, "must have")) < 2**22
