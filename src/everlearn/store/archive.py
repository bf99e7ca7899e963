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
import os
import stat
import sys
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

from everlearn.errors import CheckpointError
from everlearn.store.header import (
    HEADER_NAME,
    JSON,
    MAX_HEADER_BYTES,
    check_json,
    decode_header,
    encode_header,
)
from everlearn.store.members import (
    CHUNK,
    Array,
    read_array,
    read_member,
    storable,
    stored_entries,
    write_array,
    write_member,
    zip_errors,
)

_SEAL_MARK = b"everlearn-sha256:"
_DIGEST_LENGTH = 64
_ZIP_MARK = b"PK\x03\x04"
_TEMPORARY = ".evl.tmp"


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
    killed may leave a file ``.*.evl.tmp`` behind; see `remove_leftovers`.

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
        what = "a directory; name a file in it" if os.path.isdir(target) else "not a regular file"
        raise CheckpointError(f"cannot write checkpoint {target!r}: it is {what}")
    check_json(dict(header), "header", 0)
    members = {name: storable(name, array) for name, array in arrays.items()}
    with replacement(target) as file:
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
    mode = os.stat(name).st_mode
    if not stat.S_ISREG(mode):
        what = "a directory; name a file in it" if stat.S_ISDIR(mode) else "not a regular file"
        raise CheckpointError(f"cannot read checkpoint {name!r}: it is {what}")
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        faults = _seal_faults(file, size)
        if _is_foreign(file, size):
            raise CheckpointError(
                f"{name!r} is not an everlearn model: those are files that `save` or `everlearn "
                "learn` wrote, usually with the ending .evl"
            )
        try:
            checkpoint = _read_archive(file, size)
        except CheckpointError as error:
            faults.append(str(error))
    if faults:
        # Cut, since a forged file can put long names into it.
        raise CheckpointError(f"cannot read checkpoint {name!r}: {'; '.join(faults)[:1000]}")
    return checkpoint


def _sha256_of_start(file: BinaryIO, length: int) -> bytes:
    """The hexadecimal SHA-256 of the first `length` bytes."""
    digest = hashlib.sha256()
    file.seek(0)
    while length > 0 and (chunk := file.read(min(CHUNK, length))):
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


def _is_foreign(file: BinaryIO, size: int) -> bool:
    """Whether a file can be no checkpoint, not even a damaged one: no zip, or without a header."""
    file.seek(max(0, size - _DIGEST_LENGTH - len(_SEAL_MARK)))
    if file.read().startswith(_SEAL_MARK):
        return False
    file.seek(0)
    if not _ZIP_MARK.startswith(file.read(len(_ZIP_MARK))):
        return True
    try:  # one that was cut off has lost the directory, which is at the end
        with zip_errors("the zip archive"), zipfile.ZipFile(file) as archive:
            return HEADER_NAME not in archive.namelist()
    except CheckpointError:
        return False


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what killed writers of a checkpoint left behind; only its only writer may call it."""
    directory, name = os.path.split(os.path.realpath(path))
    beginning = _temporary_beginning(name)
    for found in os.listdir(directory):
        if found.startswith(beginning) and found.endswith(_TEMPORARY):
            with suppress(OSError):
                os.unlink(os.path.join(directory, found))


def _temporary_beginning(name: str) -> str:
    """How the names of temporary files begin: of fixed length, and different for every file."""
    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}-"


@contextmanager
def replacement(path: str) -> Iterator[BinaryIO]:
    """A new file, which replaces `path` if the block succeeds and vanishes if it fails."""
    directory, name = os.path.split(path)
    unique = f"{_temporary_beginning(name)}{uuid.uuid4().hex}{_TEMPORARY}"
    temporary = os.path.join(directory, unique)
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
            table[name] = write_array(archive, name, array)
        write_member(archive, HEADER_NAME, memoryview(encode_header(header, table)))
        archive.comment = _SEAL_MARK + bytes(_DIGEST_LENGTH)


def _read_archive(file: BinaryIO, size: int) -> Checkpoint:
    with zip_errors("the zip archive"):
        archive = zipfile.ZipFile(file)
    with archive:
        entries = stored_entries(archive, size)
        if HEADER_NAME not in entries:
            raise CheckpointError(f"member {HEADER_NAME!r} is missing")
        entry = entries.pop(HEADER_NAME)
        # Parsed JSON takes many times the memory of its text, so a large header is refused unread.
        if entry.file_size > MAX_HEADER_BYTES:
            raise CheckpointError(
                f"member {HEADER_NAME!r} must have at most {MAX_HEADER_BYTES} bytes, "
                f"got {entry.file_size}"
            )
        head = bytearray(entry.file_size)
        read_member(archive, entry, memoryview(head))
        table, header = decode_header(bytes(head))
        expected = {f"{name}.npy" for name in table}
        if expected != entries.keys():
            raise CheckpointError(
                f"members must be those of the table in {HEADER_NAME!r}: missing "
                f"{sorted(expected - entries.keys())}, extra {sorted(entries.keys() - expected)}"
            )
        arrays = {
            name: read_array(archive, entries[f"{name}.npy"], row) for name, row in table.items()
        }
    return Checkpoint(header, arrays)
