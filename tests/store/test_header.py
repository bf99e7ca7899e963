"""The header of a file: what JSON can hold, and headers that lie."""

import hashlib
import importlib.metadata

import numpy as np
import pytest

from everlearn.store import archive as archive_module
from everlearn.store import header as header_module
from everlearn.store.archive import write_checkpoint
from support.store_files import encode, forge, refuse, unpack


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


# Forgery: the seal and the digests are right, and the header lies


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


def test_header_too_large_to_read(small, monkeypatch):
    document, members = unpack(small)
    head = encode({**document, "model": {"a": "x" * 1000}})
    forge(small, head, members)
    monkeypatch.setattr(archive_module, "MAX_HEADER_BYTES", 1000)
    refuse(small, f"'header.json' must have at most 1000 bytes, got {len(head)}")
