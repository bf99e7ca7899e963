"""What a learner did, in bounded space: a curve that is thinned as it grows, and recent moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.core.moves import ALL_MOVES, TREE_MOVES, LapInfo, MoveRecord
from everlearn.errors import CheckpointError
from everlearn.store.schema import entry, shown

MAX_POINTS = 1024
MAX_MOVES = 256
LARGEST_COUNT = 2**53 - 1
MOVE_KINDS = tuple(dict.fromkeys((*ALL_MOVES, *TREE_MOVES)))
COUNT_KEYS = tuple(
    f"{kind} {verdict}" for kind in MOVE_KINDS for verdict in ("accepted", "refused")
)


@dataclass(frozen=True, slots=True)
class Point:
    """Rows seen (their weights), bound and components after a lap."""

    lap: int
    rows: int
    bound: float
    n_components: int


@dataclass(frozen=True, slots=True)
class AcceptedMove:
    """A change of structure: when, what kind, ids that went, ids that came, and the gain."""

    lap: int
    rows: int
    kind: str
    removed: tuple[int, ...]
    added: tuple[int, ...]
    gain: float


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """A curve of points, the latest accepted moves, and how many moves were judged.

    When the curve is full every second of its older points goes, so years fit into the space
    of `MAX_POINTS`. It is kept as one row of numbers a point, since it counts against budgets.
    """

    curve: Mat = field(default_factory=lambda: np.empty((0, 4)))
    moves: tuple[AcceptedMove, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def points(self) -> tuple[Point, ...]:
        """The curve, point by point."""
        rows = self.curve.tolist()
        return tuple(Point(int(lap), int(seen), bound, int(k)) for lap, seen, bound, k in rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self.to_json() == other.to_json()

    def after(self, info: LapInfo) -> History:
        """With one more lap."""
        rows = min(round(info.mass), LARGEST_COUNT)
        curve = np.vstack([self.curve, [info.clock, rows, info.bound, info.n_components]])
        if len(curve) > MAX_POINTS:
            curve = np.concatenate([curve[: MAX_POINTS // 2 : 2], curve[MAX_POINTS // 2 :]])
        accepted = tuple(
            AcceptedMove(info.clock, rows, m.kind, m.removed, m.added, m.gain)
            for m in info.moves
            if m.accepted
        )
        counts = dict(self.counts)
        for move in info.moves:
            counts[_key(move)] = counts.get(_key(move), 0) + 1
        return replace(
            self, curve=curve, moves=(*self.moves, *accepted)[-MAX_MOVES:], counts=counts
        )

    def to_json(self) -> dict[str, Any]:
        """As plain lists and numbers."""
        return {
            "points": [list(astuple(point)) for point in self.points],
            "moves": [
                [m.lap, m.rows, m.kind, list(m.removed), list(m.added), m.gain] for m in self.moves
            ],
            "counts": dict(self.counts),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> History:
        """Inverse of `to_json`, or a CheckpointError if it is not a history."""
        points = [_row(p, int, int, float, int) for p in entry(data, "points", list)]
        moves = [_row(m, int, int, str, list, list, float) for m in entry(data, "moves", list)]
        counts = entry(data, "counts", dict)
        if len(points) > MAX_POINTS or len(moves) > MAX_MOVES:
            raise CheckpointError("the header's 'points' or 'moves' are more than a history holds")
        for key, count in counts.items():
            if key not in COUNT_KEYS or type(count) is not int or count < 0:
                raise CheckpointError(f"the header's 'counts' must be counts, got {shown(counts)}")
        return cls(
            np.array(points, float).reshape(-1, 4),
            tuple(AcceptedMove(m[0], m[1], m[2], _ids(m[3]), _ids(m[4]), m[5]) for m in moves),
            dict(counts),
        )


def _row(values: Any, *kinds: type) -> list[Any]:
    """One entry of a saved history."""
    fits = isinstance(values, list) and [type(v) for v in values] == list(kinds)
    if not fits or any(type(v) is int and not 0 <= v <= LARGEST_COUNT for v in values):
        names = [kind.__name__ for kind in kinds]
        raise CheckpointError(f"the header's 'history' must have {names}, got {shown(values)}")
    return list(values)


def _ids(values: list[Any]) -> tuple[int, ...]:
    return tuple(_row(values, *[int] * len(values)))


def _key(move: MoveRecord) -> str:
    return f"{move.kind} {'accepted' if move.accepted else 'refused'}"
