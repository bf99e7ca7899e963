"""What the tests of the store do with files."""

import hashlib
import json
import os
import zipfile

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.store.archive import read_checkpoint

BAD_NAMES = ["", "../x", "a/../x", "/x", "a//b", "a/", "a\\b", "C:x", "x\n", ".x", "é", "x" * 201]
DTYPES = ["float64", "float32", "int64", "int32", "uint8", "bool", "<U5"]
SHAPES = [(), (0,), (3, 0), (7,), (2, 3, 4)]
posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


def sample(dtype, shape):
    return np.asarray(np.random.default_rng(0).integers(0, 200, size=shape)).astype(dtype)


def assert_same(arrays, expected):
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert arrays[name].dtype == array.dtype.newbyteorder("<")
        assert arrays[name].shape == array.shape
        # Bytes, so that NaN equals NaN and -0.0 differs from 0.0.
        assert arrays[name].tobytes() == array.astype(arrays[name].dtype).tobytes()


def overwrite(path, content):
    """Put other bytes into a file. Emptying it first would make some file systems wait for disk."""
    with open(path, "r+b" if path.exists() else "wb") as file:
        file.write(content)
        file.truncate()


def is_refused(path, content):
    """Whether a file with this content is refused by name; another exception passes through."""
    overwrite(path, content)
    try:
        read_checkpoint(path)
    except CheckpointError as error:
        return str(path) in str(error)
    return False


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
