"""From names on a command line to sources."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from everlearn.runtime.stream.cutting import BLOCK
from everlearn.runtime.stream.folders import IMAGES, TEXTS, FolderSource, files_below
from everlearn.runtime.stream.ledger import MAX_SOURCES
from everlearn.runtime.stream.lines import LineFormat, LineSource, PipeSource
from everlearn.runtime.stream.sources import STDIN, Source, SourceError, is_folder
from everlearn.runtime.stream.tables import ArraySource, ParquetSource

if sys.platform == "linux":
    import fcntl

_LINES: Final[dict[str, LineFormat]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
}
_ARRAYS: Final = frozenset({".npy", ".npz"})
_PARQUET: Final = frozenset({".parquet", ".pq"})


def open_sources(
    names: Iterable[str], stdin: Any, *, stdin_format: LineFormat = "jsonl", label: str = "label"
) -> list[Source]:
    """The sources that these names stand for, in order; a folder of data files is all of them."""
    sources: list[Source] = []
    for name in names:
        if name == STDIN:
            sources.append(PipeSource(stdin, stdin_format))
        elif is_folder(name):
            sources += _of_folder(os.path.normpath(name), label)
        else:
            sources.append(_of_file(os.path.normpath(name), label))
    spellings: dict[str, list[str]] = {}
    for source in sources:
        spellings.setdefault(os.path.realpath(source.name), []).append(source.name)
    if doubled := sorted(names for names in spellings.values() if len(names) > 1):
        raise SourceError(f"a source can be given once; given twice: {doubled[0]}")
    if len(sources) > MAX_SOURCES:
        raise SourceError(f"at most {MAX_SOURCES:,} files can be given, got {len(sources):,}")
    return sources


def standard_input(names: Iterable[str]) -> Any:
    """Standard input, which hands over what there is without waiting for more, if it is named.

    A pipe is made large enough for a whole block, since few large chunks are read faster.
    """
    if STDIN not in names:
        return None
    if sys.platform == "linux":
        with suppress(OSError):  # it is no pipe
            fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, BLOCK)
    return open(0, "rb", buffering=0, closefd=False)  # lives as long as we do


def _of_file(name: str, label: str, folder: str | None = None) -> Source:
    ending = _ending(name)
    if ending in _LINES:
        return LineSource(name, format=_LINES[ending])
    if ending in _ARRAYS:
        return ArraySource(name, label=label)
    if ending in _PARQUET:
        return ParquetSource(name, folder=folder)
    known = sorted({*_LINES, *_ARRAYS, *_PARQUET})
    raise SourceError(f"{name!r} has none of the endings {', '.join(known)}")


def _of_folder(name: str, label: str) -> list[Source]:
    """A folder of images, of texts, or of data files; a mixture is refused, since it is unclear."""
    files = files_below(name)
    endings = {_ending(n) for n in files}
    data = (set(_LINES) - TEXTS) | _ARRAYS | _PARQUET
    kinds = {"images": endings & IMAGES, "data files": endings & data, "texts": endings & TEXTS}
    held = {kind: sorted(found) for kind, found in kinds.items() if found}
    if len(held) != 1:
        what = f"both {held}" if held else "no texts, images or data files"
        raise SourceError(f"the folder {name!r} holds {what}; give one kind of file")
    if "data files" in held:
        paths = [os.path.join(name, n) for n in files if _ending(n) in data]
        return [_of_file(path, label, folder=name) for path in paths]
    return [FolderSource(name, IMAGES if "images" in held else TEXTS)]


def _ending(name: str) -> str:
    return Path(name.removesuffix(".gz")).suffix.lower()
