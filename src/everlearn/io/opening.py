"""Open sources by their names: files, folders, and standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import BinaryIO, Final

from everlearn.errors import SourceError
from everlearn.io.dialects import AS_SHOWN, Writing
from everlearn.io.folders import FolderSource, files_below
from everlearn.io.formats import (
    ARRAYS,
    DATA,
    IMAGES,
    LINES,
    PARQUET,
    TEXTS,
    LineFormat,
    ending_of,
    is_packed,
)
from everlearn.io.ledger import MAX_SOURCES
from everlearn.io.lines import LineSource, PipeSource
from everlearn.io.sources import STDIN, Source
from everlearn.io.splitter import BLOCK
from everlearn.io.tables import ArraySource, ParquetSource

if sys.platform == "linux":
    import fcntl

_PACKED: Final = frozenset({"zip", "bz2", "xz", "zst", "7z", "tar", "tgz", "lz4"})
_SHEETS: Final = frozenset({"xlsx", "xls", "xlsm", "ods", "numbers"})
_FETCH: Final = {
    "http": "curl -fsSL '{}'",
    "https": "curl -fsSL '{}'",
    "s3": "aws s3 cp '{}' -",
    "gs": "gcloud storage cat '{}'",
}
"""Commands that print what is at an address."""


def open_sources(
    names: Iterable[str],
    *,
    stdin_format: LineFormat = "jsonl",
    label: str = "label",
    writing: Writing = AS_SHOWN,
) -> list[Source]:
    """The sources with these names, in order. A folder of data files stands for all its files.

    Parameters
    ----------
    names : paths of files and folders, or "-" for standard input
    stdin_format : format of the lines of standard input
    label : the field that gets the labels of ``.npz`` files
    writing : encoding of texts, and decimal mark of numbers in them
    """
    sources: list[Source] = []
    for name in names:
        if name == STDIN:
            sources.append(PipeSource(_standard_input(), stdin_format, writing))
        elif not os.path.exists(name):
            raise SourceError(_why_missing(name))
        elif os.path.isdir(name):
            sources += _of_folder(os.path.normpath(name), label, writing)
        else:
            sources.append(_of_file(os.path.normpath(name), label, writing))
    spellings: dict[str, list[str]] = {}
    for source in sources:
        spellings.setdefault(os.path.realpath(source.name), []).append(source.name)
    if doubled := sorted(names for names in spellings.values() if len(names) > 1):
        raise SourceError(f"give each source once, got the same one twice: {doubled[0]}")
    if len(sources) > MAX_SOURCES:
        raise SourceError(f"give at most {MAX_SOURCES:,} files, got {len(sources):,}")
    return sources


def has_texts(source: Source) -> bool:
    """Whether a source is read as text, in some encoding."""
    is_folder = isinstance(source, FolderSource) and bool(source.endings & TEXTS)
    return is_folder or isinstance(source, (LineSource, PipeSource))


def _why_missing(name: str) -> str:
    """Why there is no such source, and how to learn from an address on a network."""
    scheme, mark, rest = name.partition("://")
    if not mark:
        return f"there is no file or folder {name!r}"
    if scheme == "file":
        return f"{name!r} is an address; give the path {rest!r}"
    problem = f"{name!r} is an address, and everlearn reads files and pipes"
    path = rest.partition("?")[0]
    if scheme not in _FETCH or ending_of(path) not in LINES:
        return f"{problem}. Download it first"
    unpacked = " | gunzip" if is_packed(path) else ""
    return (
        f"{problem}. Download it, or pipe it: {_FETCH[scheme].format(name)}{unpacked} | "
        f"everlearn learn MODEL - --format {LINES[ending_of(path)]}"
    )


def _standard_input() -> BinaryIO:
    """Standard input without a buffer, so that reading returns what has come so far."""
    if sys.platform == "linux":
        with suppress(OSError):  # it is no pipe
            # A pipe that holds a whole block is read in few large pieces, which is faster.
            fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, BLOCK)
    return open(0, "rb", buffering=0, closefd=False)


def _of_file(name: str, label: str, writing: Writing, folder: str | None = None) -> Source:
    ending = ending_of(name)
    if ending in LINES:
        return LineSource(name, format=LINES[ending], writing=writing)
    if ending in ARRAYS:
        return ArraySource(name, label=label)
    if ending in PARQUET:
        return ParquetSource(name, folder=folder)
    if ending in TEXTS | IMAGES:
        raise SourceError(
            f"{name!r} is a single {'image' if ending in IMAGES else 'text'}. Give the folder that "
            "holds it, in which each file is a record"
        )
    if ending.removesuffix(".gz") in ARRAYS | PARQUET | IMAGES:
        raise SourceError(
            f"{name!r} is compressed, which only lines and texts may be; unpack it first"
        )
    last = ending.rpartition(".")[2]
    if last in _PACKED:
        raise SourceError(f"{name!r} is compressed; unpack it first, or pack it with gzip")
    if last in _SHEETS:
        raise SourceError(f"{name!r} is a spreadsheet; save it as CSV (UTF-8)")
    known = sorted({*LINES, *ARRAYS, *PARQUET})
    raise SourceError(
        f"{name!r} has an unknown ending; expected one of {', '.join(known)}. Pipe lines of "
        "other files: everlearn learn MODEL - --format FORMAT < FILE; FORMAT is text, csv or jsonl"
    )


def _of_folder(name: str, label: str, writing: Writing) -> list[Source]:
    """The sources of a folder of images, texts or data files; a folder of several is ambiguous."""
    files = files_below(name)
    endings = {ending_of(n) for n in files}
    kinds = {"images": endings & IMAGES, "data files": endings & DATA, "texts": endings & TEXTS}
    held = {kind: sorted(found) for kind, found in kinds.items() if found}
    if len(held) != 1:
        found = " and ".join(f"{kind} ({', '.join(names)})" for kind, names in held.items())
        what = found or "no texts, images or data files"
        raise SourceError(f"the folder {name!r} holds {what}. Give a folder with one kind of file")
    if "data files" in held:
        paths = [os.path.join(name, n) for n in files if ending_of(n) in DATA]
        return [_of_file(path, label, writing, folder=name) for path in paths]
    return [FolderSource(name, IMAGES if "images" in held else TEXTS, writing.encoding)]
