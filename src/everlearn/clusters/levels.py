"""What users see of the ladder: `Levels`, a table, and `Cut`, a view at another level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from everlearn.clusters.grouping import FEW, GIVEN, LARGEST_GAP, UNIMODAL, Grouping
from everlearn.clusters.joins import Join
from everlearn.core.arrays import Labels, Mat

_WHY: Final = {
    GIVEN: "n_clusters is given.",
    LARGEST_GAP: "This level cuts fewest links compared with one Gaussian.",
    UNIMODAL: "No level cuts clearly fewer links than one Gaussian would: one cluster.",
    FEW: "There are too few distinct rows to look for clusters: one cluster.",
}


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the ladder.

    Attributes
    ----------
    n_clusters : groups on this level
    effective : effective number of groups: fewer if some are large
    cut : share of the links between prototypes that the level cuts
    gap : how much less than one Gaussian of the same covariance it cuts
    is_default : whether the clusters were made from this level; none is for a single cluster
    """

    n_clusters: int
    effective: float
    cut: float
    gap: float
    is_default: bool


@dataclass(frozen=True, slots=True)
class Levels:
    """The ladder as a table, the coarsest level first. Print it.

    Attributes
    ----------
    levels : the levels
    n_clusters : clusters of the default cut
    joins : groups of the chosen level that were joined, because no valley divides them
    units : how distances were measured
    why : why this level was chosen
    """

    levels: tuple[Level, ...]
    n_clusters: int
    joins: tuple[Join, ...]
    units: str
    why: str

    @classmethod
    def of(cls, found: Grouping) -> Levels:
        """The table of a grouping."""
        default = found.chosen if found.reason in (GIVEN, LARGEST_GAP) else None
        levels = tuple(
            Level(rung.n_groups, rung.effective, rung.cut, float(gap), i == default)
            for i, (rung, gap) in enumerate(zip(found.rungs, found.gap, strict=True))
        )
        return cls(levels, found.n_groups, found.joins, found.units.kind, _WHY[found.reason])

    def __iter__(self) -> Iterator[Level]:
        return iter(self.levels)

    def __len__(self) -> int:
        return len(self.levels)

    def __getitem__(self, position: int) -> Level:
        return self.levels[position]

    def __str__(self) -> str:
        """The table, with the default level marked by an arrow."""
        lines = [f"  {'clusters':>8} {'effective':>9} {'links cut':>9} {'gap':>7}"]
        for level in self.levels:
            mark = ">" if level.is_default else " "
            lines.append(
                f"{mark} {level.n_clusters:>8,} {level.effective:>9.1f} {level.cut:>9.1%} "
                f"{level.gap:>7.3f}"
            )
        lines.append(self.why)
        if self.joins:
            ratios = ", ".join(f"{join.ratio:.2f}" for join in self.joins)
            lines.append(
                f"{len(self.joins)} joins leave {self.n_clusters:,} clusters; links across each "
                f"border, relative to a Gaussian's: {ratios}."
            )
        lines.append(f"Rows were measured {self.units}.")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Cut:
    """The clusters of a model at another level. It stays as it is when the model learns on.

    Attributes
    ----------
    n_clusters : number of clusters
    joins : groups of the next finer level that were joined to get there
    """

    n_clusters: int
    joins: tuple[Join, ...]
    _grouping: Grouping
    _groups: Labels
    _read: Callable[[Any], Mat]

    def predict(self, X: Any) -> Labels:
        """Cluster of each row.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Numbers from 0 to `n_clusters` - 1. They hold for this cut only.
        """
        return self._grouping.assign(self._read(X), self._groups)
