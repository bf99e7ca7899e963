"""Checkpoint files: what goes in comes out, and whatever is not sound is refused."""

import hashlib
import importlib.metadata
import io
import json
import os
import stat
import tempfile
import threading
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from everlearn.core.errors import CheckpointError
from everlearn.runtime.store import checkpoint as module
from everlearn.runtime.store import header as header_module
from everlearn.runtime.store import read_checkpoint, write_checkpoint

DTYPES = ["float64", "float32", "int64", "int32", "uint8", "bool", "<U5"]
SHAPES = [(), (0,), (3, 0), (7,), (2, 3, 4)]
posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.evl"


@pytest.fixture
def small(path):
    """A small sound file."""
    write_checkpoint(path, {"step": 3}, {"x": np.arange(6.0).reshape(2, 3), "y": np.array([True])})
    return path


def assert_same(arrays, expected):
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert arrays[name].dtype == array.dtype.newbyteorder("<")
        assert arrays[name].shape == array.shape
        # Bytes, so that NaN equals NaN and -0.0 differs from 0.0.
        assert arrays[name].tobytes() == array.astype(arrays[name].dtype).tobytes()


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


BAD_NAMES = ["", "../x", "a/../x", "/x", "a//b", "a/", "a\\b", "C:x", "x\n", ".x", "é", "x" * 201]


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


def test_directory_is_not_replaced(tmp_path):
    with pytest.raises(CheckpointError, match="not a regular file"):
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
            read_checkpoint(path)
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


# Damage


def is_refused(path, content):
    """Whether a file with this content is refused by name; another exception passes through."""
    path.write_bytes(content)
    try:
        read_checkpoint(path)
    except CheckpointError as error:
        return str(path) in str(error)
    return False


def test_every_bit_matters(small):
    sound = small.read_bytes()
    for position in range(len(sound)):
        for bit in range(8):
            damaged = bytearray(sound)
            damaged[position] ^= 1 << bit
            assert is_refused(small, damaged), (position, bit)


def test_every_truncation_is_found(small):
    sound = small.read_bytes()
    for length in range(len(sound)):
        assert is_refused(small, sound[:length]), length


def mutated(data, rng):
    """The bytes with one random damage, which may happen to change nothing."""
    out = bytearray(data)
    start, other = (int(i) for i in rng.integers(0, len(data), size=2))
    length = int(rng.integers(1, 200))
    match int(rng.integers(6)):
        case 0:
            for position in rng.integers(0, len(data), size=rng.integers(1, 9)):
                out[position] ^= 1 << int(rng.integers(8))
        case 1:
            del out[start:]
        case 2:
            a, b = (64 * (i // 64) for i in (start, other))
            out[a : a + 64], out[b : b + 64] = data[b : b + 64], data[a : a + 64]
        case 3:
            out[start : start + length] = bytes(len(out[start : start + length]))
        case 4:
            out[start:start] = rng.bytes(length)
        case 5:
            out += rng.bytes(length)
    return bytes(out)


@pytest.fixture
def medium(path):
    rng = np.random.default_rng(1)
    arrays = {"mean": rng.normal(size=(5, 4)), "ids": np.arange(5), "words": np.array(["a", "bc"])}
    write_checkpoint(path, {"seed": 17, "journal": [["merge", 1, 2]]}, arrays)
    return path


def test_ten_thousand_damaged_files_are_refused(medium):
    sound = medium.read_bytes()
    rng = np.random.default_rng(2)
    n_refused = 0
    while n_refused < 10_000:
        damaged = mutated(sound, rng)
        if damaged == sound:
            continue
        assert is_refused(medium, damaged), damaged
        n_refused += 1


def test_damage_under_a_valid_seal_raises_nothing_else(medium):
    """With the seal recomputed, every other check stands alone."""
    sound = medium.read_bytes()
    expected = read_checkpoint(medium)
    rng = np.random.default_rng(3)
    n_refused = 0
    for _ in range(3000):
        damaged = bytearray(sound[:-64])
        for position in rng.integers(0, len(damaged), size=rng.integers(1, 4)):
            damaged[position] ^= 1 << int(rng.integers(8))
        medium.write_bytes(resealed(bytes(damaged) + sound[-64:]))
        try:
            read = read_checkpoint(medium)
        except CheckpointError:
            n_refused += 1
        else:
            assert_same(read.arrays, expected.arrays)
    assert n_refused > 2000


@pytest.mark.parametrize("name", ["x", "y"])
def test_message_names_file_and_damaged_member(small, name):
    with zipfile.ZipFile(small) as archive:
        member = archive.read(f"{name}.npy")
    damaged = member[:-1] + bytes([member[-1] ^ 1])
    small.write_bytes(small.read_bytes().replace(member, damaged))
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(small)
    assert str(small) in str(caught.value)
    assert f"'{name}.npy'" in str(caught.value)
    assert "does not match its seal" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00" * 4096, b"PK\x03\x04", b"text " * 99],
    ids=["empty", "zero", "pk", "text"],
)
def test_foreign_file(path, content):
    assert is_refused(path, content)


def test_foreign_zip(path):
    np.savez(path.with_suffix(".npz"), a=np.zeros(3))
    with pytest.raises(
        CheckpointError, match=r"model\.npz.*does not end with a seal.*'header\.json' is missing"
    ):
        read_checkpoint(path.with_suffix(".npz"))


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_checkpoint(tmp_path / "absent.evl")


@posix_only
def test_pipe_does_not_hang(path):
    os.mkfifo(path)
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_checkpoint(path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is closed to root")
def test_file_that_may_not_be_opened(small):
    small.chmod(0)
    with pytest.raises(PermissionError):
        read_checkpoint(small)


# Forgery: files whose seal and digests are right, and which lie all the same


def resealed(data):
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def unpack(path):
    """Header document and member bytes of a sound file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("header.json")), members


def encode(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def forge(path, head, members, *, tamper=lambda archive: None, **options):
    """Write a file from parts, seal it, and let `tamper` alter the zip directory."""
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if head is not None:
            archive.writestr("header.json", head)
        tamper(archive)
        archive.comment = b"everlearn-sha256:" + b"0" * 64
    path.write_bytes(resealed(path.read_bytes()))


def with_member(document, members, content, name="x", **row):
    """Replace or add a member, with its right digest in the table."""
    members[f"{name}.npy"] = content
    known = document["members"].get(name, {"dtype": "<f8", "shape": [2, 3]})
    document["members"][name] = {**known, **row, "sha256": hashlib.sha256(content).hexdigest()}


def refuse(path, message):
    with pytest.raises(CheckpointError, match=message) as caught:
        read_checkpoint(path)
    assert str(path) in str(caught.value)
    assert "seal" not in str(caught.value)  # or the forgery was not a good one
    return str(caught.value)


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
    ("row", "message"),
    [
        ({"shape": [3, 2]}, "must begin with"),
        ({"dtype": "<i8"}, "must begin with"),
        ({"shape": [6]}, "must begin with"),
        ({"dtype": "<f4"}, "must have 152 bytes"),
        ({"shape": [2, 4]}, "must have 192 bytes"),
        ({"shape": [2**50]}, "must have .* bytes"),
        ({"shape": [2**62, 2**62]}, "no array can have"),
        ({"shape": [0, 2**63]}, "no array can have"),
        ({"shape": [10**4000] * 64}, "no array can have"),
        ({"shape": [1] * 65}, "list of at most 64 lengths"),
        ({"shape": [9] * 10**6}, "list of at most 64 lengths"),
        ({"shape": [-2, -3]}, "list of at most 64 lengths"),
        ({"shape": [2.0, 3.0]}, "list of at most 64 lengths"),
        ({"shape": [True, 6]}, "list of at most 64 lengths"),
        ({"shape": "23"}, "list of at most 64 lengths"),
        ({"dtype": "<c16"}, "dtype must be"),
        ({"dtype": ">f8"}, "dtype must be"),
        ({"dtype": "float64"}, "dtype must be"),
        ({"dtype": "<f8\n"}, "dtype must be"),
        ({"dtype": "<M8[ns]"}, "dtype must be"),
        ({"dtype": "<U0"}, "dtype must be"),
        ({"dtype": "<U999999999"}, "dtype must be"),
        ({"dtype": "<U99999999", "shape": [0]}, "must have 128 bytes"),
        ({"dtype": ["<f8"]}, "dtype must be"),
        ({"sha256": "0" * 64}, "SHA-256 is not that of the table"),
        ({"sha256": None}, "SHA-256 is not that of the table"),
        ({"more": 1}, "must give dtype, sha256 and shape"),
    ],
)
def test_forged_table_row(small, row, message):
    document, members = unpack(small)
    document["members"]["x"].update(row)
    forge(small, encode(document), members)
    text = refuse(small, f"'x.npy'.*{message}")
    assert len(text) < 2000


@pytest.mark.parametrize(
    ("dtype", "size", "item"), [("|b1", 1, b"\x02"), ("<U1", 4, b"\x00\x00\x11\x00")]
)
def test_forged_items(small, dtype, size, item):
    write_checkpoint(small, {}, {"x": np.zeros(3, dtype)})
    document, members = unpack(small)
    with_member(document, members, members["x.npy"][:-size] + item)
    forge(small, encode(document), members)
    refuse(small, "'x.npy' holds bytes that are no")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"format": "other"}, "does not say 'format': 'everlearn'"),
        ({"format_version": 0}, "format_version must be 1 or more, got 0"),
        ({"format_version": True}, "format_version must be 1 or more, got True"),
        ({"format_version": 1.0}, "format_version must be 1 or more, got 1.0"),
        ({"format_version": "1"}, "format_version must be 1 or more, got '1'"),
        ({"code": "os.system"}, "must hold .* got .*'code'"),
        ({"members": []}, "must be objects"),
        ({"model": []}, "must be objects"),
        ({"model": {"a": float("nan")}}, "not strict JSON"),
    ],
)
def test_forged_header_entry(small, entry, message):
    document, members = unpack(small)
    forge(small, encode({**document, **entry}), members)
    refuse(small, f"'header.json'.*{message}")


def test_newer_version_is_refused_by_name(small):
    document, _ = unpack(small)
    forge(small, encode({"format": document["format"], "format_version": 7, "new": []}), {})
    refuse(small, "format version 7, .* up to 1; upgrade everlearn")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"step":3', b'"step":3,"step":3'),
        (b'"step":3', b'"step":NaN'),
        (b'"step":3', b'"step":1e999'),
        (b'"step":3', b'"step": 3'),
        (b'"step":3', b'"step":"\xc3\xa9"'),
        (b'"step":3', b'"step":"\xff"'),
        (b'"step":3', b'"step":' + b"[" * 10**5 + b"]" * 10**5),
        (b'"step":3', b'"step":' + b"1" * 5000),
        (b'"x":{', b'"x":{"dtype":"<f8",'),
        (b'{"format"', b'\xef\xbb\xbf{"format"'),
        (b'"step":3', b'"step":3}'),
    ],
)
def test_forged_json(small, old, new):
    document, members = unpack(small)
    head = encode(document)
    assert head.count(old) == 1
    forge(small, head.replace(old, new), members)
    refuse(small, "'header.json' is not (strict|the) JSON")


@pytest.mark.parametrize("head", [b"", b"null", b"[]", b"{}", b'"everlearn"'])
def test_forged_header_of_another_kind(small, head):
    forge(small, head, {})
    refuse(small, "'header.json'")


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


def test_header_too_large_to_read(small, monkeypatch):
    document, members = unpack(small)
    head = encode({**document, "model": {"a": "x" * 1000}})
    forge(small, head, members)
    monkeypatch.setattr(module, "MAX_HEADER_BYTES", 1000)
    refuse(small, f"'header.json' must have at most 1000 bytes, got {len(head)}")


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
