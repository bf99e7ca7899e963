"""Cache of finished runs in out/reproduce/, so that a reproduction can be resumed."""

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from benchmarks.table import ROOT, circumstances


def remembered(
    paper: str,
    name: str,
    run: Callable[[], dict[str, Any]],
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The result of a run, from the cache or made now, with where it was measured.

    If arguments are given, runs of the same name with other arguments are different runs.
    """
    path = _path(paper, name, arguments)
    if path.exists() and "measured" in (known := json.loads(path.read_text())):
        return known
    result = {**run(), "measured": circumstances()}
    if arguments is not None:
        result["arguments"] = dict(arguments)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(result))
    partial.rename(path)
    return result


def remembered_in(
    measured: set[str],
    paper: str,
    name: str,
    run: Callable[[], dict[str, Any]],
    arguments: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """As `remembered`; adds where the run was measured to `measured`."""
    result = remembered(paper, name, run, arguments)
    measured.add(result["measured"])
    return result


def is_remembered(paper: str, name: str, arguments: Mapping[str, Any] | None = None) -> bool:
    """Whether the result of a run is in the cache."""
    return _path(paper, name, arguments).exists()


def _path(paper: str, name: str, arguments: Mapping[str, Any] | None) -> Path:
    return ROOT / "out" / "reproduce" / paper / f"{name}{_digest(arguments)}.json"


def _digest(arguments: Mapping[str, Any] | None) -> str:
    if arguments is None:
        return ""
    text = json.dumps(arguments, sort_keys=True)
    return "-" + blake2b(text.encode(), digest_size=4).hexdigest()
