"""What a visit measures for the moves, against responsibilities rearranged by hand."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.stats import Delete, Merge, Split, Stats, total
from everlearn.mixture.local import MixtureStep, Plan, Proposal, TrackedStep
from oracles.cases import responsibilities
from oracles.responsibilities import pair_entropy_loss
from oracles.runs import (
    PLAIN,
    assert_stats,
    model_of,
    random_posterior,
    rows_of,
    runner_of,
    scores,
    softmax,
    statistics,
)

IDS = np.array([8, 3, 5, 2])
PAIRS = np.array([[3, 8], [8, 2], [5, 3], [2, 5]])
UNIT = np.empty(0)


@pytest.fixture
def rows(case, weighted):
    return rows_of(case, weighted)


@pytest.fixture
def posterior(model, rows):
    return random_posterior(model, rows, 4, ids=IDS)


@pytest.fixture
def plan(model, rows):
    """Four pairs, two births and two deletes, all of which overlap."""
    births = tuple(
        Proposal(target, random_posterior(model, rows, len(ids), seed=target, ids=np.array(ids)))
        for target, ids in [(3, [20, 21]), (2, [22, 23, 24])]
    )
    return Plan(PAIRS, births, (5, 8))


@pytest.fixture(name="R")
def assigned(case, posterior, rows):
    return softmax(scores(case.family, posterior, rows))


def position(component):
    return IDS.tolist().index(component)


def split_by_hand(case, rows, R, birth):
    """Columns of the parts: what the target had, times the shares of the parts."""
    shares = softmax(scores(case.family, birth.parts, rows))
    return R[:, [position(birth.target)]] * shares


def without(case, posterior, rows, component):
    """Responsibilities if the component did not exist."""
    W = scores(case.family, posterior, rows)
    W[:, position(component)] = -np.inf
    return softmax(W)


class TestAgainstTheOracle:
    def test_statistics_do_not_depend_on_the_plan(self, runner, posterior, plan, rows):
        tracked, labels = runner.run(posterior, plan, rows)
        plain, same_labels = runner.run(posterior, Plan(), rows)
        assert_stats(tracked.stats, plain.stats, rtol=0, atol=0)
        assert_array_equal(labels, same_labels)
        assert (len(plain.pair_loss), plain.births, plain.deletes) == (0, (), ())

    def test_pair_losses(self, runner, posterior, plan, rows, R):
        summary, _ = runner.run(posterior, plan, rows)
        pairs = [(position(a), position(b)) for a, b in PAIRS]
        weights = UNIT if rows.weights is None else rows.weights
        expected = pair_entropy_loss(R, weights, pairs)
        assert expected.min() > 1e-3
        assert_allclose(summary.pair_loss, expected, rtol=1e-10)

    def test_parts_of_births(self, case, runner, posterior, plan, rows, R):
        summary, _ = runner.run(posterior, plan, rows)
        for birth, parts in zip(plan.births, summary.births, strict=True):
            by_hand = split_by_hand(case, rows, R, birth)
            expected = statistics(case.family, rows, by_hand, birth.parts.ids)
            assert_stats(parts, replace(expected, base=0.0))

    def test_labels_if_births_were_accepted(self, case, runner, posterior, plan, rows, R):
        summary, labels = runner.run(posterior, plan, rows)
        expected = IDS[R.argmax(axis=1)]
        assert_array_equal(labels, expected)
        for birth in plan.births:
            likeliest = scores(case.family, birth.parts, rows).argmax(axis=1)
            expected = np.where(labels == birth.target, birth.parts.ids[likeliest], expected)
        assert_array_equal(summary.born, expected)
        assert not np.isin(summary.born, [birth.target for birth in plan.births]).any()

    def test_changes_of_deletes(self, case, runner, posterior, plan, rows, R):
        summary, _ = runner.run(posterior, plan, rows)
        old = statistics(case.family, rows, R, IDS)
        for component, change in zip(plan.deletes, summary.deletes, strict=True):
            after = without(case, posterior, rows, component)
            new = statistics(case.family, rows, after, IDS)
            expected = Delete(component).on(new - old)
            assert_stats(change, replace(expected, base=0.0), atol=1e-7)


class TestSums:
    @pytest.mark.parametrize("size", [11, 239])
    def test_blocks_add_up(self, case, posterior, plan, rows, size):
        step = TrackedStep(MixtureStep(case.family))
        one, labels = step((posterior, plan), rows)
        parts = [step((posterior, plan), block) for block in rows.blocks(size)]
        many = total(summary for summary, _ in parts)
        assert_allclose(many.pair_loss, one.pair_loss, rtol=1e-11)
        for a, b in zip(
            (many.stats, *many.births, *many.deletes),
            (one.stats, *one.births, *one.deletes),
            strict=True,
        ):
            assert_stats(a, b)
        assert_array_equal(np.concatenate([part for _, part in parts]), labels)
        assert_array_equal(many.born, one.born)

    def test_mass_is_only_moved(self, runner, posterior, plan, rows):
        summary, _ = runner.run(posterior, plan, rows)
        stats = summary.stats
        for birth, parts in zip(plan.births, summary.births, strict=True):
            k = stats.position(birth.target)
            assert_allclose(parts.n.sum(), stats.n[k], rtol=1e-11)
            assert_allclose(parts.t.sum(axis=0), stats.t[k], rtol=1e-10, atol=1e-9)
        for component, change in zip(plan.deletes, summary.deletes, strict=True):
            k = stats.position(component)
            assert_allclose(change.n.sum(), stats.n[k], rtol=1e-7)
            assert_allclose(change.t.sum(axis=0), stats.t[k], rtol=1e-7, atol=1e-6)
            assert (change.n >= -1e-12).all()

    def test_what_edits_make_of_it(self, case, runner, posterior, plan, rows, R):
        """The edits that use the measurements give the statistics of rearranged columns."""
        summary, _ = runner.run(posterior, plan, rows)
        stats = summary.stats
        merged = R.copy()
        merged[:, position(3)] += merged[:, position(8)]
        merged = np.delete(merged, position(8), axis=1)
        expected = statistics(case.family, rows, merged, np.delete(IDS, position(8)))
        assert_stats(Merge(3, 8, float(summary.pair_loss[0])).on(stats), expected)
        fresh = np.hstack([R, split_by_hand(case, rows, R, plan.births[0])])
        fresh[:, position(3)] = 0.0
        expected = statistics(case.family, rows, fresh, [*IDS, 20, 21])
        assert_stats(Split(3, summary.births[0]).on(stats), expected)


class TestEdges:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_a_target_without_rows(self, case, model, weighted, dtype):
        """Far from all rows a component has none, and its moves move nothing."""
        rows = rows_of(case, weighted)
        posterior = random_posterior(model, rows, 3)
        bias = posterior.bias - np.array([0.0, 1e4, 0.0])
        parts = random_posterior(model, rows, 2, ids=np.array([5, 6]))
        plan = Plan(np.array([[0, 1]]), (Proposal(1, parts),), (1,))
        summary, _ = runner_of(case, dtype=dtype).run(replace(posterior, bias=bias), plan, rows)
        assert_stats(summary.births[0], Stats.zeros(np.array([5, 6]), case.family.n_stats))
        assert_stats(summary.deletes[0], Stats.zeros(np.array([0, 2]), case.family.n_stats))
        assert_array_equal(summary.pair_loss, 0.0)

    def test_one_row(self, case, runner, model, plan, posterior):
        row = rows_of(case)[:1]
        summary, labels = runner.run(posterior, plan, row)
        assert len(labels) == 1
        assert_allclose(summary.stats.n.sum(), 1.0)

    def test_unknown_components_are_refused(self):
        rows, model = rows_of(PLAIN), model_of(PLAIN)
        posterior = random_posterior(model, rows, 3)
        for plan in (
            Plan(deletes=(9,)),
            Plan(births=(Proposal(9, posterior),)),
            Plan(np.array([[0, 9]])),
        ):
            with pytest.raises((IndexError, KeyError)):
                runner_of(PLAIN).run(posterior, plan, rows)

    def test_random_assignments_are_what_the_rest_assumes(self):
        """The kernel's responsibilities are soft, sure and zero, all in one."""
        R = responsibilities(50, 4)
        assert ((R > 0) & (R < 1)).any()
        assert (R == 1).any()
        assert (R == 0).any()
