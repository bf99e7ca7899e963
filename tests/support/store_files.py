"""What the tests of the store do with files."""

import hashlib
import json
import os
import zipfile

import pytest

from everlearn.errors import CheckpointError
from everlearn.store.archive import read_checkpoint

BAD_NAMES = ["", "../x", "a/../x", "/x", "a//b", "a/", "a\\b", "C:x", "x\n", ".x", "é", "x" * 201]
posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


def assert_same(arrays, expected):
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert arrays[name].dtype == array.dtype.newbyteorder("<")
        assert arrays[name].shape == array.shape
        # Bytes, so that NaN equals NaN and -0.0 differs from 0.0.
        assert arrays[name].tobytes() == array.astype(arrays[name].dtype).tobytes()


def is_refused(path, content):
    """Whether a file with this content is refused by name; another exception passes through."""
    path.write_bytes(content)
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
