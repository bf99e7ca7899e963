"""The parameters of `Clusters`, checked and typed for one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from everlearn.clusters.codebook import N_CODEBOOKS, codebook_size
from everlearn.clusters.ladder import RESOLUTIONS
from everlearn.clusters.sample import MOST_ROWS
from everlearn.clusters.units import MAX_AXES

FEWEST_SAMPLE_ROWS: Final = 200
_LINKS_EACH: Final = 90
"""Links of a prototype, a generous guess. They take 16 bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClustersSettings:
    """All parameters for one call.

    Attributes
    ----------
    owner : name of the estimator, for messages
    n_clusters : number of clusters, or None to find it
    memory_budget : bytes that the model may hold, or None
    """

    owner: str
    n_clusters: int | None
    memory_budget: int | None

    def most_rows(self, n_columns: int) -> int:
        """Rows of the sample that the budget allows."""
        budget = self.memory_budget
        if budget is None or needed_bytes(MOST_ROWS, n_columns) <= budget:
            return MOST_ROWS
        fewest = needed_bytes(FEWEST_SAMPLE_ROWS, n_columns)
        if fewest > budget:
            raise ValueError(
                f"the 'memory_budget' parameter of {self.owner} must be at least {fewest:,} bytes "
                f"for {n_columns:,} columns, so that {FEWEST_SAMPLE_ROWS} rows fit. "
                f"Got {budget:,} bytes instead."
            )
        low, high = FEWEST_SAMPLE_ROWS, MOST_ROWS
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (middle, high) if needed_bytes(middle, n_columns) <= budget else (low, middle)
            )
        return low


def needed_bytes(n_rows: int, n_columns: int) -> int:
    """Bytes of a model with a sample of this size."""
    width = min(n_columns, MAX_AXES)
    axes = 8 * n_columns * MAX_AXES if n_columns > MAX_AXES else 0
    each = 8 * width + 16 * _LINKS_EACH + 4 * len(RESOLUTIONS)
    return n_rows * 8 * (n_columns + 1) + axes + N_CODEBOOKS * codebook_size(n_rows) * each
