"""From names on a command line to sources."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from everlearn.io.folders import FolderSource, files_below
from everlearn.io.formats import ARRAYS, DATA, IMAGES, LINES, PARQUET, TEXTS, LineFormat, ending_of
from everlearn.io.ledger import MAX_SOURCES
from everlearn.io.lines import LineSource, PipeSource
from everlearn.io.sources import STDIN, Source, SourceError, is_folder
from everlearn.io.splitter import BLOCK
from everlearn.io.tables import ArraySource, ParquetSource

if sys.platform == "linux":
    import fcntl


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
    ending = ending_of(name)
    if ending in LINES:
        return LineSource(name, format=LINES[ending])
    if ending in ARRAYS:
        return ArraySource(name, label=label)
    if ending in PARQUET:
        return ParquetSource(name, folder=folder)
    if ending in TEXTS | IMAGES:
        raise SourceError(
            f"{name!r} is one {'image' if ending in IMAGES else 'text'}; give the folder that it "
            "is in, whose files are records"
        )
    if ending.removesuffix(".gz") in ARRAYS | PARQUET | IMAGES:
        raise SourceError(f"{name!r} cannot be read while it is compressed; unpack it first")
    known = sorted({*LINES, *ARRAYS, *PARQUET})
    raise SourceError(f"{name!r} has none of the endings {', '.join(known)}")


def _of_folder(name: str, label: str) -> list[Source]:
    """A folder of images, of texts, or of data files; a mixture is refused, since it is unclear."""
    files = files_below(name)
    endings = {ending_of(n) for n in files}
    kinds = {"images": endings & IMAGES, "data files": endings & DATA, "texts": endings & TEXTS}
    held = {kind: sorted(found) for kind, found in kinds.items() if found}
    if len(held) != 1:
        what = f"both {held}" if held else "no texts, images or data files"
        raise SourceError(f"the folder {name!r} holds {what}; give one kind of file")
    if "data files" in held:
        paths = [os.path.join(name, n) for n in files if ending_of(n) in DATA]
        return [_of_file(path, label, folder=name) for path in paths]
    return [FolderSource(name, IMAGES if "images" in held else TEXTS)]
