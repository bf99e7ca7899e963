"""Sources of lines: JSON lines, CSV and texts in plain files, compressed files and pipes."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import os
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

import orjson

from everlearn.core.text import counted
from everlearn.errors import SourceError
from everlearn.io.batches import Chunk, LineRows, Parse
from everlearn.io.dialects import AS_SHOWN, Dialect, Writing, dialect_of, first_block
from everlearn.io.encodings import UTF8, decoded, why_undecodable
from everlearn.io.formats import LineFormat, is_packed
from everlearn.io.ledger import HEAD, Places, Progress, advance, digest
from everlearn.io.sources import STDIN, FileSource, different_names
from everlearn.io.splitter import BLOCK, Lines, Read, cut_lines

_LOG: Final = logging.getLogger("everlearn")
_TABLES: Final = ("csv", "tsv")


def _parse_json(data: bytes, encoding: str = UTF8) -> tuple[Any, str]:
    try:
        if encoding != UTF8 or data.startswith(codecs.BOM_UTF8):
            data = decoded(data, encoding).encode()
        return orjson.loads(data), ""
    except orjson.JSONDecodeError as error:
        try:
            data.decode()
        except UnicodeDecodeError:
            return None, why_undecodable(data, encoding)
        return None, f"not JSON: {error}"
    except ValueError as error:
        return None, str(error)


def _parse_text(data: bytes, encoding: str) -> tuple[Any, str]:
    try:
        return decoded(data, encoding).rstrip("\r\n"), ""
    except ValueError as error:
        return "", str(error)


def _parse_csv_row(
    data: bytes, delimiter: str, encoding: str, width: int | None = None
) -> tuple[list[str], str]:
    """The fields of a row, and what is wrong with it, such as another number than `width`."""
    try:
        text = decoded(data, encoding)
    except ValueError as error:
        return [], str(error)
    try:
        if '"' not in text:
            row = text.rstrip("\r\n").split(delimiter)
        else:
            (row,) = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    except (csv.Error, ValueError) as error:
        return [], f"not a row of a table: {error}"
    if width is not None and len(row) != width:
        return row, f"expected {counted(width, 'field')}, got {len(row)}"
    return row, ""


@dataclass(slots=True)
class LineSource(FileSource):
    """A file of lines, compressed if its name ends with ``.gz``. Places are bytes of its text."""

    format: LineFormat = "jsonl"
    writing: Writing = AS_SHOWN
    _dialect: Dialect | None = field(default=None, init=False, repr=False, compare=False)

    def _head(self, n_bytes: int) -> bytes:
        with self._unpacked() as file:
            return _read_fully(file.read, n_bytes)

    @contextmanager
    def _unpacked(self) -> Iterator[io.FileIO | gzip.GzipFile]:
        """The open file. An error of unpacking in the block names the file."""
        try:
            packed = is_packed(self.name)
            with gzip.open(self.name) if packed else open(self.name, "rb", buffering=0) as file:
                yield file
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise SourceError(f"{self.name!r} cannot be unpacked: {error}") from error

    def _can_grow(self) -> bool:
        return True

    def _fixed_bytes(self, place: int) -> int:
        return place

    def resume(self, known: Progress) -> Progress:
        """The place to go on from; a file that is shorter than before is an error."""
        progress = FileSource.resume(self, known)
        if not is_packed(self.name) and progress.position > os.stat(self.name).st_size:
            raise self._shorter_error()
        return progress

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The records from `start` on. A broken last line may still be growing and stays unread."""
        with self._unpacked() as file:
            dialect = start.dialect
            if dialect is None:
                head = first_block(_reader_of(file))
                file.seek(0)
                dialect = dialect_of(head, self.format, self.writing, self.name)
            self._dialect, names = dialect, None
            if dialect.delimiter:
                file.seek(dialect.skipped)
                names, first = table_head(_reader_of(file), dialect)
                start = replace(start, position=max(start.position, first))
            file.seek(0)
            self._head_read = _read_fully(file.read, min(HEAD, start.position))
            file.seek(start.position)
            if file.tell() < start.position:  # only now the length of a compressed file is known
                raise self._shorter_error()
            read = self._remembering_first_bytes(_reader_of(file))
            for lines in cut_lines(read, start.position, _quoting(dialect)):
                if self.format == "jsonl":
                    check_json_lines(lines, repr(self.name))
                chunk = chunk_of(number, lines, self.format, names, dialect)
                last = len(chunk) - 1
                if not lines.are_finished and chunk.part(last, last + 1).parsed().bad:
                    _LOG.warning(
                        "the last line of %r is not finished; the next run will read it", self.name
                    )
                    chunk = chunk.part(0, last)
                yield chunk

    def advanced(self, progress: Progress, places: Places) -> Progress:
        """Progress after the records with these places are learned."""
        return replace(FileSource.advanced(self, progress, places), dialect=self._dialect)

    def _remembering_first_bytes(self, read: Read) -> Read:
        def read_and_remember(n_bytes: int) -> bytes:
            block = read(n_bytes)
            if len(self._head_read) < HEAD:
                self._head_read = (self._head_read + block)[:HEAD]
            return block

        return read_and_remember


def _quoting(dialect: Dialect) -> bytes | None:
    return dialect.delimiter.encode() or None


def chunk_of(
    number: int, lines: Lines, form: LineFormat, names: tuple[str, ...] | None, dialect: Dialect
) -> Chunk:
    """A chunk of lines that are not parsed yet. Blank lines are no records."""
    lines, encoding = lines.without_blanks(), dialect.encoding
    parse: Parse = partial(_parse_json if form == "jsonl" else _parse_text, encoding=encoding)
    if names is not None:
        parse = partial(
            _parse_csv_row, delimiter=dialect.delimiter, encoding=encoding, width=len(names)
        )
    rows = LineRows(lines, parse, dialect.delimiter, encoding)
    return Chunk(number, rows, lines.ends, names, decimal=dialect.decimal)


def check_json_lines(lines: Lines, name: str) -> None:
    """Refuse JSON that is spread over lines or one list of all records, by its first lines."""
    if lines[0].start:  # only the first lines of a source are checked
        return
    lines = lines.without_blanks()
    first, second = (lines[i].data.strip() if i < len(lines) else b"" for i in range(2))
    spread = first in (b"[", b"{", b"[{") and second
    broken = (
        first[:1] in (b"[", b"{") and first[-1:] in (b"[", b"{", b",") and _parse_json(second)[1]
    )
    if spread or (broken and second) or first.replace(b" ", b"")[:2] == b"[{":
        raise SourceError(
            f"{name} is a single JSON document; expected one record per line. Convert a list with "
            "jq -c '.[]' FILE, and objects that span lines with jq -c . FILE"
        )


def table_head(read: Read, dialect: Dialect) -> tuple[tuple[str, ...], int]:
    """Names of the columns, and where the rows begin. Columns without a name have numbers."""
    for lines in cut_lines(read, dialect.skipped, _quoting(dialect)):
        fields, reason = _parse_csv_row(lines[0].data, dialect.delimiter, dialect.encoding)
        if reason or lines[0].fault:
            raise SourceError(
                f"the first line of a table must name its columns: {reason or lines[0].fault}"
            )
        if not dialect.has_names:
            return tuple(str(i) for i in range(len(fields))), dialect.skipped
        names = (name.strip() or str(i) for i, name in enumerate(fields))
        return different_names(names), lines[0].end
    return (), dialect.skipped


def _reader_of(file: io.FileIO | gzip.GzipFile) -> Read:
    """A function that reads from the file, and returns what there is without waiting for more."""
    return file.read1 if isinstance(file, gzip.GzipFile) else file.read


def _read_fully(read: Callable[[int], bytes], n_bytes: int) -> bytes:
    out = b""
    while len(out) < n_bytes and (piece := read(n_bytes - len(out))):
        out += piece
    return out


class ByteReader(Protocol):
    """A raw stream, which returns what has come so far; None if it would block."""

    def read(self, n_bytes: int, /) -> bytes | None: ...


class PipeSource:
    """Standard input, which can be read once only.

    If it begins with the same bytes as a pipe that was learned before, it is taken for the same
    data sent again, and what was learned is skipped. If not, all of it is new.
    """

    name = key = STDIN
    rewinds = False

    def __init__(
        self, stdin: ByteReader, form: LineFormat = "jsonl", writing: Writing = AS_SHOWN
    ) -> None:
        self._stdin, self._format, self._writing = stdin, form, writing
        self._dialect: Dialect | None = None
        self._head_read = b""
        self._read_ahead = b""
        self._waiting = threading.Event()

    def is_waiting(self) -> bool:
        """Whether it waits for records to come, and has passed on all that came."""
        return self._waiting.is_set()

    def resume(self, known: Progress) -> Progress:
        """The place to go on from, or the start of a new stream."""
        if not known.position:
            return Progress(self.name)
        self._read_ahead = b""
        for i, (size, wanted) in enumerate(known.prefixes):
            self._read_ahead += _read_fully(self._wait_for, size - len(self._read_ahead))
            if i and len(self._read_ahead) < size:
                raise SourceError("standard input is shorter than the part that was learned before")
            if digest(self._read_ahead) != wanted:
                return Progress(self.name)
        self._head_read, self._read_ahead = self._read_ahead, b""
        missing = known.position - len(self._head_read)
        while missing > 0 and (piece := self._wait_for(min(BLOCK, missing))):
            missing -= len(piece)
        if missing > 0:
            raise SourceError("standard input is shorter than the part that was learned before")
        return known

    def _wait_for(self, n_bytes: int) -> bytes:
        self._waiting.set()
        block = self._stdin.read(n_bytes) or b""
        self._waiting.clear()
        return block

    def _read(self, n_bytes: int) -> bytes:
        if self._read_ahead:
            block, self._read_ahead = self._read_ahead[:n_bytes], self._read_ahead[n_bytes:]
        else:
            block = self._wait_for(n_bytes)
        if len(self._head_read) < HEAD:
            self._head_read = (self._head_read + block)[:HEAD]
        return block

    def read(self, number: int, start: Progress) -> Iterator[Chunk]:
        """The records from `start` on, as soon as they arrive."""
        names: tuple[str, ...] | None = None
        first, dialect = start.position, start.dialect
        if first:  # only the first bytes are needed for the names of columns
            head = self._head_read
        else:
            head = self._read_ahead = self._first_lines()
        if dialect is None:
            dialect = dialect_of(head, self._format, self._writing, "standard input")
        self._dialect = dialect
        if dialect.delimiter:
            begin = io.BytesIO(head)
            begin.seek(dialect.skipped)
            names, rows_from = table_head(begin.read, dialect)
            while first < rows_from and (piece := self._read(rows_from - first)):
                first += len(piece)
        for lines in cut_lines(self._read, first, _quoting(dialect)):
            if self._format == "jsonl":
                check_json_lines(lines, "standard input")
            yield chunk_of(number, lines, self._format, names, dialect)

    def _first_lines(self) -> bytes:
        """What has come when the first record is complete."""
        head, n_lines = self._read_ahead, 2 if self._format in _TABLES else 1
        while head.count(b"\n") < n_lines and (block := self._wait_for(BLOCK)):
            head += block
        return head

    def advanced(self, progress: Progress, places: Places) -> Progress:
        """Progress after the records with these places are learned."""
        place = int(places[-1])
        return replace(advance(progress, place, self._head_read[:place]), dialect=self._dialect)

    def where(self, place: int) -> int:
        """A place in the words of messages and logs: bytes."""
        return place
