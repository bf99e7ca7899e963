"""The header of a checkpoint: strict JSON that describes the file and every array in it."""

from __future__ import annotations

import importlib.metadata
import json
import math
import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from everlearn.errors import CheckpointError

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
FORMAT = "everlearn"
FORMAT_VERSION = 1
HEADER_NAME = "header.json"
MAX_HEADER_BYTES = 64 * 2**20
_MAX_DEPTH = 100
_MAX_NDIM = 64  # of NumPy 2
NAME = re.compile(r"(?=.{1,200}\Z)\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)
DTYPE = re.compile(r"\|[biu]1|<[iu][248]|<f[248]|<U[1-9][0-9]{0,7}")
STORABLE = "bool, integers or floats of at most 64 bits, or fixed-width unicode"


class MemberRow(NamedTuple):
    """One row of the table of members."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    sha256: JSON


def check_json(value: object, where: str, depth: int) -> None:
    """Refuse what JSON cannot hold, or would give back as something else."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"{where} is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"keys of {where} must be str, got {key!r}")
            check_json(item, f"{where}[{key!r}]", depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            check_json(item, f"{where}[{index}]", depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} must be finite, got {value!r}")
    elif value is not None and not isinstance(value, (str, int)):
        raise TypeError(
            f"{where} must be None, bool, int, float, str, list or dict, got {type(value).__name__}"
        )


def _canonical_json(document: object) -> bytes:
    text = json.dumps(document, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode("ascii")


def _library_version() -> str:
    try:
        return importlib.metadata.version("everlearn")
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"


def encode_header(header: Mapping[str, JSON], table: Mapping[str, MemberRow]) -> bytes:
    """The bytes of the header. The same content always gives the same bytes."""
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": _library_version(),
        "members": {
            name: {"dtype": row.dtype.str, "shape": row.shape, "sha256": row.sha256}
            for name, row in table.items()
        },
        "model": dict(header),
    }
    head = _canonical_json(document)
    if len(head) > MAX_HEADER_BYTES:
        raise ValueError(
            f"header must fit in {MAX_HEADER_BYTES} bytes of JSON, got {len(head)}; "
            "move long lists to arrays"
        )
    return head


def decode_header(head: bytes) -> tuple[dict[str, MemberRow], dict[str, JSON]]:
    """The table of members and the caller's header."""
    where = f"member {HEADER_NAME!r}"
    try:
        document = json.loads(head.decode("ascii"))
        canonical = _canonical_json(document) == head
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where} is not strict JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CheckpointError(f"{where} does not say 'format': {FORMAT!r}")
    version = document.get("format_version")
    if type(version) is not int or version < 1:
        raise CheckpointError(f"{where}: format_version must be 1 or more, got {version!r}")
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"{where}: the file has format version {version}, this everlearn "
            f"({_library_version()}) reads versions up to {FORMAT_VERSION}; upgrade everlearn"
        )
    if not canonical:
        raise CheckpointError(
            f"{where} is not the JSON that everlearn writes: a name is repeated, "
            "entries are out of order, or it was edited"
        )
    expected = ["format", "format_version", "library_version", "members", "model"]
    if list(document) != expected:
        raise CheckpointError(f"{where} must hold {expected}, got {list(document)}")
    table, model = document["members"], document["model"]
    if not isinstance(table, dict) or not isinstance(model, dict):
        raise CheckpointError(f"{where}: 'members' and 'model' must be objects")
    return {name: _decode_row(name, entry) for name, entry in table.items()}, model


def _decode_row(name: str, entry: object) -> MemberRow:
    """One row of the table, checked so far that its array can be described."""
    where = f"member {name + '.npy'!r}"
    if not NAME.fullmatch(name):
        raise CheckpointError(f"{where}: not a name that an array can have")
    if not isinstance(entry, dict) or list(entry) != ["dtype", "sha256", "shape"]:
        raise CheckpointError(f"{where}: the table must give dtype, sha256 and shape")
    code, shape = entry["dtype"], entry["shape"]
    if not isinstance(code, str) or not DTYPE.fullmatch(code):
        raise CheckpointError(f"{where}: dtype must be {STORABLE}, got {code!r}")
    if (
        not isinstance(shape, list)
        or len(shape) > _MAX_NDIM
        or not all(type(length) is int and length >= 0 for length in shape)
    ):
        raise CheckpointError(
            f"{where}: shape must be a list of at most {_MAX_NDIM} lengths, got {shape!r}"
        )
    dtype = np.dtype(code)
    # NumPy refuses such a shape even where another length is zero.
    if math.prod(max(length, 1) for length in shape) > sys.maxsize // dtype.itemsize:
        raise CheckpointError(f"{where}: no array can have dtype {code} and shape {shape}")
    return MemberRow(dtype, tuple(shape), entry["sha256"])
