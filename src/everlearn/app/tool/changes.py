"""What a batch did to a model, for its line of the run log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from everlearn.core.arrays import IntVec


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Ids of a model's components, and moves that it has accepted so far, as far as it tells."""

    ids: IntVec
    n_moves: int

    @classmethod
    def of(cls, model: Any) -> Self:
        """As it is now."""
        counts = getattr(getattr(model, "history_", None), "counts", {})
        n_moves = sum(n for name, n in counts.items() if name.endswith("accepted"))
        return cls(np.asarray(getattr(model, "component_ids_", ()), np.int64), n_moves)

    def changes(self, model: Any) -> dict[str, Any]:
        """Components that have come and gone since, and the moves that did it."""
        now, line = Standing.of(model), {}
        if not np.array_equal(self.ids, now.ids):
            born, gone = np.setdiff1d(now.ids, self.ids), np.setdiff1d(self.ids, now.ids)
            line = {"born": born.tolist()} if len(born) else {}
            line |= {"gone": gone.tolist()} if len(gone) else {}
        if new := now.n_moves - self.n_moves:
            line["moves"] = [
                {"kind": m.kind, "removed": list(m.removed), "added": list(m.added), "gain": m.gain}
                for m in model.history_.moves[-new:]
            ]
        return line
