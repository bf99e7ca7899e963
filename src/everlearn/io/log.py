"""The run log and the quarantine: two files of JSON lines beside a model.

Every line has the number of its batch. After a crash, lines of batches that are not in the
checkpoint are cut off, because those batches will be learned again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Self

_BLOCK: Final = 1 << 16


class BatchLog:
    """A file of JSON lines, each with a `batch`, in ascending order. Use it in a `with` block."""

    def __init__(self, path: Path, last_batch: int) -> None:
        self.path = path
        self._last = last_batch
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if self._file is not None:
            with nullcontext() if kind is None else suppress(OSError):  # report the first error
                self._file.close()

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line. The first one creates the file."""
        if self._file is None:
            self._file = self._open()
        text = json.dumps(line, ensure_ascii=False, allow_nan=False)
        self._file.write(text.encode("utf-8", "replace") + b"\n")

    def flush(self) -> None:
        """Hand written lines to the operating system."""
        if self._file is not None:
            self._file.flush()

    def cut(self) -> None:
        """Drop lines of batches that are not in the checkpoint."""
        if self._file is None and self.path.exists():
            self._file = self._open()

    def remove(self) -> None:
        """Delete the file, once the block is left."""
        self.path.unlink(missing_ok=True)

    def _open(self) -> BinaryIO:
        mode: Literal["r+b", "w+b"] = "r+b" if self.path.exists() else "w+b"
        file = open(self.path, mode)  # noqa: SIM115  # closed by __exit__
        file.truncate(_length_up_to(file, self._last))
        file.seek(0, os.SEEK_END)
        return file


def _length_up_to(file: BinaryIO, last_batch: int) -> int:
    """Length of the lines up to `last_batch` in bytes, searched from the end of the file."""
    end = file.seek(0, os.SEEK_END)
    start = end
    while start > 0:
        start = max(0, start - _BLOCK)
        file.seek(start)
        block = file.read(end - start)
        first = 0 if start == 0 else block.find(b"\n") + 1
        kept = start + first
        found = start == 0
        for line in block[first:].splitlines(keepends=True):
            if not line.endswith(b"\n") or _batch_of(line) > last_batch:
                break
            kept += len(line)
            found = True
        if found:
            return kept
    return 0


def _batch_of(line: bytes) -> float:
    try:
        number = json.loads(line)["batch"]
    except (ValueError, KeyError, TypeError):
        return float("inf")
    return number if isinstance(number, int) else float("inf")


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log, none without a file. A line that is still being written is left out."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        for line in file:
            if _batch_of(line) < float("inf"):
                yield json.loads(line)
