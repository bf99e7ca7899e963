"""Results of finished runs, kept in out/reproduce/ so that a reproduction can be resumed."""

import json
from collections.abc import Callable
from typing import Any

from benchmarks.table import ROOT, circumstances


def remembered(paper: str, name: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a run, which is made if it is not there; with where it was measured."""
    path = ROOT / "out" / "reproduce" / paper / f"{name}.json"
    if path.exists() and "measured" in (known := json.loads(path.read_text())):
        return known
    result = {**run(), "measured": circumstances()}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(result))
    partial.rename(path)
    return result
