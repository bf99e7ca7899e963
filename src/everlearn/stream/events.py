"""Read the log of a run: what happened, and how far learning came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from everlearn.core.text import counted
from everlearn.io.formats import ARRAYS, PARQUET, ending_of
from everlearn.io.ledger import Progress

_MOST = 40


@dataclass(frozen=True, slots=True)
class History:
    """When learning began and went on, and what happened to the structure of the model.

    Attributes
    ----------
    first, last : times of the first and the last batch, if there are any
    events : number of births, merges, deletions and the like
    latest : the last of them with their times, the latest last
    """

    first: str | None
    last: str | None
    events: int
    latest: tuple[tuple[str, str], ...]


def events(line: Mapping[str, Any]) -> list[str]:
    """What a line of the run log says about the structure of the model."""
    moves = line.get("moves") or []
    told = [
        f"{move['kind']}: {_ids(move['removed']) or 'none'} → {_ids(move['added']) or 'none'} "
        f"(+{move['gain']:,.1f} nats)"
        for move in moves
    ]
    by_moves = {i for move in moves for i in (*move["removed"], *move["added"])}
    born = [i for i in line.get("born", []) if i not in by_moves]
    gone = [i for i in line.get("gone", []) if i not in by_moves]
    if born:
        told.append(f"born: {_ids(born)}")
    if gone:
        told.append(f"gone: {_ids(gone)}")
    return told


def _ids(ids: Sequence[int]) -> str:
    shown = ", ".join(f"#{i}" for i in ids[:_MOST])
    return f"{shown} and {len(ids) - _MOST} more" if len(ids) > _MOST else shown


def learned_up_to(progress: Progress) -> str:
    """How far a source is learned, with what is counted."""
    if len(progress.done):
        return counted(progress.position, "file")
    rows = ending_of(progress.name) in ARRAYS | PARQUET
    return counted(progress.position, "row" if rows else "byte")
