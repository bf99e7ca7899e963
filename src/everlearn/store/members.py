"""The members of a checkpoint file: arrays as ``.npy`` files, stored and hashed in a zip."""

from __future__ import annotations

import hashlib
import math
import stat
import struct
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from everlearn.errors import CheckpointError
from everlearn.store.header import DTYPE, NAME, STORABLE, MemberRow

Array: TypeAlias = npt.NDArray[Any]
CHUNK = 2**20
"""Bytes that are hashed and written together."""


def storable(name: str, array: object) -> Array:
    """The array in C order and little-endian, if it can be stored."""
    if not NAME.fullmatch(name):
        raise ValueError(
            "array names must be words of letters, digits, '_', '-' and '.', joined by '/', "
            f"of at most 200 characters, got {name!r}"
        )
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"array {name!r} must be a plain ndarray, got {type(array)}")
    dtype = array.dtype.newbyteorder("<")
    if not DTYPE.fullmatch(dtype.str):
        raise ValueError(f"array {name!r} must be {STORABLE}, got dtype {array.dtype}")
    plain = np.asarray(array, dtype=dtype, order="C")
    if not _has_valid_items(plain):
        raise ValueError(f"array {name!r} holds bytes that are no {array.dtype}")
    return plain


def _npy_preamble(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Everything before the data in a ``.npy`` file of version 1.0, padded to 64 bytes."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
    padding = -(10 + len(text) + 1) % 64
    line = text.encode("ascii") + b" " * padding + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(line)) + line


def _raw(array: Array) -> memoryview:
    """The memory of a C-ordered array, as bytes."""
    return array.reshape(-1).view(np.uint8).data


def _has_valid_items(array: Array) -> bool:
    """Whether all bytes of a bool or text array are valid. Other arrays always are."""
    if array.dtype.kind == "b":
        return bool(array.view(np.uint8).max(initial=0) <= 1)
    if array.dtype.kind == "U":
        return bool(array.reshape(-1).view("<u4").max(initial=0) <= sys.maxunicode)
    return True


def write_array(archive: zipfile.ZipFile, name: str, array: Array) -> MemberRow:
    """Write a storable array as a member. Return its row of the table of members."""
    preamble = _npy_preamble(array.dtype, array.shape)
    sha256 = write_member(archive, f"{name}.npy", memoryview(preamble), _raw(array))
    return MemberRow(array.dtype, array.shape, sha256)


def read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, row: MemberRow) -> Array:
    """Read the array of a member. Raise `CheckpointError` if it differs from its row."""
    where = f"member {entry.orig_filename!r}"
    expected = _npy_preamble(row.dtype, row.shape)
    size = len(expected) + math.prod(row.shape) * row.dtype.itemsize
    if entry.file_size != size:
        raise CheckpointError(
            f"{where} must have {size} bytes for {row.dtype} and shape {row.shape}, "
            f"got {entry.file_size}"
        )
    preamble = bytearray(len(expected))
    array = np.empty(row.shape, row.dtype)
    sha256 = read_member(archive, entry, memoryview(preamble), _raw(array))
    if sha256 != row.sha256:
        raise CheckpointError(f"{where} is damaged, its SHA-256 is not that of the table")
    if preamble != expected:
        raise CheckpointError(
            f"{where} must begin with {expected.rstrip()!r}, got {bytes(preamble).rstrip()!r}"
        )
    if not _has_valid_items(array):
        raise CheckpointError(f"{where} holds bytes that are no {row.dtype}")
    return array


def write_member(archive: zipfile.ZipFile, name: str, *buffers: memoryview) -> str:
    """Write the buffers, one after the other, as a member. Return its SHA-256."""
    entry = zipfile.ZipInfo(name)  # stored, dated 1980
    entry.create_system = 3  # Unix, wherever we are
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    entry.file_size = sum(len(buffer) for buffer in buffers)
    digest = hashlib.sha256()
    with archive.open(entry, "w") as member:
        for part in _parts(buffers):
            # Another thread may alter the array: what is hashed must be what is written.
            snapshot = bytes(part)
            member.write(snapshot)
            digest.update(snapshot)
    return digest.hexdigest()


def _parts(buffers: tuple[memoryview, ...]) -> Iterator[memoryview]:
    for buffer in buffers:
        for start in range(0, len(buffer), CHUNK):
            yield buffer[start : start + CHUNK]


def read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, *buffers: memoryview) -> str:
    """Fill the buffers, one after the other, from a member. Return its SHA-256."""
    digest = hashlib.sha256()
    with zip_errors(f"member {entry.orig_filename!r}"), archive.open(entry) as member:
        for part in _parts(buffers):
            part[:] = member.read(len(part))
            digest.update(part)
    return digest.hexdigest()


@contextmanager
def zip_errors(where: str) -> Iterator[None]:
    """Turn the errors of zipfile in the block into `CheckpointError`.

    A broken archive may raise any of these, depending on the version of Python.
    """
    try:
        yield
    except (
        zipfile.BadZipFile,
        struct.error,
        OverflowError,
        RuntimeError,
        ValueError,
        EOFError,
        OSError,
    ) as error:
        raise CheckpointError(f"{where} cannot be read: {error!r}") from error


def stored_entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The entries of an archive of `size` bytes, by name.

    Raises `CheckpointError` if an entry is compressed or comes twice, or if entries are too large.
    """
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.orig_filename
        if name in entries:
            raise CheckpointError(f"member {name!r} appears twice")
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise CheckpointError(f"member {name!r} is compressed, it must be stored")
        entries[name] = entry
    # A forger can write any sizes into the zip directory, and arrays are allocated before they are
    # read. Without this sum a small file could ask for terabytes, or overlap its members.
    declared = sum(entry.file_size for entry in entries.values())
    if declared > size:
        raise CheckpointError(f"members declare {declared} bytes, the file has only {size}")
    return entries
