"""Checkpoint files: a JSON header and named arrays in one safe, checked file.

An ``.evl`` file is an uncompressed zip of ``header.json`` and one ``.npy`` member per array.
The header holds the format and its version, the library version, a table of the members
(dtype, shape, SHA-256) and, under ``"model"``, whatever the caller wants to keep. Nothing in
the file names code, and no byte of it is ever unpickled.

The zip comment, which ends the file, seals it with the SHA-256 of all bytes before the digest.
The members' own digests tell *where* a file is damaged; the seal tells *that* it is, even in
a field of the zip format that no reader looks at.

The reader does not interpret where it can compare: ``header.json`` and the ``.npy`` preambles
must be the very bytes that the writer gives for their content.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
import struct
import sys
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from everlearn.core.errors import CheckpointError
from everlearn.runtime.store.header import (
    DTYPE,
    HEADER_NAME,
    JSON,
    MAX_HEADER_BYTES,
    NAME,
    STORABLE,
    MemberRow,
    check_json,
    decode_header,
    encode_header,
)

Array: TypeAlias = npt.NDArray[Any]

_SEAL_MARK = b"everlearn-sha256:"
_DIGEST_LENGTH = 64
_CHUNK = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The content of a checkpoint file.

    Attributes
    ----------
    header : dict
        The header that was given to `write_checkpoint`.
    arrays : dict of str to ndarray
        The arrays by name: C-ordered, little-endian, writable, each with its own memory.
    """

    header: dict[str, JSON]
    arrays: dict[str, Array]


def write_checkpoint(
    path: str | os.PathLike[str], header: Mapping[str, JSON], arrays: Mapping[str, Array]
) -> None:
    """Write a checkpoint, replacing the file at `path` in one step.

    The same content always gives the same bytes. A reader sees the old file or the new one,
    never a mixture; after a failure or a crash the old one is still there. A process that is
    killed may leave a file ``.*.evl.tmp`` behind, which can be deleted.

    Parameters
    ----------
    path : str or path-like
        The file to write. A symbolic link is followed, so the link survives.
    header : mapping of str to JSON
        None, bool, int, finite float, str, and lists and dicts of these; no tuples, since
        they would come back as lists.
    arrays : mapping of str to ndarray
        Bool, integers or floats of at most 64 bits, or fixed-width unicode. Names are words
        of letters, digits, ``_``, ``-`` and ``.``, joined by ``/``.

    Raises
    ------
    TypeError, ValueError
        If a header entry or an array cannot be stored; the message names it.
    CheckpointError
        If there is something at `path` that is not a regular file.
    OSError
        If the disk fails. Where the very last step fails, the sync of the directory, the new
        file is in place and complete, but may not survive a power cut.
    """
    target = os.path.realpath(path)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise CheckpointError(f"cannot write checkpoint {target!r}: it is not a regular file")
    check_json(dict(header), "header", 0)
    members = {name: _storable(name, array) for name, array in arrays.items()}
    with _replacement(target) as file:
        _write_archive(file, header, members)
        sealed_bytes = file.seek(-_DIGEST_LENGTH, os.SEEK_END)
        seal = _sha256_of_start(file, sealed_bytes)
        file.seek(sealed_bytes)
        file.write(seal)


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint and check every byte of it.

    Time and memory are bounded by the size of the file, whatever the file claims.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    Checkpoint
        Header and arrays, exactly as they were written.

    Raises
    ------
    CheckpointError
        If the file is damaged, is not a checkpoint, or has a newer format version. The
        message names the file, the member where there is one, and the fault.
    OSError
        If the file does not exist or cannot be opened.
    """
    name = os.fspath(path)
    if not stat.S_ISREG(os.stat(name).st_mode):
        raise CheckpointError(f"cannot read checkpoint {name!r}: it is not a regular file")
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        faults = _seal_faults(file, size)
        try:
            checkpoint = _read_archive(file, size)
        except CheckpointError as error:
            faults.append(str(error))
    if faults:
        # Cut, since a forged file can put long names into it.
        raise CheckpointError(f"cannot read checkpoint {name!r}: {'; '.join(faults)[:1000]}")
    return checkpoint


# The arrays


def _storable(name: str, array: object) -> Array:
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
    """Whether bytes stand for a bool, or for characters: not all do."""
    if array.dtype.kind == "b":
        return bool(array.view(np.uint8).max(initial=0) <= 1)
    if array.dtype.kind == "U":
        return bool(array.reshape(-1).view("<u4").max(initial=0) <= sys.maxunicode)
    return True


# The file


def _sha256_of_start(file: BinaryIO, length: int) -> bytes:
    """The hexadecimal SHA-256 of the first `length` bytes."""
    digest = hashlib.sha256()
    file.seek(0)
    while length > 0 and (chunk := file.read(min(_CHUNK, length))):
        digest.update(chunk)
        length -= len(chunk)
    return digest.hexdigest().encode("ascii")


def _seal_faults(file: BinaryIO, size: int) -> list[str]:
    """What is wrong with the seal, at most one thing."""
    sealed_bytes = size - _DIGEST_LENGTH
    if sealed_bytes < len(_SEAL_MARK):
        return [f"the file is empty or cut off, it has {size} bytes"]
    file.seek(sealed_bytes - len(_SEAL_MARK))
    ending = file.read(len(_SEAL_MARK) + _DIGEST_LENGTH)
    if not ending.startswith(_SEAL_MARK):
        return ["the file does not end with a seal: it is cut off, extended or no checkpoint"]
    if ending != _SEAL_MARK + _sha256_of_start(file, sealed_bytes):
        return ["the file is damaged, its SHA-256 does not match its seal"]
    return []


@contextmanager
def _replacement(path: str) -> Iterator[BinaryIO]:
    """A new file, which replaces `path` if the block succeeds and vanishes if it fails."""
    directory = os.path.dirname(path)
    temporary = os.path.join(directory, f".{uuid.uuid4().hex}.evl.tmp")
    with _synced_at_end(directory):
        try:
            # Not tempfile: its files are private, ours follow the umask.
            with open(temporary, "x+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


@contextmanager
def _synced_at_end(directory: str) -> Iterator[None]:
    """Make the names in `directory` durable after the block, where the system can."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_archive(
    file: BinaryIO, header: Mapping[str, JSON], members: Mapping[str, Array]
) -> None:
    """Write the zip, with a place for the seal as its last bytes."""
    table = {}
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in sorted(members.items()):
            preamble = _npy_preamble(array.dtype, array.shape)
            sha256 = _write_member(archive, f"{name}.npy", memoryview(preamble), _raw(array))
            table[name] = MemberRow(array.dtype, array.shape, sha256)
        _write_member(archive, HEADER_NAME, memoryview(encode_header(header, table)))
        archive.comment = _SEAL_MARK + bytes(_DIGEST_LENGTH)


def _write_member(archive: zipfile.ZipFile, name: str, *buffers: memoryview) -> str:
    """Write the buffers, one after the other, as a member; its SHA-256."""
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
        for start in range(0, len(buffer), _CHUNK):
            yield buffer[start : start + _CHUNK]


@contextmanager
def _zip_faults(where: str) -> Iterator[None]:
    """Turn what zipfile raises in the block into `CheckpointError`.

    On broken and forged archives it raises all of these; which one differs between Pythons.
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


def _read_archive(file: BinaryIO, size: int) -> Checkpoint:
    with _zip_faults("the zip archive"):
        archive = zipfile.ZipFile(file)
    with archive:
        entries = _stored_entries(archive, size)
        if HEADER_NAME not in entries:
            raise CheckpointError(f"member {HEADER_NAME!r} is missing")
        entry = entries.pop(HEADER_NAME)
        if entry.file_size > MAX_HEADER_BYTES:
            raise CheckpointError(
                f"member {HEADER_NAME!r} must have at most {MAX_HEADER_BYTES} bytes, "
                f"got {entry.file_size}"
            )
        head = bytearray(entry.file_size)
        _read_member(archive, entry, memoryview(head))
        table, header = decode_header(bytes(head))
        expected = {f"{name}.npy" for name in table}
        if expected != entries.keys():
            raise CheckpointError(
                f"members must be those of the table in {HEADER_NAME!r}: missing "
                f"{sorted(expected - entries.keys())}, extra {sorted(entries.keys() - expected)}"
            )
        arrays = {
            name: _read_array(archive, entries[f"{name}.npy"], row) for name, row in table.items()
        }
    return Checkpoint(header, arrays)


def _stored_entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The entries of the archive, of which all together fit in a file of `size` bytes."""
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.orig_filename
        if name in entries:
            raise CheckpointError(f"member {name!r} appears twice")
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise CheckpointError(f"member {name!r} is compressed, it must be stored")
        entries[name] = entry
    declared = sum(entry.file_size for entry in entries.values())
    if declared > size:
        raise CheckpointError(f"members declare {declared} bytes, the file has only {size}")
    return entries


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, row: MemberRow) -> Array:
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
    sha256 = _read_member(archive, entry, memoryview(preamble), _raw(array))
    if sha256 != row.sha256:
        raise CheckpointError(f"{where} is damaged, its SHA-256 is not that of the table")
    if preamble != expected:
        raise CheckpointError(
            f"{where} must begin with {expected.rstrip()!r}, got {bytes(preamble).rstrip()!r}"
        )
    if not _has_valid_items(array):
        raise CheckpointError(f"{where} holds bytes that are no {row.dtype}")
    return array


def _read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, *buffers: memoryview) -> str:
    """Fill the buffers, one after the other, from a member; its SHA-256."""
    digest = hashlib.sha256()
    with _zip_faults(f"member {entry.orig_filename!r}"), archive.open(entry) as member:
        for part in _parts(buffers):
            part[:] = member.read(len(part))
            digest.update(part)
    return digest.hexdigest()
