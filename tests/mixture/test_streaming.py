"""Streams: rows pass once, and the bound stays that of every row ever seen."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.stats import total
from everlearn.engine.rows import Rows
from everlearn.mixture import streaming
from everlearn.mixture.learner import Window
from everlearn.mixture.local import Plan
from everlearn.mixture.state import State
from everlearn.mixture.streaming import MemoizedLearner, seal_all, seal_oldest
from oracles.cases import named
from oracles.ledger import Ledger
from oracles.runs import (
    PLAIN,
    SOME,
    STILL,
    WINDOW,
    assert_stats,
    candidates_of,
    ignore,
    lively,
    model_of,
    random_posterior,
    rows_of,
    runner_of,
    started,
    tools_of,
)

absorb = MemoizedLearner().absorb


@pytest.fixture
def watched(monkeypatch):
    """A function that lets a ledger follow all laps and seals of a stream; returns the verdicts."""

    def follow(ledger):
        judged = []

        def lap(state, runner, moves, real=streaming.lap):
            ledger.catch_up(state)
            after, info = real(state, runner, moves)
            judged.extend(ledger.follow(state, after, info, runner, moves))
            return after, info

        def seal(state, runner, real=streaming.seal_oldest, **options):
            ledger.catch_up(state)
            ledger.seal()
            return real(state, runner, **options)

        monkeypatch.setattr(streaming, "lap", lap)
        monkeypatch.setattr(streaming, "seal_oldest", seal)
        return judged

    return follow


def by_first_feature(case):
    """Rows in an order in which the groups come one after the other."""
    key = np.nan_to_num(case.dense) @ np.linspace(1.0, 2.0, case.dense.shape[1])
    return rows_of(case)[np.argsort(key, kind="stable")]


class TestBound:
    def test_it_is_that_of_all_responsibilities(self, case, watched):
        """Groups come one after the other, so that components with a sealed past give birth."""
        runner, moves = runner_of(case), lively(kinds=frozenset({"birth", "delete"}))
        state = State.empty(model_of(case), 3)
        ledger = Ledger(state.model, state.total.ids.tolist())
        judged = watched(ledger)
        for piece in by_first_feature(case).blocks(20):
            state = absorb(state, piece, tools_of(runner, moves))
            ledger.catch_up(state)
            assert_allclose(state.bound(), ledger.bound(), rtol=1e-9)
            assert_stats(state.total, ledger.total, rtol=1e-8, atol=1e-6)
        for move, gain, _ in judged:
            assert_allclose(move.gain, gain, atol=1e-9 * abs(state.bound()))
        assert any(move.accepted for move, _, _ in judged)
        assert ledger.sealed

    def test_it_is_never_overstated_after_merges(self, case, watched):
        """Too many components are sealed as they are; then they may merge."""
        runner, half = runner_of(case), replace(case, X=case.X[:120])
        state = started(half, 6, 6, 1, True, runner)
        posterior = random_posterior(state.model, rows_of(half, True), 6, 1)
        ledger = Ledger.of(state, posterior)
        judged = watched(ledger)
        state = seal_all(state, runner)
        ledger.order = state.total.ids.tolist()
        assert_allclose(state.bound(), ledger.bound(), rtol=1e-9)
        for piece in rows_of(case, True)[120:].blocks(20):
            state = absorb(state, piece, tools_of(runner, lively()))
            ledger.catch_up(state)
            tolerance = 1e-9 * abs(state.bound())
            assert state.bound() <= ledger.bound() + tolerance
            assert not ledger.exact or state.bound() >= ledger.bound() - tolerance
        merges = [(move, gain, exact) for move, gain, exact in judged if move.kind == "merge"]
        assert any(move.accepted for move, _, _ in merges)
        for move, gain, exact in judged:
            assert move.gain <= gain + tolerance
            assert not exact or move.gain >= gain - tolerance

    def test_it_does_not_fall_while_nothing_comes(self, case, runner):
        """Sealing visits rows a last time, which can only help."""
        state = started(case, 6, 4, 1)
        bounds = [state.bound()]
        while state.batches:
            state = seal_oldest(state, runner)
            bounds.append(state.bound())
        assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[:-1])).all()


class TestSeal:
    def test_sealed_and_open_are_the_total(self, case, weighted):
        runner = runner_of(case)
        state = started(case, 4, 4, 0, weighted, runner)
        for n_left in (3, 2, 1, 0):
            state = seal_oldest(state, runner)
            assert len(state.batches) == n_left
            parts = [state.sealed.stats, *(b.stats for b in state.batches)]
            assert_stats(state.total, total(parts), atol=1e-8)
        assert_allclose(state.total.n.sum(), rows_of(case, weighted).mass, rtol=1e-12)

    def test_sealed_rows_stay_as_they_were_last_seen(self, case, runner):
        state = started(case, 4, 4)
        once = seal_oldest(state, runner)
        seen, _ = streaming.visit(once, 0, Plan(), runner)
        twice = seal_oldest(once, runner)
        assert_stats(twice.sealed.stats, once.sealed.stats + seen.batches[0].stats, atol=0)

    def test_losses_of_all_pairs_are_kept(self, case, runner):
        state = started(case, 3, 4)
        ledger = Ledger.of(state, random_posterior(state.model, rows_of(case), 4))
        for _ in range(2):
            state = seal_oldest(state, runner)
            ledger.seal()
        for j, a in enumerate(ledger.order):
            for k, b in enumerate(ledger.order):
                if a != b:
                    merged = ledger.copy()
                    merged.open = []
                    apart = merged.total.h.sum()
                    merged.merge(a, b)
                    lost = apart - merged.total.h.sum()
                    assert_allclose(state.sealed.pair_loss[j, k], lost, rtol=1e-8, atol=1e-8)
        assert_array_equal(np.diag(state.sealed.pair_loss), 0.0)

    def test_all(self, case, runner):
        state = replace(started(case, 3, 4), n_new=7)
        sealed = seal_all(state, runner)
        assert (sealed.n_open, sealed.n_new) == (0, 0)
        assert (np.diff(sealed.total.n) <= 0).all()
        assert_stats(sealed.total, sealed.sealed.stats, rtol=0, atol=0)


class TestWindow:
    @pytest.mark.parametrize("size", [7, 20, 50])
    @named((PLAIN, SOME[-1]))
    def test_no_more_rows_stay_open_than_allowed(self, case, size):
        runner, state = runner_of(case), State.empty(model_of(case), 0)
        seen = 0
        for piece in rows_of(case).blocks(size):
            state = absorb(state, piece, tools_of(runner, lively()))
            seen += len(piece)
            assert state.n_open <= WINDOW.rows
            assert all(len(b.rows) <= WINDOW.batch_rows for b in state.batches)
            assert_allclose(state.total.n.sum(), seen, rtol=1e-9)
            assert_allclose(state.sealed.stats.n.sum(), seen - state.n_open, rtol=1e-9)

    def test_the_last_rows_are_the_open_ones(self):
        runner, rows = runner_of(PLAIN), rows_of(PLAIN)
        state = absorb(State.empty(model_of(PLAIN), 0), rows, tools_of(runner, lively()))
        still_open = np.concatenate([b.rows.X for b in state.batches])
        assert_array_equal(still_open, PLAIN.X[-len(still_open) :])
        assert WINDOW.rows - WINDOW.batch_rows < len(still_open) <= WINDOW.rows

    def test_rows_given_are_not_kept(self):
        """The caller may use the memory for the next rows."""
        X = PLAIN.X[:40].copy()
        empty = State.empty(model_of(PLAIN), 0)
        state = absorb(empty, Rows(X), tools_of(runner_of(PLAIN), STILL))
        X[:] = np.nan
        assert_array_equal(np.concatenate([b.rows.X for b in state.batches]), PLAIN.X[:40])

    def test_laps_come_when_half_of_the_window_is_new(self):
        laps, runner, state = [], runner_of(PLAIN), State.empty(model_of(PLAIN), 0)
        for piece in rows_of(PLAIN)[:200].blocks(10):
            renewed = len(laps)
            due = 2 * (state.n_new + 10) >= state.n_open + 10
            state = absorb(state, piece, tools_of(runner, STILL, on_lap=laps.append))
            assert (len(laps) > renewed) == due
        assert 5 <= len(laps) < 20

    @named(SOME)
    def test_sealed_rows_stay_as_they_were(self, case, runner):
        """A stream goes on, and what is sealed only grows."""
        state = State.empty(model_of(case), 0)
        pieces = rows_of(case).blocks(20)
        for piece in pieces[:8]:
            state = absorb(state, piece, tools_of(runner, lively()))
        past = state.sealed.stats
        after = absorb(state, pieces[8], tools_of(runner, STILL)).sealed.stats
        assert_allclose(after.n.sum(), past.n.sum() + 20.0, rtol=1e-9)
        still = [after.position(int(i)) for i in past.ids]
        assert (after.n[still] >= past.n - 1e-12).all()
        assert (after.h[still] >= past.h - 1e-12).all()


class TestLateGroup:
    """Two groups for a long time, then a third one."""

    rng = np.random.default_rng(0)
    EARLY = np.where(rng.random((300, 1)) < 0.5, -6.0, 6.0) + rng.normal(0.0, 0.5, (300, 2))
    LATE = np.array([6.0, -6.0]) + rng.normal(0.0, 0.5, (60, 2))

    @pytest.fixture
    def early(self):
        state, runner = State.empty(model_of(PLAIN), 1), runner_of(PLAIN)
        return absorb(state, Rows(self.EARLY), tools_of(runner, lively()))

    @staticmethod
    def filled(state):
        """Ids of the components that hold at least one row."""
        return set(state.total.ids[state.total.n >= 1.0].tolist())

    def test_it_is_born_and_the_old_ones_keep_their_ids(self, early):
        assert (early.sealed.stats.n > 50).sum() == 2
        runner, moves = runner_of(PLAIN), []
        tools = tools_of(runner, lively(), on_lap=lambda info: moves.extend(info.moves))
        late = absorb(early, Rows(self.LATE), tools)
        assert any(m.kind == "birth" and m.accepted for m in moves)
        assert self.filled(early) < self.filled(late)
        (born,) = self.filled(late) - self.filled(early)
        assert born >= early.next_id
        k = late.total.position(born)
        family = late.model.family
        means = family.means(family.posterior(late.total.n, late.total.t))
        assert_allclose(means[k], [6.0, -6.0], atol=0.5)
        assert_allclose(late.total.n[k], 60.0, atol=1.0)

    def test_rows_that_join_a_batch_bring_their_labels(self, early):
        """A few rows of one group, then of the other, and no lap in between."""
        state, runner, window = replace(early, n_new=0), runner_of(PLAIN), Window(100, 20)
        for sign in (-1.0, 1.0):
            few = Rows(sign * 6.0 + self.rng.normal(0.0, 0.5, (5, 2)))
            state = absorb(state, few, tools_of(runner, lively(), window))
        assert state.clock == early.clock
        last = state.batches[-1]
        assert_array_equal(np.sign(last.rows.X[-10:, 0]), np.repeat([-1.0, 1.0], 5))
        family, stats = early.model.family, early.total
        means = family.means(family.posterior(stats.n, stats.t))[:, 0]
        left, right = stats.ids[means.argmin()], stats.ids[means.argmax()]
        assert_array_equal(last.labels[-10:], np.repeat([left, right], 5))

    def test_labels_point_to_it(self, early):
        runner = runner_of(PLAIN)
        late = absorb(early, Rows(self.LATE), tools_of(runner, lively()))
        (born,) = self.filled(late) - self.filled(early)
        seen, _ = streaming.visit(late, len(late.batches) - 1, Plan(), runner)
        assert (seen.batches[-1].labels == born).all()


@named(SOME)
def test_ids_are_never_used_twice(case, runner):
    state, seen, gone = State.empty(model_of(case), 2), {0}, set()
    for piece in by_first_feature(case).blocks(20):
        before = set(state.total.ids.tolist())
        state = absorb(state, piece, tools_of(runner, lively()))
        after = set(state.total.ids.tolist())
        assert not after & gone
        assert all(i > max(seen) for i in after - seen)
        gone |= (before | after) - after
        seen |= after
        assert state.next_id > max(seen)


class TestBegin:
    """The first rows, in which components are searched for."""

    @staticmethod
    def begun(case, parts, empty=None, window=WINDOW, on_lap=ignore):
        empty = State.empty(model_of(case), 3) if empty is None else empty
        tools = tools_of(runner_of(case), lively(), window, on_lap=on_lap)
        return MemoizedLearner().begin(candidates_of(case), empty, parts, tools)

    @named(SOME)
    def test_more_rows_than_the_window_holds(self, case):
        state = self.begun(case, [(rows_of(case), None)]).state
        assert state.n_open <= WINDOW.rows
        assert all(len(b.rows) <= WINDOW.batch_rows for b in state.batches)
        assert_allclose(state.total.n.sum(), len(case), rtol=1e-9)
        assert_allclose(state.sealed.stats.n.sum(), len(case) - state.n_open, rtol=1e-9)

    @pytest.mark.parametrize("n", [1, 19, 20, 60])
    def test_rows_that_the_window_holds_stay_open(self, n):
        told = []
        begun = self.begun(PLAIN, [(rows_of(PLAIN)[:n], None)], on_lap=told.append)
        state = begun.state
        assert (state.n_open, state.n_new) == (n, 0)
        assert begun.laps == tuple(told)
        assert_array_equal(np.concatenate([b.rows.X for b in state.batches]), PLAIN.X[:n])

    def test_a_window_smaller_than_a_batch(self):
        state = self.begun(PLAIN, [(rows_of(PLAIN)[:50], None)], window=Window(3, 20)).state
        assert len(state.batches) == 1
        assert_allclose(state.total.n.sum(), 50.0, rtol=1e-9)

    def test_each_batch_keeps_its_name(self):
        rows = rows_of(PLAIN)
        parts = [(rows[:30], "a"), (rows[30:55], None), (rows[55:60], 7)]
        state = self.begun(PLAIN, parts).state
        assert [b.name for b in state.batches] == ["a", "a", None, None, 7]
        assert [len(b.rows) for b in state.batches] == [20, 10, 20, 5, 5]

    def test_named_rows_beyond_the_window_can_be_forgotten(self):
        rows = rows_of(PLAIN)
        state = self.begun(PLAIN, [(rows[:100], "a"), (rows[100:], "b")]).state
        left, n = streaming.forget_batch(state, "a")
        assert n == 100
        assert_allclose(left.total.n.sum(), len(PLAIN) - 100, rtol=1e-9)

    @named(SOME)
    def test_ids_and_clock_go_on_counting(self, case):
        empty = replace(State.empty(model_of(case), 3, next_id=17), clock=5)
        begun = self.begun(case, [(rows_of(case)[:60], None)], empty)
        assert begun.state.seed == 3
        assert begun.state.total.ids.min() >= 17
        assert begun.state.next_id > begun.state.total.ids.max()
        assert begun.state.clock == 5 + len(begun.laps)

    def test_rows_given_are_not_kept(self):
        X = PLAIN.X[:40].copy()
        state = self.begun(PLAIN, [(Rows(X), None)]).state
        X[:] = np.nan
        assert_array_equal(np.concatenate([b.rows.X for b in state.batches]), PLAIN.X[:40])
