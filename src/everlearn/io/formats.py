"""Choose the format of a file by the ending of its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

LineFormat: TypeAlias = Literal["jsonl", "csv", "tsv", "text"]
LINES: Final[Mapping[str, LineFormat]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
    ".text": "text",
}
"""Files in which each line is a record, and the format of the lines."""
ARRAYS: Final = frozenset({".npy", ".npz"})
PARQUET: Final = frozenset({".parquet", ".pq"})
TEXTS: Final = frozenset({".txt", ".md", ".rst", ".text"})
"""Files of a folder that are one text each."""
IMAGES: Final = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"})
DATA: Final = (LINES.keys() - TEXTS) | ARRAYS | PARQUET
"""Files that hold many records each, also in a folder."""
_GZIP: Final = ".gz"


def is_packed(name: str) -> bool:
    """Whether a file is compressed."""
    return name.lower().endswith(_GZIP)


def ending_of(name: str) -> str:
    """The ending that says what a file holds, in lower case.

    Lines and texts may be compressed: for these, ``.gz`` is dropped. Other compressed files keep
    ``.gz``, so their ending is unknown.

    Examples
    --------
    >>> ending_of("a.CSV.gz"), ending_of("notes.md"), ending_of("rows.npy.gz")
    ('.csv', '.md', '.npy.gz')
    """
    if not is_packed(name):
        return Path(name).suffix.lower()
    inner = Path(name[: -len(_GZIP)]).suffix.lower()
    return inner if inner in LINES or inner in TEXTS else f"{inner}{_GZIP}"
