"""Births: who is a target, what is proposed, and the seeds it grows from."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from everlearn.mixture import births
from everlearn.mixture.births import ATTEMPTS, BirthSettings
from everlearn.mixture.local import Plan
from everlearn.mixture.memoized import lap
from everlearn.mixture.state import Trial
from everlearn.mixture.streaming import seal_all, seal_oldest
from oracles.runs import PLAIN, STILL, groups, rows_of, runner_of, started


def settled(case, k=1, weighted=False, n_batches=3):
    """One lap old, so that labels are those of the components."""
    runner = runner_of(case)
    return lap(started(case, n_batches, k, weighted=weighted, runner=runner), runner, STILL)[0]


class TestTargets:
    def test_all_that_are_large_enough(self, case, runner):
        state = settled(case, 3)
        for least in (1.0, 25.0, 1e3):
            settings = BirthSettings(min_rows=least)
            large = state.total.n >= 2 * settings.smallest_part(state.total.n.sum())
            expected = set(state.total.ids[large].tolist())
            assert set(births.open_targets(state, settings)) == expected

    def test_the_least_tried_come_first_then_the_largest(self):
        state = settled(PLAIN, 3)
        a, b, c = state.total.ids.tolist()
        assert births.open_targets(state, BirthSettings()) == [a, b, c]
        tried = {a: Trial(2, state.total.n[0]), b: Trial(1, state.total.n[1])}
        assert births.open_targets(replace(state, birth_trials=tried), BirthSettings()) == [c, b, a]

    def test_who_resisted_every_attempt_waits_until_it_changes(self):
        state = settled(PLAIN, 1)
        (n,) = state.total.n
        component = int(state.total.ids[0])
        for part, change, expected in [
            *((0.02, change, []) for change in (0.0, 0.9)),
            (0.02, 1.1, [component]),
            (0.1, 1.1, [component]),
            (np.inf, 1e6, []),
        ]:
            settings = BirthSettings(retry_after=part)
            mass = n / (1.0 + change * (part if np.isfinite(part) else 1.0))
            tried = replace(state, birth_trials={component: Trial(len(ATTEMPTS), mass)})
            assert births.open_targets(tried, settings) == expected

    def test_there_are_as_many_attempts_as_set(self):
        state = settled(PLAIN, 1)
        component = int(state.total.ids[0])
        for n_attempts in (1, 2, 4):
            settings = BirthSettings(attempts=ATTEMPTS[:n_attempts])
            for failures in range(5):
                trial = Trial(failures, state.total.n[0])
                tried = replace(state, birth_trials={component: trial})
                left = births.open_targets(tried, settings) == [component]
                assert left == (failures < n_attempts)

    def test_sealed_mass_does_not_count(self):
        runner = runner_of(PLAIN)
        assert births.open_targets(seal_all(settled(PLAIN), runner), BirthSettings()) == []

    def test_trials_are_counted_and_reopened(self):
        state, settings = settled(PLAIN, 2), BirthSettings()
        a, b = state.total.ids.tolist()
        once = replace(
            state,
            birth_trials={**births.after_failed_births(state, [a], settings), 99: Trial(3, 1.0)},
        )
        twice = births.after_failed_births(once, [a, b, 99], settings)
        assert {i: t.failures for i, t in twice.items()} == {a: 2, b: 1}
        spent = {a: Trial(len(ATTEMPTS), 5.0), b: Trial(1, 5.0)}
        assert [t.failures for t in births.reopen_targets(spent).values()] == [0, 1]

    def test_what_is_worth_proposing(self):
        smallest = BirthSettings().smallest_part
        assert (smallest(50.0), smallest(5e3), smallest(1e9)) == (1.0, 5.0, 10.0)
        assert BirthSettings(min_rows=30.0).smallest_part(1e9) == 30.0


class TestProposals:
    def test_parts_are_new_and_hold_the_rows(self, case, runner, weighted):
        state = settled(case, weighted=weighted)
        proposals, without_parts = births.propose(state, runner, BirthSettings())
        assert without_parts == []
        (proposal,) = proposals
        assert proposal.target == state.total.ids[0]
        first = state.next_id
        assert proposal.parts.ids.tolist() == list(range(first, first + len(proposal.parts)))
        assert len(proposal.parts) >= 2
        summary, _ = runner.run(state.posterior(), Plan(births=proposals), rows_of(case, weighted))
        assert_allclose(summary.births[0].n.sum(), rows_of(case, weighted).mass, rtol=1e-10)

    def test_nothing_changes_and_nothing_is_left_to_chance(self, case, runner):
        state = settled(case)
        first, _ = births.propose(state, runner, BirthSettings())
        again, _ = births.propose(state, runner, BirthSettings())
        assert_array_equal(first[0].parts.eta, again[0].parts.eta)
        assert_array_equal(first[0].parts.bias, again[0].parts.bias)

    def test_seeds_and_clocks_make_other_proposals(self):
        runner, settings = runner_of(PLAIN), BirthSettings(n_rows=100)
        state = settled(PLAIN)
        etas = [
            births.propose(replace(state, **change), runner, settings)[0][0].parts.eta
            for change in ({}, {"seed": 8}, {"clock": 9})
        ]
        assert all(
            a.shape != b.shape or not np.array_equal(a, b)
            for a, b in zip(etas, etas[1:] + etas[:1], strict=True)
        )

    @pytest.mark.parametrize("room", [0, 1, 2, 3])
    def test_there_is_no_more_than_room(self, room):
        runner, state = runner_of(PLAIN), settled(PLAIN)
        proposals, _ = births.propose(state, runner, BirthSettings(max_components=1 + room))
        assert all(len(p.parts) <= 1 + room for p in proposals)
        assert bool(proposals) == (room > 0)

    def test_few_targets_at_a_time(self):
        runner, state = runner_of(PLAIN), settled(PLAIN, 3)
        proposals, without_parts = births.propose(state, runner, BirthSettings(n_targets=1))
        tried = [p.target for p in proposals] + without_parts
        assert tried == births.open_targets(state, BirthSettings())[:1]

    def test_ids_of_several_proposals_differ(self, case, runner):
        state = settled(case, 2)
        proposals, _ = births.propose(state, runner, BirthSettings())
        ids = [i for p in proposals for i in p.parts.ids.tolist()]
        assert len(ids) == len(set(ids))
        assert not set(ids) & set(state.total.ids.tolist())

    def test_only_open_rows_are_looked_at(self):
        """Parts of a component with a sealed past hold no more than its open rows."""
        runner = runner_of(PLAIN)
        state = seal_oldest(settled(PLAIN), runner)
        proposals, _ = births.propose(state, runner, BirthSettings())
        open_rows = state.batches[0].rows, state.batches[1].rows
        mass = sum(
            runner.run(state.posterior(), Plan(births=proposals), rows)[0].births[0].n.sum()
            for rows in open_rows
        )
        assert_allclose(mass, state.n_open, rtol=1e-10)


class TestRefinement:
    def test_the_bound_of_the_parts_never_falls(self, case, runner, model, weighted):
        """What competes and merges ends higher than the rough partition it began with."""
        rows = rows_of(case, weighted)
        labels = np.random.default_rng(0).integers(6, size=len(rows))
        rough = runner.hard_stats(rows, labels, np.arange(6))
        parts = births.refine(model, runner, rows, rough, np.empty(0), 1.0)
        assert parts is None or 2 <= len(parts) <= 6
        if parts is not None:
            bounds = [model.bound(replace(s, base=0.0)) for s in (rough, parts)]
            assert bounds[1] > bounds[0]
            assert (parts.n > 0).all()

    def test_one_group_gives_no_parts(self):
        case = replace(PLAIN, X=groups(100, k=1, seed=3))
        labels = np.random.default_rng(0).integers(3, size=100)
        runner, rows = runner_of(case), rows_of(case)
        rough = runner.hard_stats(rows, labels, np.arange(3))
        state = settled(case)
        assert births.refine(state.model, runner, rows, rough, np.empty(0), 1.0) is None


class TestSeeds:
    X = groups(200, dim=2, k=3, apart=20.0, seed=4)

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
    def test_far_groups_are_told_apart(self, make):
        labels = births.seed_labels(make(self.X), None, 3, np.random.default_rng(0))
        centres = np.stack([self.X[labels == j].mean(axis=0) for j in range(3)])
        nearest = ((self.X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        assert_array_equal(labels, nearest)
        assert max(self.X[labels == j].std(axis=0).max() for j in range(3)) < 1.0

    def test_weightless_rows_attract_nothing(self):
        far = np.vstack([self.X, np.full((5, 2), 1e4)])
        weights = np.append(np.ones(200), np.zeros(5))
        labels = births.seed_labels(far, weights, 3, np.random.default_rng(1))
        assert len(set(labels[:200].tolist())) == 3

    def test_equal_rows_need_no_second_seed(self):
        labels = births.seed_labels(np.ones((5, 2)), None, 2, np.random.default_rng(0))
        assert set(labels.tolist()) == {0}
