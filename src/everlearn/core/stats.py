"""Additive statistics of a mixture, and the edits that change their components.

Statistics form a vector space over one list of permanent component ids: they can be added,
subtracted and scaled, and every edit is linear, so that editing a sum equals summing the
edited parts. Whatever a learner does (replace a batch, blend, retire the past) is arithmetic
on these objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec


class Summable(Protocol):
    """Anything that adds."""

    def __add__(self, other: Self, /) -> Self:
        """The sum."""


S = TypeVar("S", bound=Summable)


@dataclass(frozen=True, slots=True)
class Stats:
    """What a set of rows says about each component.

    Attributes
    ----------
    ids : (n_components,) permanent component ids
    n : (n_components,) responsibility mass
    t : (n_components, n_stats) sums of the family's features, weighted by responsibility
    h : (n_components,) entropy of the assignments, -sum r log r
    base : log base measure of the rows, which no component changes
    """

    ids: IntVec
    n: Vec
    t: Mat
    h: Vec
    base: float = 0.0

    @classmethod
    def zeros(cls, ids: IntVec, n_stats: int) -> Stats:
        """Statistics of no rows at all."""
        k = len(ids)
        return cls(np.asarray(ids, np.int64), np.zeros(k), np.zeros((k, n_stats)), np.zeros(k))

    def __len__(self) -> int:
        return len(self.ids)

    def __add__(self, other: Stats) -> Stats:
        return self._combine(other, np.add)

    def __sub__(self, other: Stats) -> Stats:
        return self._combine(other, np.subtract)

    def __mul__(self, factor: float) -> Stats:
        return Stats(
            self.ids, self.n * factor, self.t * factor, self.h * factor, self.base * factor
        )

    def _combine(self, other: Stats, op: Callable[[Mat, Mat], Mat]) -> Stats:
        if not np.array_equal(self.ids, other.ids):
            raise ValueError(
                f"statistics of components {self.ids.tolist()} cannot be combined with those of "
                f"{other.ids.tolist()}: apply the missing edits first"
            )
        base = float(op(np.asarray(self.base), np.asarray(other.base)))
        return Stats(self.ids, op(self.n, other.n), op(self.t, other.t), op(self.h, other.h), base)

    def apply(self, edit: Edit) -> Stats:
        """These statistics after a structural edit."""
        return edit.on(self)

    def position(self, component_id: int) -> int:
        """Row of a component id."""
        found = np.flatnonzero(self.ids == component_id)
        if len(found) != 1:
            raise KeyError(f"no component {component_id} among {self.ids.tolist()}")
        return int(found[0])

    def rows(self, positions: IntVec | slice) -> Stats:
        """The components at `positions`, in that order, without the base measure."""
        return Stats(self.ids[positions], self.n[positions], self.t[positions], self.h[positions])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return self.ids.nbytes + self.n.nbytes + self.t.nbytes + self.h.nbytes


class Edit(Protocol):
    """A linear change of the list of components."""

    def on(self, stats: Stats) -> Stats:
        """The edited statistics."""


@dataclass(frozen=True, slots=True)
class Permute:
    """Put the components in the order of `ids`."""

    ids: IntVec

    def on(self, stats: Stats) -> Stats:
        where = {int(i): p for p, i in enumerate(stats.ids)}
        if len(self.ids) != len(where) or set(self.ids.tolist()) != set(where):
            raise KeyError(f"{self.ids.tolist()} does not reorder {stats.ids.tolist()}")
        order = np.array([where[int(i)] for i in self.ids], dtype=np.int64)
        return Stats(self.ids, stats.n[order], stats.t[order], stats.h[order], stats.base)


@dataclass(frozen=True, slots=True)
class Renumber:
    """Give component i the id `ids[i]`. No two components get the same one."""

    ids: IntVec

    def on(self, stats: Stats) -> Stats:
        return replace(stats, ids=self.ids[stats.ids])


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a component with all its mass."""

    component_id: int

    def on(self, stats: Stats) -> Stats:
        keep = stats.ids != stats.ids[stats.position(self.component_id)]
        return Stats(stats.ids[keep], stats.n[keep], stats.t[keep], stats.h[keep], stats.base)


@dataclass(frozen=True, slots=True)
class Merge:
    """Add the component `drop` to `keep`.

    `entropy_loss` is the fall of the entropy of assignments when the two become one. It is
    sum_n (a + b) H2(a / (a + b)) over the rows of the statistics, where a and b are the
    responsibilities of the two components. It adds up over batches, as all statistics do.
    """

    keep: int
    drop: int
    entropy_loss: float

    def on(self, stats: Stats) -> Stats:
        j, k = stats.position(self.keep), stats.position(self.drop)
        if j == k:
            raise ValueError(f"component {self.keep} cannot be merged with itself")
        n, t, h = stats.n.copy(), stats.t.copy(), stats.h.copy()
        n[j] += n[k]
        t[j] += t[k]
        h[j] += h[k] - self.entropy_loss
        return Delete(self.drop).on(Stats(stats.ids, n, t, h, stats.base))


@dataclass(frozen=True, slots=True)
class Split:
    """Empty the component `target` and append the `parts` its mass has moved to."""

    target: int
    parts: Stats

    def on(self, stats: Stats) -> Stats:
        k = stats.position(self.target)
        n, t, h = stats.n.copy(), stats.t.copy(), stats.h.copy()
        n[k], t[k], h[k] = 0.0, 0.0, 0.0
        return Grow(self.parts).on(Stats(stats.ids, n, t, h, stats.base))


@dataclass(frozen=True, slots=True)
class Grow:
    """Append components, with the mass that `parts` gives them."""

    parts: Stats

    def on(self, stats: Stats) -> Stats:
        if np.isin(self.parts.ids, stats.ids).any():
            raise ValueError(
                f"ids {self.parts.ids.tolist()} are already in use: {stats.ids.tolist()}"
            )
        return Stats(
            np.concatenate([stats.ids, self.parts.ids]),
            np.concatenate([stats.n, self.parts.n]),
            np.concatenate([stats.t, self.parts.t]),
            np.concatenate([stats.h, self.parts.h]),
            stats.base,
        )


LAST = -1
"""The height of a last part that is the sum of any number of leaves."""


class TreeSum(Generic[S]):
    """A sum in a fixed binary tree over the order of its parts: the same bits on every engine.

    Parts are added as soon as they come, so of n parts only some log2(n) sums are alive.
    """

    def __init__(self) -> None:
        self._pending: list[tuple[int, S]] = []  # sums of 2 ** height leaves, heights decreasing

    def add(self, part: S, height: int = 0) -> None:
        """Add a part.

        It may be a sum itself: of 2 ** height leaves, which begin at a multiple of that number.
        The last part may have any number of leaves if its height is `LAST`.
        """
        while self._pending and self._pending[-1][0] == height:
            part = self._pending.pop()[1] + part
            height += 1
        self._pending.append((height, part))

    def result(self) -> S:
        """The sum of all parts. Call it once."""
        if not self._pending:
            raise ValueError("nothing to sum")
        result = self._pending.pop()[1]
        while self._pending:
            result = self._pending.pop()[1] + result
        return result


def total(parts: Iterable[S], heights: Iterable[int] | None = None) -> S:
    """The `TreeSum` of parts, which may be sums of 2 ** height leaves themselves."""
    whole = TreeSum[S]()
    for part, height in zip(parts, repeat(0) if heights is None else heights, strict=False):
        whole.add(part, height)
    return whole.result()
