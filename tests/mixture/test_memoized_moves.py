"""Moves within laps: every gain is that of a ledger which keeps all responsibilities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.engine.rows import Rows
from everlearn.mixture.local import Plan
from everlearn.mixture.memoized import lap, open_batches
from everlearn.mixture.state import State
from everlearn.mixture.streaming import seal_all, seal_oldest
from oracles.cases import named
from oracles.ledger import Ledger
from oracles.runs import (
    PLAIN,
    SOME,
    lively,
    model_of,
    never_falls,
    random_posterior,
    rows_of,
    runner_of,
    started,
)

STARTS = {"birth": 1, "merge": 8, "delete": 14}
LAPS = {"birth": 2, "merge": 4, "delete": 5}


def begun(case, n_batches, k, seed=0, weighted=False, sealed=0):
    """A state, its runner and its ledger; the first few batches are sealed."""
    runner = runner_of(case)
    state = started(case, n_batches, k, seed, weighted, runner)
    posterior = random_posterior(state.model, rows_of(case, weighted), k, seed)
    ledger = Ledger.of(state, posterior)
    for _ in range(sealed):
        state = seal_oldest(state, runner)
        ledger.seal()
    return state, runner, ledger


def followed(state, runner, ledger, moves, n_laps):
    """Laps with the ledger alongside; checks each gain and bound, returns all that was judged."""
    judged = []
    for _ in range(n_laps):
        after, info = lap(state, runner, moves)
        tolerance = 1e-9 * abs(info.bound)
        for move, gain, exact in ledger.follow(state, after, info, runner, moves):
            assert move.gain <= gain + tolerance, move
            assert not exact or move.gain >= gain - tolerance, move
            judged.append(move)
        assert info.bound <= ledger.bound() + tolerance
        assert not ledger.exact or info.bound >= ledger.bound() - tolerance
        state = after
    return state, judged


def accepted(judged, kind):
    return sum(move.accepted for move in judged if move.kind == kind)


class TestGains:
    @pytest.mark.parametrize("kind", STARTS)
    def test_each_kind_alone(self, case, kind):
        state, runner, ledger = begun(case, 3, STARTS[kind], 1)
        moves = lively(kinds=frozenset([kind]))
        _, judged = followed(state, runner, ledger, moves, LAPS[kind])
        assert accepted(judged, kind)
        assert {move.kind for move in judged} == {kind}

    def test_all_together(self, case):
        state, runner, ledger = begun(case, 3, 5, weighted=True)
        _, judged = followed(state, runner, ledger, lively(), 5)
        assert any(move.accepted for move in judged)

    @pytest.mark.parametrize("kind", STARTS)
    def test_with_a_sealed_past(self, case, kind):
        """Births leave it where it is, merges pool it, deletes keep away from it."""
        state, runner, ledger = begun(case, 6, STARTS[kind], 1, weighted=True, sealed=2)
        past = state.sealed.stats
        state, judged = followed(state, runner, ledger, lively(kinds=frozenset([kind])), LAPS[kind])
        assert_allclose(state.sealed.stats.n.sum(), past.n.sum(), rtol=1e-12)
        if kind == "birth":
            assert accepted(judged, kind)
            assert set(past.ids.tolist()) <= set(state.total.ids.tolist())
        if kind == "merge":
            assert accepted(judged, kind)
        if kind == "delete":
            assert not {move.removed[0] for move in judged} & set(past.ids[past.n > 0].tolist())


class TestMonotone:
    @pytest.mark.parametrize(("k", "sealed"), [(1, 0), (10, 2)])
    def test_the_bound_never_falls(self, case, k, sealed):
        state, runner, _ = begun(case, 5, k, 2, weighted=k > 1, sealed=sealed)
        bounds = [state.bound()]
        for _ in range(6):
            state, info = lap(state, runner, lively())
            bounds.append(info.bound)
        assert never_falls(bounds)
        assert bounds[-1] > bounds[0]

    @named(SOME)
    def test_accepted_gains_are_what_the_bound_rises_by(self, case, runner):
        """From the statistics after the visits, in their best order, to the end of the lap."""
        state = started(case, 3, 1, runner=runner)
        for _ in range(5):
            plain, _ = lap(state, runner, lively(kinds=frozenset()))
            state, info = lap(state, runner, lively())
            gains = sum(move.gain for move in info.moves if move.accepted)
            assert_allclose(info.bound, plain.bound() + gains, rtol=1e-9)

    def test_groups_are_found(self, case, runner):
        """From one component the bound rises well above that of one component."""
        state = started(case, 3, 1, runner=runner)
        alone, _ = lap(state, runner, lively(kinds=frozenset()))
        for _ in range(6):
            state, info = lap(state, runner, lively())
        assert info.n_components >= 3
        assert info.bound > alone.bound() + 50.0


class TestRules:
    @named(SOME)
    def test_ids_are_never_used_twice(self, case, runner):
        state, gone, seen = started(case, 3, 6, runner=runner), set(), set(range(6))
        for _ in range(8):
            before = set(state.total.ids.tolist())
            state, _ = lap(state, runner, lively())
            after = set(state.total.ids.tolist())
            assert not (after - before) & seen
            gone |= before - after
            seen |= after
            assert not after & gone
            assert state.next_id > max(seen)

    @named(SOME)
    @pytest.mark.parametrize("most", [1, 2, 3])
    def test_there_are_never_more_components_than_allowed(self, case, runner, most):
        state = started(case, 3, 1, runner=runner)
        for _ in range(6):
            state, info = lap(state, runner, lively(max_components=most))
            assert info.n_components <= most

    def test_a_sealed_past_takes_its_place(self):
        """A component whose open rows are two new groups stays for its sealed ones."""
        rng, runner = np.random.default_rng(0), runner_of(PLAIN)
        old, new = rng.normal(0.0, 0.5, (80, 2)), rng.normal(0.0, 0.5, (80, 2))
        new += np.where(np.arange(80)[:, None] % 2, [30.0, 30.0], [-30.0, 30.0])
        empty = State.empty(model_of(PLAIN), 0)
        sealed = seal_all(open_batches(empty, empty.posterior(), [Rows(old)], runner), runner)
        state = open_batches(sealed, sealed.posterior(), [Rows(new)], runner)
        crowded, info = lap(state, runner, lively(max_components=2))
        assert [m.accepted for m in info.moves if m.kind == "birth"] == [False]
        assert len(crowded.total) == 1
        after, _ = lap(state, runner, lively(max_components=3))
        assert_allclose(after.total.n, [80.0, 40.0, 40.0], atol=0.1)

    @named(SOME)
    def test_a_component_takes_part_in_one_accepted_move(self, case, runner):
        state = started(case, 3, 8, seed=5, runner=runner)
        for _ in range(4):
            state, info = lap(state, runner, lively())
            moves = [m for m in info.moves if m.accepted]
            parts = [i for m in moves for i in (*m.removed, *m.added)]
            assert len(parts) == len(set(parts))
            assert {"birth", "delete"} - {m.kind for m in moves}

    def test_a_margin_must_be_exceeded(self):
        runner = runner_of(PLAIN)
        _, info = lap(started(PLAIN, 3, 8, runner=runner), runner, lively(margin=1e3))
        assert len(info.moves) > 0
        assert not any(move.accepted for move in info.moves)

    def test_few_pairs_and_deletes_at_a_time(self):
        state, runner, _ = begun(PLAIN, 3, 25)
        for kind, limits in [("merge", {"max_pairs": 2}), ("delete", {"max_deletes": 1})]:
            many, few = (
                lap(state, runner, lively(kinds=frozenset([kind]), **limited))[1].moves
                for limited in ({}, limits)
            )
            assert 1 <= len(few) <= next(iter(limits.values())) < len(many)

    @named(SOME)
    def test_laps_settle(self, case, runner):
        """At last there is nothing left to try, and a lap repeats itself."""
        state = started(case, 2, 1, runner=runner)
        for _ in range(40):
            state, info = lap(state, runner, lively())
            if info.settled:
                break
        assert info.settled
        assert not any(move.accepted for move in info.moves)
        _, again = lap(state, runner, lively())
        assert_allclose(again.bound, info.bound, rtol=1e-6)

    def test_accepted_births_are_in_the_state(self, case, runner):
        state = started(case, 3, 1, runner=runner)
        state, info = lap(state, runner, lively())
        births = [m for m in info.moves if m.kind == "birth" and m.accepted]
        merged = {m.removed[0] for m in info.moves if m.kind == "merge" and m.accepted}
        assert births
        for move in births:
            assert {*move.removed, *move.added} - merged <= set(state.total.ids.tolist())
        labels = np.concatenate([batch.labels for batch in state.batches])
        assert np.isin(labels, state.total.ids).all()
        _, now = runner.run(state.posterior(), Plan(), rows_of(case))
        assert (labels == now).mean() > 0.8
