"""Compare two states of one model, component by component."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from everlearn.errors import UsageError
from everlearn.stream.models import StreamModel
from everlearn.stream.session import Session
from everlearn.stream.summary import Part, has_permanent_ids, parts_of, scores_of


@dataclass(frozen=True, slots=True)
class Change:
    """A part that is in both states.

    `moved` is the distance between the old and the new weights, relative to the old ones; None for
    parts without weights.
    """

    old: Part
    new: Part
    moved: float | None = None

    @property
    def growth(self) -> float:
        """How much its share of the data has grown."""
        return (self.new.share or 0.0) - (self.old.share or 0.0)

    @property
    def arrived(self) -> tuple[str, ...]:
        """What describes it now, and did not before."""
        return tuple(word for word in self.new.about if word not in self.old.about)


@dataclass(frozen=True, slots=True)
class Differences:
    """Parts that were born, that are gone, and that stayed, the largest change first.

    `mark` is "#" if ids are permanent, else empty.
    """

    born: tuple[Part, ...]
    gone: tuple[Part, ...]
    stayed: tuple[Change, ...]
    mark: str = "#"

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "born": [asdict(part) for part in self.born],
            "gone": [asdict(part) for part in self.gone],
            "stayed": [
                {
                    "id": c.new.id,
                    "old_share": c.old.share,
                    "share": c.new.share,
                    "arrived": list(c.arrived),
                    **({} if c.moved is None else {"moved": c.moved}),
                }
                for c in self.stayed
            ],
        }


def differences(old: Session, new: Session) -> Differences:
    """What changed from one state of a model to a later one."""
    kinds = [type(session.model).__name__ for session in (old, new)]
    if kinds[0] != kinds[1]:
        raise UsageError(f"compare two states of one model, got a {kinds[0]} and a {kinds[1]}")
    before, after = (
        {part.id: part for part in parts_of(session.model, session.layout.columns)}
        for session in (old, new)
    )
    moved = _distances(old.model, new.model)
    stayed = [
        Change(before[i], part, moved.get(part.speaks_for or ""))
        for i, part in after.items()
        if i in before
    ]
    return Differences(
        tuple(part for i, part in after.items() if i not in before),
        tuple(part for i, part in before.items() if i not in after),
        tuple(sorted(stayed, key=lambda c: (-abs(c.growth), -(c.moved or 0.0), c.new.id))),
        "#" if has_permanent_ids(new.model) else "",
    )


def _distances(old: StreamModel, new: StreamModel) -> dict[str, float]:
    """Distance between old and new weights of each linear score, relative to the old weights."""
    before, after = scores_of(old) or {}, scores_of(new) or {}
    moved = {}
    for name in before.keys() & after.keys():
        if before[name].shape != after[name].shape:
            raise UsageError(
                f"the models have different columns for {name!r}, so they cannot be compared"
            )
        size = max(float(np.linalg.norm(before[name])), np.finfo(float).tiny)
        moved[name] = float(np.linalg.norm(after[name] - before[name])) / size
    return moved
