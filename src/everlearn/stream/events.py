"""Births, merges and deletions of components, and misfits: in the run log, and in words."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

import numpy as np

from everlearn.core.arrays import IntVec
from everlearn.core.text import counted
from everlearn.estimator.history import Misfit
from everlearn.io.formats import ARRAYS, PARQUET, ending_of
from everlearn.io.ledger import Progress
from everlearn.stream.models import StreamModel, has_bound, has_components

_MAX_IDS: Final = 40
_RECENT: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """The components of a model and the number of moves it has accepted, at one time.

    Models without components have no ids, models without a history of moves have no moves.
    """

    ids: IntVec = field(default_factory=lambda: np.empty(0, np.int64))
    n_moves: int = 0
    misfit: Misfit | None = None

    @classmethod
    def of(cls, model: StreamModel) -> Self:
        """The structure now."""
        if not has_bound(model):
            return cls(model.component_ids_) if has_components(model) else cls()
        history = model.history_
        n_moves = sum(n for name, n in history.counts.items() if name.endswith("accepted"))
        return cls(model.component_ids_, n_moves, next(iter(history.misfits[-1:]), None))

    def changes(self, model: StreamModel) -> dict[str, Any]:
        """Components that were born or are gone since, the moves that did it, and misfits."""
        now, line = Structure.of(model), {}
        if not np.array_equal(self.ids, now.ids):
            born, gone = np.setdiff1d(now.ids, self.ids), np.setdiff1d(self.ids, now.ids)
            line = {"born": born.tolist()} if len(born) else {}
            line |= {"gone": gone.tolist()} if len(gone) else {}
        n_new = now.n_moves - self.n_moves
        if n_new and has_bound(model):
            line["moves"] = [
                {"kind": m.kind, "removed": list(m.removed), "added": list(m.added), "gain": m.gain}
                for m in model.history_.moves[-n_new:]
            ]
        if now.misfit is not None and _is_news(self.misfit, now.misfit):
            line["misfit"] = str(now.misfit)
        return line


def _is_news(old: Misfit | None, new: Misfit) -> bool:
    """Whether rows began to fit badly, or their number has doubled."""
    if old is None or abs(old.since - new.since) > 1:
        return True
    return old.rows.bit_length() < new.rows.bit_length()


@dataclass(frozen=True, slots=True)
class History:
    """When learning began and went on, and what happened to the structure of the model.

    Attributes
    ----------
    first, last : times of the first and the last batch; None without batches
    events : number of births, merges, deletions and the like
    latest : (time, event) of the latest ones, in order
    """

    first: str | None
    last: str | None
    events: int
    latest: tuple[tuple[str, str], ...]


def history_of(lines: Iterable[Mapping[str, Any]]) -> History:
    """The history in the lines of a run log."""
    first = last = None
    latest: deque[tuple[str, str]] = deque(maxlen=_RECENT)
    n = 0
    for line in lines:
        last = str(line.get("time", ""))
        first = first or last
        for event in events(line):
            latest.append((last, event))
            n += 1
    return History(first, last, n, tuple(latest))


def events(line: Mapping[str, Any]) -> list[str]:
    """What a line of the run log says about the structure of the model, in words."""
    moves = line.get("moves") or []
    found = [
        f"{move['kind']}: {_ids(move['removed']) or 'none'} → {_ids(move['added']) or 'none'} "
        f"(+{move['gain']:,.1f} nats)"
        for move in moves
    ]
    by_moves = {i for move in moves for i in (*move["removed"], *move["added"])}
    born = [i for i in line.get("born", []) if i not in by_moves]
    gone = [i for i in line.get("gone", []) if i not in by_moves]
    if born:
        found.append(f"born: {_ids(born)}")
    if gone:
        found.append(f"gone: {_ids(gone)}")
    if "misfit" in line:
        found.append(str(line["misfit"]))
    return found


def _ids(ids: Sequence[int]) -> str:
    shown = ", ".join(f"#{i}" for i in ids[:_MAX_IDS])
    return f"{shown} and {len(ids) - _MAX_IDS} more" if len(ids) > _MAX_IDS else shown


def learned_up_to(progress: Progress) -> str:
    """How far a source is learned, such as "1,200 rows"."""
    if len(progress.done):
        return counted(progress.position, "file")
    has_rows = ending_of(progress.name) in ARRAYS | PARQUET
    return counted(progress.position, "row" if has_rows else "byte")
