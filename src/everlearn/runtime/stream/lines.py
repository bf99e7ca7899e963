"""Sources of lines: JSON lines, texts and CSV, in files, compressed files and pipes."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

import orjson

from everlearn.runtime.stream.chunks import Bad, Chunk
from everlearn.runtime.stream.ledger import HEAD, Progress, digest
from everlearn.runtime.stream.sources import STDIN, FileSource, SourceError

LineFormat: TypeAlias = Literal["jsonl", "csv", "tsv", "text"]
Read: TypeAlias = Callable[[int], bytes]
"""What there is, up to so many bytes, after waiting for at least one; nothing at the end."""

MAX_RECORD: Final = 1 << 26
_BLOCK: Final = 1 << 18
_SHOWN: Final = 200
_DELIMITERS: Final = {"csv": ",", "tsv": "\t"}


def cut_lines(read: Read, start: int, *, quoted: bool) -> Iterator[tuple[list[bytes], list[int]]]:
    """Lines as they arrive, with the place after each; the very last may lack its newline.

    With `quoted`, a line break within double quotes does not end a record. A record of more than
    `MAX_RECORD` bytes is cut to that length, so that memory is bounded by it.
    """
    held, end, dropped = b"", start, 0
    while block := read(_BLOCK):
        *complete, rest = (held + block).split(b"\n")
        lines: list[bytes] = []
        ends: list[int] = []
        parts: list[bytes] = []
        for line in complete:
            parts.append(line + b"\n")
            if quoted and sum(part.count(b'"') for part in parts) % 2:
                continue
            record = parts[0] if len(parts) == 1 else b"".join(parts)
            end += len(record) + dropped
            dropped = 0
            lines.append(record)
            ends.append(end)
            parts = []
        held = b"".join(parts) + rest
        if len(held) > MAX_RECORD:
            dropped += len(held) - MAX_RECORD
            held = held[:MAX_RECORD]
        if lines:
            yield lines, ends
    if held:
        yield [held], [end + dropped + len(held)]


def _shown(record: bytes) -> str:
    return record[:_SHOWN].decode("utf-8", "replace").rstrip("\n")


@dataclass(frozen=True, slots=True)
class _Parsed:
    """Rows of a block of lines; a blank line is none, so each row has the number of its line."""

    rows: list[Any]
    lines: list[int]
    bad: dict[int, Bad]


def _parse_json(lines: Sequence[bytes]) -> _Parsed:
    rows: list[Any] = []
    numbers: list[int] = []
    bad: dict[int, Bad] = {}
    for number, line in enumerate(lines):
        if line.isspace():
            continue
        try:
            rows.append(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            bad[len(rows)] = Bad(f"not JSON: {error}"[:_SHOWN], _shown(line))
            rows.append(None)
        numbers.append(number)
    return _Parsed(rows, numbers, bad)


def _parse_text(lines: Sequence[bytes]) -> _Parsed:
    rows: list[Any] = []
    numbers: list[int] = []
    bad: dict[int, Bad] = {}
    for number, line in enumerate(lines):
        if line.isspace():
            continue
        try:
            rows.append(line.decode("utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            bad[len(rows)] = Bad(f"not UTF-8: {error}"[:_SHOWN], _shown(line))
            rows.append("")
        numbers.append(number)
    return _Parsed(rows, numbers, bad)


def _parse_csv(lines: Sequence[bytes], delimiter: str, width: int) -> _Parsed:
    rows: list[Any] = []
    numbers: list[int] = []
    bad: dict[int, Bad] = {}
    for number, line in enumerate(lines):
        if line.isspace():
            continue
        row, reason = _csv_row(line, delimiter)
        if not reason and len(row) != width:
            reason = f"expected {width} fields, got {len(row)}"
        if reason:
            bad[len(rows)] = Bad(reason, _shown(line))
        rows.append(row)
        numbers.append(number)
    return _Parsed(rows, numbers, bad)


def _csv_row(line: bytes, delimiter: str) -> tuple[list[str], str]:
    """Fields of one line, and what is wrong with it if they cannot be told."""
    try:
        text = line.decode("utf-8-sig")
        if '"' not in text:
            return text.rstrip("\r\n").split(delimiter), ""
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)), ""
    except (UnicodeDecodeError, csv.Error, StopIteration) as error:
        return [], f"not a line of a table: {error}"[:_SHOWN]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class LineSource(FileSource):
    """A file of lines, compressed if its name ends with ``.gz``; places are bytes of text."""

    format: LineFormat = "jsonl"

    def _open(self) -> io.FileIO | gzip.GzipFile:
        if self.name.endswith(".gz"):
            return gzip.open(self.name, "rb")
        return open(self.name, "rb", buffering=0)

    def _head(self, n_bytes: int) -> bytes:
        with self._open() as file:
            return _read_fully(file.read, n_bytes)

    def _settled(self, place: int) -> int:
        return place

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The records from there on; a broken last line may still be growing and stays unread."""
        with self._open() as file:
            names = None
            if self.format in _DELIMITERS:
                names, first = table_head(file.read, self.format)
                start = replace(start, position=max(start.position, first))
            file.seek(start.position)
            read = file.read1 if isinstance(file, gzip.GzipFile) else file.read
            for lines, ends in cut_lines(read, start.position, quoted=names is not None):
                chunk = parsed_chunk(number, lines, ends, self.format, names)
                unfinished = not lines[-1].endswith(b"\n") and len(chunk) - 1 in chunk.bad
                yield chunk.part(0, len(chunk) - 1) if unfinished else chunk


def parsed_chunk(
    number: int,
    lines: Sequence[bytes],
    ends: Sequence[int],
    form: LineFormat,
    names: tuple[str, ...] | None,
) -> Chunk:
    """Lines as records."""
    if names is not None:
        parsed = _parse_csv(lines, _DELIMITERS[form], len(names))
    else:
        parsed = _parse_json(lines) if form == "jsonl" else _parse_text(lines)
    return Chunk(number, parsed.rows, [ends[i] for i in parsed.lines], names, parsed.bad)


def table_head(read: Read, form: str) -> tuple[tuple[str, ...], int]:
    """Names of the columns, and where the rows begin; a first line of numbers is a row."""
    for lines, ends in cut_lines(read, 0, quoted=True):
        fields, reason = _csv_row(lines[0], _DELIMITERS[form])
        if reason:
            raise SourceError(f"the first line of a table must name its columns: {reason}")
        if all(_is_number(name) for name in fields):
            return tuple(str(i) for i in range(len(fields))), 0
        return tuple(name.strip() for name in fields), ends[0]
    return (), 0


def _read_fully(read: Read, n_bytes: int) -> bytes:
    out = b""
    while len(out) < n_bytes and (piece := read(n_bytes - len(out))):
        out += piece
    return out


@dataclass(slots=True)
class PipeSource:
    """Standard input, which comes once.

    If it begins with the bytes that were learned from a pipe before, it is taken for the same
    data sent again, and what was learned is skipped; if not, all of it is new.
    """

    stdin: Any
    format: LineFormat = "jsonl"
    name: str = STDIN
    rewinds: bool = False
    _head: bytes = b""
    _ahead: bytes = field(default=b"", repr=False)

    def resume(self, known: Progress) -> Progress:
        """The place to go on from, or the start of a new stream."""
        if not known.position:
            return Progress(self.name)
        self._ahead = _read_fully(self.stdin.read, known.head_bytes)
        if digest(self._ahead) != known.head:
            return Progress(self.name)
        self._head = self._ahead
        missing = known.position - len(self._ahead)
        self._ahead = b""
        while missing > 0 and (piece := self.stdin.read(min(_BLOCK, missing))):
            missing -= len(piece)
        if missing > 0:
            raise SourceError("standard input is shorter than what was learned from it before")
        return known

    def _read(self, n_bytes: int) -> bytes:
        block, self._ahead = self._ahead[:n_bytes], self._ahead[n_bytes:]
        if not block:
            block = self.stdin.read(n_bytes) or b""
        if len(self._head) < HEAD:
            self._head = (self._head + block)[:HEAD]
        return block

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The records from there on, as soon as they arrive."""
        names: tuple[str, ...] | None = None
        table = self.format in _DELIMITERS
        if table and start.position:
            names = table_head(io.BytesIO(self._head).read, self.format)[0]
        for lines, ends in cut_lines(self._read, start.position, quoted=table):
            if table and names is None:
                head = b"".join(lines)
                names, first = table_head(io.BytesIO(head).read, self.format)
                if first:
                    lines, ends = lines[1:], ends[1:]
            if lines:
                yield parsed_chunk(number, lines, ends, self.format, names)

    def advanced(self, progress: Progress, places: Sequence[int]) -> Progress:
        """After the records with these places are learned."""
        if progress.head_bytes < HEAD:
            head = self._head[: min(HEAD, places[-1])]
            progress = replace(progress, head_bytes=len(head), head=digest(head))
        return replace(progress, position=places[-1])
