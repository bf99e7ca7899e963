"""The history of learning in bounded memory: a curve thinned as it grows, and recent moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.core.moves import ALL_MOVES, TREE_MOVES, LapInfo, MoveRecord

if TYPE_CHECKING:
    import pandas

MAX_POINTS = 1024
MAX_MOVES = 256
MAX_MISFITS = 32
_SHOWN: Final = 12
"""Most laps that `print` shows."""
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


@dataclass(frozen=True, slots=True)
class Misfit:
    """Rows in a row that fitted worse than usual when they came.

    Attributes
    ----------
    since : rows seen before the first of them
    rows : their number
    drop : how far their mean log density was below the usual one, in nats
    """

    since: int
    rows: int
    drop: float

    def __str__(self) -> str:
        return (
            f"{self.rows:,} records fit badly since record {self.since:,} "
            f"({self.drop:.1f} nats below the others)"
        )


@dataclass(frozen=True, slots=True)
class PriorChoice:
    """The prior that a mixture was learned with, and what the choice was made by.

    Attributes
    ----------
    name : "learned", "shared", another named prior, or "given" for a mapping
    rows_each : rows in a component on average if all share a spread; None without a choice
    n_features : features of a row
    """

    name: str
    rows_each: float | None = None
    n_features: int = 0

    def __str__(self) -> str:
        if self.rows_each is None:
            return self.name
        compared = "fewer than" if self.name == "shared" else "enough for"
        return (
            f"{self.name} ({self.rows_each:,.0f} rows a component, "
            f"{compared} {self.n_features} features)"
        )


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """A curve of points, the latest accepted moves, and how many moves were judged.

    Mixtures add the latest misfits, which are rows that were explained badly when they came, and
    the prior.

    When the curve is full every second of its older points goes, so years fit into the space
    of `MAX_POINTS`. It is kept as one row of numbers a point, since it counts against budgets.
    """

    curve: Mat = field(default_factory=lambda: np.empty((0, 4)))
    moves: tuple[AcceptedMove, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    misfits: tuple[Misfit, ...] = ()
    prior: PriorChoice | None = None

    @property
    def points(self) -> tuple[Point, ...]:
        """The curve, point by point."""
        rows = self.curve.tolist()
        return tuple(Point(int(lap), int(seen), bound, int(k)) for lap, seen, bound, k in rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self.to_json() == other.to_json()

    def __len__(self) -> int:
        return len(self.curve)

    def __repr__(self) -> str:
        return f"<History of {len(self)} laps, {len(self.moves)} of the latest moves>"

    def __str__(self) -> str:
        """A table of the first and the latest laps, the moves judged, and the misfits."""
        width = f"{'lap':>8} {'rows':>14} {'bound':>16} {'components':>10}"
        points = self.points
        lines = [
            f"{p.lap:>8,} {p.rows:>14,} {p.bound:>16,.1f} {p.n_components:>10,}" for p in points
        ]
        if len(lines) > _SHOWN:
            lines = [*lines[:1], f"{'...':>8}", *lines[1 - _SHOWN :]]
        judged = ", ".join(f"{n:,} {kind}" for kind, n in self.counts.items()) or "none"
        misfits = map(str, self.misfits[-_SHOWN:])
        prior = [] if self.prior is None else [f"prior: {self.prior}"]
        return "\n".join([width, *lines, f"moves: {judged}", *prior, *misfits])

    def to_frame(self) -> pandas.DataFrame:
        """The curve as a data frame, one row a lap. Needs pandas.

        Returns
        -------
        frame : pandas.DataFrame
            Columns "lap", "rows", "bound" and "n_components".
        """
        try:
            import pandas  # noqa: PLC0415
        except ImportError as error:
            raise ImportError(
                "history_.to_frame needs pandas: pip install pandas. Without it, use "
                "history_.points or print(history_)."
            ) from error
        frame = pandas.DataFrame(self.curve, columns=["lap", "rows", "bound", "n_components"])
        return frame.astype({"lap": "int64", "rows": "int64", "n_components": "int64"})

    def after(self, info: LapInfo) -> History:
        """The history after one more lap."""
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

    def with_misfit(self, misfit: Misfit) -> History:
        """The history with one more misfit, or with more rows of the latest one."""
        kept = [m for m in self.misfits if abs(m.since - misfit.since) > 1]  # weights are rounded
        return replace(self, misfits=(*kept, misfit)[-MAX_MISFITS:])

    def to_json(self) -> dict[str, Any]:
        """The history as plain lists and numbers."""
        return {
            "points": [list(astuple(point)) for point in self.points],
            "moves": [
                [m.lap, m.rows, m.kind, list(m.removed), list(m.added), m.gain] for m in self.moves
            ],
            "counts": dict(self.counts),
            **({"misfits": [asdict(m) for m in self.misfits]} if self.misfits else {}),
            **({} if self.prior is None else {"prior": asdict(self.prior)}),
        }


def _key(move: MoveRecord) -> str:
    return f"{move.kind} {'accepted' if move.accepted else 'refused'}"
