"""What it costs, at the beliefs of now, that the points of a clump share their topics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everlearn.core.arrays import Labels, Mat, Vec
from everlearn.inference.clumped_topics import GroupedModel, Topics
from everlearn.inference.clumps import Items, clumped
from everlearn.inference.local.clumps import assigned


@dataclass(frozen=True, slots=True)
class Tying:
    """Items, and fixed beliefs: natural parameters, and a bias per group and topic."""

    items: Items
    eta: Mat
    bias: Mat

    @classmethod
    def of(cls, model: GroupedModel, topics: Topics, sizes: Vec, items: Items) -> Tying:
        """At the beliefs that these topics are."""
        return cls(items, *topics.beliefs(model, sizes))

    def worth(self, sets: Labels, n_sets: int) -> Vec:
        """What the items of each set add to the bound as one clump; -1 is no set."""
        clumps = clumped(self.items, sets, n_sets)
        return np.asarray(clumps.mass * assigned(self.eta, self.bias, clumps).log_norm)

    def contrast(self, sets: Labels, n_sets: int) -> tuple[Mat, Vec]:
        """Slope and offset of a function of features that is positive for half of a set.

        These items are for the set's likeliest topic against its second more than the mean item.
        """
        clumps = clumped(self.items, sets, n_sets)
        best = assigned(self.eta, self.bias, clumps).topics
        slope = self.eta[best[:, 0]] - self.eta[best[:, min(1, best.shape[1] - 1)]]
        return slope, -np.einsum("lp,lp->l", slope, clumps.features)
