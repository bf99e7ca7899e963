"""A mixture learner's bookkeeping, with every responsibility of every row kept.

The library keeps sums. The ledger keeps the rows, sealed ones too, and one column of
responsibilities a component; it follows a run by doing to columns what the run says it did to
components, and sums anew whenever it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everlearn.core.random import stream
from everlearn.core.stats import Permute, Stats, total
from everlearn.engine.rows import Rows, concatenate
from everlearn.mixture.births import propose
from everlearn.mixture.model import by_mass
from oracles.runs import scores, softmax, statistics


@dataclass
class Kept:
    """Some rows, their responsibilities by component id, and the scores they come from."""

    rows: Rows
    columns: dict[int, np.ndarray]
    scores: dict[int, np.ndarray]

    def copy(self):
        """The same, free to be edited: columns are replaced, never changed."""
        return Kept(self.rows, dict(self.columns), self.scores)

    def column(self, component):
        return self.columns.get(component, np.zeros(len(self.rows)))

    def matrix(self, order):
        return np.column_stack([self.column(i) for i in order])


class Ledger:
    """Open and sealed rows with their responsibilities, components in the order of sticks."""

    def __init__(self, model, order):
        self.model, self.order = model, list(order)
        self.open, self.sealed = [], []
        self.exact = True
        """No component with a sealed past has been merged: sums can know what merges cost."""

    @classmethod
    def of(cls, state, posterior):
        """A ledger of the open batches of a state, all of them assigned at one posterior."""
        ledger = cls(state.model, state.total.ids.tolist())
        ledger.open = [ledger.assigned(b.rows, posterior) for b in state.batches]
        return ledger

    def copy(self):
        other = Ledger(self.model, self.order)
        other.open = [kept.copy() for kept in self.open]
        other.sealed = [kept.copy() for kept in self.sealed]
        return other

    # ------------------------------------------------------------------ sums

    def stats(self, kept):
        return statistics(self.model.family, kept.rows, kept.matrix(self.order), self.order)

    @property
    def total(self):
        nothing = Stats.zeros(np.array(self.order), self.model.family.n_stats)
        return total([nothing, *(self.stats(k) for k in [*self.sealed, *self.open])])

    def bound(self):
        """The bound as the components stand."""
        return self.model.bound(self.total)

    def best_bound(self):
        """The bound with the components sorted by mass."""
        stats = self.total
        return self.model.bound(Permute(by_mass(stats)).on(stats))

    # ---------------------------------------------------------------- visits

    def assigned(self, rows, posterior=None):
        posterior = posterior or self.model.posterior(self.total)
        W = scores(self.model.family, posterior, rows)
        R = softmax(W)
        ids = posterior.ids.tolist()
        return Kept(rows, dict(zip(ids, R.T, strict=True)), dict(zip(ids, W.T, strict=True)))

    def visit(self, position):
        self.open[position] = self.assigned(self.open[position].rows)

    def arrive(self, rows, joins_last):
        """New rows, assigned as things stand, in the last open batch or in their own."""
        new = self.assigned(rows)
        if joins_last:
            last = self.open.pop()
            columns = {
                i: np.concatenate([last.column(i), new.column(i)])
                for i in set(last.columns) | set(new.columns)
            }
            new = Kept(concatenate([last.rows, rows]), columns, {})
        self.open.append(new)

    def catch_up(self, state):
        """Take in the rows that a state has got since, in one piece."""
        known = sum(len(k.rows) for k in self.open)
        if state.n_open > known:
            everything = concatenate([b.rows for b in state.batches])
            self.arrive(everything[known:], len(state.batches) == len(self.open))

    def seal(self):
        """The oldest open batch is visited a last time and closed."""
        self.visit(0)
        self.sealed.append(self.open.pop(0))

    # ----------------------------------------------------------------- moves

    def merge(self, keep, drop):
        for kept in [*self.sealed, *self.open]:
            kept.columns[keep] = kept.column(keep) + kept.column(drop)
            kept.columns.pop(drop, None)
        self.order.remove(drop)

    def delete(self, component):
        """Open rows of the component go to the others; sealed ones must have none."""
        assert all(k.column(component).sum() == 0.0 for k in self.sealed)
        for kept in self.open:
            others = [i for i in kept.scores if i != component]
            W = np.column_stack([kept.scores[i] for i in others])
            moved = softmax(W)
            touched = kept.column(component) > 0.0
            for i, r in zip(others, moved.T, strict=True):
                kept.columns[i] = np.where(touched, r, kept.column(i))
            del kept.columns[component]
        for kept in self.sealed:
            kept.columns.pop(component, None)
        self.order.remove(component)

    def split(self, target, parts, added):
        """Open rows of the target go to the parts, or back to it if their part was not added."""
        for kept in self.open:
            shares = softmax(scores(self.model.family, parts, kept.rows))
            old = kept.column(target)
            kept.columns[target] = np.zeros(len(kept.rows))
            for i, g in zip(parts.ids.tolist(), shares.T, strict=True):
                place = i if i in added else target
                kept.columns[place] = kept.column(place) + old * g
        self.order += added
        if all(k.column(target).sum() == 0.0 for k in [*self.open, *self.sealed]):
            self.order.remove(target)

    def carry_out(self, move, proposals):
        """Do what a record of a move says."""
        if move.kind == "merge":
            self.merge(*move.added, *move.removed)
        elif move.kind == "delete":
            self.delete(*move.removed)
        else:
            (target,) = move.removed
            self.split(target, proposals[target].parts, list(move.added))

    def follow(self, before, after, info, runner, moves):
        """Replay a lap; returns (record, gain by this ledger, exact) for each judged move.

        `exact` says whether sums could know the gain, or only a lower bound of it.
        """
        proposals = {}
        if "birth" in moves.kinds:
            proposals = {p.target: p for p in propose(before, runner, moves.births)[0]}
        order = stream(before.seed, "order", before.clock).permutation(len(before.batches))
        for position in order.tolist():
            self.visit(position)
        gains, undeleted = [], None
        for move in info.moves:
            if move.kind == "delete":  # these are all judged at once
                undeleted = undeleted or self.copy()
            trial = (undeleted if move.kind == "delete" else self).copy()
            now = trial.best_bound()
            trial.carry_out(move, proposals)
            gains.append((move, trial.best_bound() - now, self.exact))
            if move.accepted:
                self.carry_out(move, proposals)
                self.exact = self.exact and not self._merged_past(move)
        self.settle(after.total.ids.tolist())
        return gains

    def settle(self, order):
        """Take over the order of a state, which may have let go of all but empty components."""
        assert set(order) <= set(self.order)
        for component in set(self.order) - set(order):
            held = [*self.sealed, *self.open]
            assert sum(kept.column(component).sum() for kept in held) < 2e-8
        self.order = order

    def _merged_past(self, move):
        """Whether a merge has pooled sealed rows, whose pairs can only be bounded from now on."""
        return move.kind == "merge" and any(k.column(*move.added).any() for k in self.sealed)
