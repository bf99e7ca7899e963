"""Ventures: births that cost at first, tried out for a few laps and undone unless they pay.

A birth is judged while only the rows of its target may move. Where components overlap, much of
its worth shows when the neighbours' rows have moved as well, so that every single birth may be
refused although three of them together raise the bound by hundreds of nats. A venture accepts the
few proposals that cost least, lets laps without births heal what can be healed, and goes
back to where it came from if the bound is no higher then; states are frozen, so nothing needs to
be undone. Seen from outside it is one move, and like every move it never lowers the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from everlearn.inference.learners.memoized import LapInfo, MoveSettings, lap
from everlearn.inference.local.runner import LocalRunner
from everlearn.inference.moves.birth import ATTEMPTS
from everlearn.inference.state import State, Trial

MOST_LAPS = 4
"""Laps of a venture: one that carries the births, the others to heal."""
_SHARE = 8
"""One component in so many may be split at any cost."""


@dataclass(frozen=True, slots=True)
class Venture:
    """Where a venture ended, the laps it took, and what it did, or None if it was given up."""

    state: State
    n_laps: int
    info: LapInfo | None


def venture(state: State, runner: LocalRunner, moves: MoveSettings, number: int) -> Venture:
    """Try births that cost; `number` says how parts are sought, as in the attempts of a birth."""
    before = state.bound()
    births = replace(moves.births, least_parts=2)
    bold = replace(moves, births=births, n_bold=-(-len(state.total) // _SHARE))
    heal = replace(moves, kinds=moves.kinds - {"birth"})
    trials = {
        int(i): Trial(number % len(ATTEMPTS), float(n))
        for i, n in zip(state.total.ids, state.total.n, strict=True)
    }
    found, info = lap(replace(state, birth_trials=trials, delete_trials={}), runner, bold)
    records = list(info.moves)
    n_laps = 1
    while n_laps < MOST_LAPS and info.bound <= before and any(m.accepted for m in records):
        found, info = lap(found, runner, heal)
        records += info.moves
        n_laps += 1
    if info.bound - before <= moves.margin * abs(before):
        return Venture(replace(state, clock=found.clock), n_laps, None)
    kept = {i: t for i, t in state.birth_trials.items() if i in found.total.ids}
    found = replace(found, birth_trials=kept)
    return Venture(found, n_laps, replace(info, moves=tuple(records), settled=False))
