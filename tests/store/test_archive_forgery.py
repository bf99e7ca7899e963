"""Forgery: files whose seal and digests are right, and which lie all the same."""

import hashlib
import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.store import archive as module
from everlearn.store.archive import read_checkpoint, write_checkpoint
from support.store_files import BAD_NAMES, assert_same, resealed, unpack


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
