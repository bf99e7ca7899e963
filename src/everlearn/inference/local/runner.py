"""A local step over any number of rows: cut into blocks, run by an engine, summed in order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import IntVec, Labels
from everlearn.core.mixture import MixturePosterior
from everlearn.core.stats import Stats, total
from everlearn.inference.chunks import ChunkedRows, KeptLabels
from everlearn.inference.engine import Engine
from everlearn.inference.local.mixture import MixtureStep, weighted
from everlearn.inference.local.tracking import KeepingStep, Plan, Summary, TrackedStep
from everlearn.inference.rows import Rows

MAX_BLOCK_ROWS = 4096
_MIN_BLOCK_ROWS = 32
_ROWS_PER_COMPONENT = 8
_PREPARED_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Runs a step on an engine, in blocks whose features take about `block_bytes`."""

    step: MixtureStep
    engine: Engine
    block_bytes: int = 2_000_000

    def block_rows(self, n_components: int) -> int:
        """Rows of a block. It depends on the model alone, so results never depend on engines.

        Blocks fit the cache, but have several rows for each component: otherwise adding up
        their statistics would take longer than making them.
        """
        width = self.step.family.n_stats + n_components
        fitting = self.block_bytes // (np.dtype(self.step.dtype).itemsize * width)
        wanted = max(fitting, _ROWS_PER_COMPONENT * n_components)
        return int(np.clip(wanted, _MIN_BLOCK_ROWS, MAX_BLOCK_ROWS))

    def run(
        self, posterior: MixturePosterior, plan: Plan, rows: Rows | ChunkedRows
    ) -> tuple[Summary, Labels | KeptLabels]:
        """Summary of all rows, and the id of the likeliest component of each."""
        blocks = rows.pieces(self.block_rows(len(posterior)))
        if isinstance(rows, ChunkedRows):
            task = KeepingStep(TrackedStep(self.step))
            summary, kept = self.engine.map_sum_kept(task, blocks, (posterior, plan))
            return summary, KeptLabels(tuple(kept))
        summary, labels = self.engine.map_sum(TrackedStep(self.step), blocks, (posterior, plan))
        return summary, np.concatenate(labels)

    def here(self) -> LocalRunner:
        """The same within this process, for rows that are not worth sending elsewhere."""
        return replace(self, engine=self.engine.here)

    @property
    def prepared_rows(self) -> int:
        """Rows whose features may be kept for a while."""
        return _PREPARED_BLOCKS * self.block_rows(0)

    def prepared(self, rows: Rows) -> Rows:
        """Rows that keep their features, if these take a few blocks at most."""
        if len(rows) > self.prepared_rows:
            return rows
        return replace(rows, features=self.step.features(rows))

    def hard_stats(self, rows: Rows, labels: IntVec, ids: IntVec) -> Stats:
        """Statistics when each row belongs to the component whose position its label gives."""
        size = self.block_rows(len(ids))
        parts = []
        for start in range(0, len(rows), size):
            block, where = rows[start : start + size], labels[start : start + size]
            r = (where[:, None] == np.arange(len(ids))).astype(self.step.dtype)
            features = self.step.features(block)
            shares = weighted(r, block.weights)
            parts.append(
                self.step.summarize(
                    ids, features, shares, np.zeros(len(ids)), self.step.log_base(block)
                )
            )
        return total(parts)
