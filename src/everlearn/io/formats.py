"""What a file holds, told by how its name ends: here, and nowhere else."""

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
"""Files whose lines are records, and what their lines are."""
ARRAYS: Final = frozenset({".npy", ".npz"})
PARQUET: Final = frozenset({".parquet", ".pq"})
TEXTS: Final = frozenset({".txt", ".md", ".rst", ".text"})
"""Files of a folder each of which is a text."""
IMAGES: Final = frozenset({".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"})
DATA: Final = (LINES.keys() - TEXTS) | ARRAYS | PARQUET
"""Files of a folder that hold many records each."""
_PACKED: Final = ".gz"


def is_packed(name: str) -> bool:
    """Whether a file is compressed."""
    return name.lower().endswith(_PACKED)


def ending_of(name: str) -> str:
    """What tells the contents of a file, in small letters.

    Lines and texts may be compressed; of other files ``.gz`` is a part of the ending, which makes
    it one that nobody knows.

    Examples
    --------
    >>> ending_of("a.CSV.gz"), ending_of("notes.md"), ending_of("rows.npy.gz")
    ('.csv', '.md', '.npy.gz')
    """
    if not is_packed(name):
        return Path(name).suffix.lower()
    inner = Path(name[: -len(_PACKED)]).suffix.lower()
    return inner if inner in LINES or inner in TEXTS else f"{inner}{_PACKED}"
