"""Encodings of texts: which can be read, and what to do about bytes that do not fit."""

from __future__ import annotations

import codecs
import string
from typing import Final

from everlearn.errors import SourceError, UsageError

UTF8: Final = "utf-8"
_BOM: Final = "\ufeff"
UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How texts of Windows begin that have two bytes for each letter."""
_PLAIN: Final = string.ascii_letters + string.digits + '\n\r\t",;|+-. {}[]:'
_CONVERT: Final = "Convert it first: iconv -f {} -t utf-8 FILE > NEW"
_STATEFUL: Final = ("hz", "iso2022", "utf_7")
"""Encodings in which the meaning of a byte depends on those before it."""
_C1: Final = bytes(range(0x80, 0xA0))
"""Bytes that are letters in Windows' encodings only."""


def checked_encoding(name: str) -> str:
    """The name of an encoding in lower case; a UsageError if there is none of this name."""
    try:
        found = codecs.lookup(name)
        if not found._is_text_encoding:
            raise LookupError
    except (LookupError, ValueError) as error:
        raise UsageError(
            f"option 'encoding' must be an encoding of texts, such as latin-1, cp1252 or utf-8, "
            f"got {name!r}"
        ) from error
    return UTF8 if found.name in ("ascii", "utf-8", "utf-8-sig") else name.lower()


def check_lines(encoding: str, name: str) -> None:
    """Refuse encodings in which a line cannot be found without decoding all before it."""
    plain = encoding.replace("-", "_")
    if plain.startswith(_STATEFUL) or not _keeps_ascii(encoding):
        raise SourceError(
            f"{name!r} cannot be read line by line as {encoding}. {_CONVERT.format(encoding)}"
        )


def _keeps_ascii(encoding: str) -> bool:
    try:
        return _PLAIN.encode(encoding) == _PLAIN.encode("ascii")
    except UnicodeError:
        return False


def decoded(data: bytes, encoding: str) -> str:
    """The text, without a byte order mark; a ValueError that says what to do if it is none."""
    try:
        return data.decode(encoding).removeprefix(_BOM)
    except UnicodeDecodeError as error:
        raise ValueError(why_undecodable(data, encoding)) from error


def why_undecodable(data: bytes, encoding: str) -> str:
    """What is wrong with bytes that are no text of an encoding, and which may fit."""
    if data.startswith(UTF16_MARKS):
        return f"not UTF-8 but UTF-16. {_CONVERT.format('utf-16')}"
    if encoding != UTF8:
        return f"not {encoding}; give another option 'encoding'"
    return f"not UTF-8: add option 'encoding' {_likely(data)}"


def _likely(data: bytes) -> str:
    """Windows' encoding of western Europe if it has letters that Latin-1 has not."""
    if not any(byte in _C1 for byte in data):
        return "latin-1"
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"
