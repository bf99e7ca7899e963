"""What a learner did, in bounded space: a curve that is thinned as it grows, and recent moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from everlearn.inference.learners.memoized import LapInfo, MoveRecord

MAX_POINTS = 2048
MAX_MOVES = 512


@dataclass(frozen=True, slots=True)
class Point:
    """The state of affairs after a lap."""

    lap: int
    rows: int
    bound: float
    n_components: int


@dataclass(frozen=True, slots=True)
class AcceptedMove:
    """A change of structure: the lap, what kind, ids that went, ids that came, and the gain."""

    lap: int
    kind: str
    removed: tuple[int, ...]
    added: tuple[int, ...]
    gain: float


@dataclass(frozen=True, slots=True)
class History:
    """A curve of points, the latest accepted moves, and how many moves were judged.

    When the curve is full every second of its older points goes, so years fit into the space
    of `MAX_POINTS`.
    """

    points: tuple[Point, ...] = ()
    moves: tuple[AcceptedMove, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    def after(self, info: LapInfo, rows: int) -> History:
        """With one more lap."""
        point = Point(info.clock, rows, info.bound, info.n_components)
        points = (*self.points, point)
        if len(points) > MAX_POINTS:
            points = (*points[: MAX_POINTS // 2 : 2], *points[MAX_POINTS // 2 :])
        accepted = tuple(
            AcceptedMove(info.clock, m.kind, m.removed, m.added, m.gain)
            for m in info.moves
            if m.accepted
        )
        counts = dict(self.counts)
        for move in info.moves:
            counts[_key(move)] = counts.get(_key(move), 0) + 1
        return replace(
            self, points=points, moves=(*self.moves, *accepted)[-MAX_MOVES:], counts=counts
        )

    def to_json(self) -> dict[str, Any]:
        """As plain lists and numbers."""
        return {
            "points": [list(asdict(p).values()) for p in self.points],
            "moves": [[m.lap, m.kind, list(m.removed), list(m.added), m.gain] for m in self.moves],
            "counts": dict(self.counts),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> History:
        """Inverse of `to_json`."""
        return cls(
            tuple(Point(*p) for p in data["points"]),
            tuple(AcceptedMove(m[0], m[1], tuple(m[2]), tuple(m[3]), m[4]) for m in data["moves"]),
            dict(data["counts"]),
        )


def _key(move: MoveRecord) -> str:
    return f"{move.kind} {'accepted' if move.accepted else 'refused'}"
