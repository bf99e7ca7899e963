"""Steps change nothing they are given, repeat themselves, and lose neither mass nor features."""

from dataclasses import fields, is_dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from everlearn.core.stats import total
from everlearn.engine.rows import Rows, concatenate
from everlearn.mixture.local import Plan
from everlearn.mixture.memoized import lap, visit
from everlearn.mixture.state import State
from everlearn.mixture.stochastic import blend
from everlearn.mixture.streaming import MemoizedLearner, seal_oldest
from oracles.cases import named
from oracles.runs import (
    PLAIN,
    SMALL_BLOCKS,
    SOME,
    STILL,
    assert_stats,
    lively,
    model_of,
    rows_of,
    runner_of,
    started,
    tools_of,
)

absorb = MemoizedLearner().absorb


def contents(thing):
    """Every array, number and name in a nest of dataclasses, as bytes."""
    if is_dataclass(thing):
        return [contents(getattr(thing, f.name)) for f in fields(thing)]
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.shape, thing.tobytes()
    if sparse.issparse(thing):
        return [contents(a) for a in (thing.data, thing.indices, thing.indptr)]
    if isinstance(thing, dict):
        return [(key, contents(value)) for key, value in thing.items()]
    if isinstance(thing, tuple | list):
        return [contents(value) for value in thing]
    return repr(thing)


STEPS = {
    "visit": lambda state, rows, runner: visit(state, 1, Plan(), runner),
    "lap": lambda state, rows, runner: lap(state, runner, lively()),
    "still lap": lambda state, rows, runner: lap(state, runner, STILL),
    "absorb": lambda state, rows, runner: absorb(state, rows, tools_of(runner, lively())),
    "seal": lambda state, rows, runner: seal_oldest(state, runner),
    "blend": lambda state, rows, runner: blend(state, rows, 500.0, 0.3, runner),
    "reorder": lambda state, rows, runner: state.reordered(),
}


@cache
def midway(case):
    """A state with a past and with trials behind it."""
    runner = runner_of(case)
    state = seal_oldest(started(case, 4, 7, 1, weighted=True, runner=runner), runner)
    return lap(state, runner, lively())[0]


class TestPurity:
    @pytest.mark.parametrize("name", STEPS)
    def test_inputs_stay_as_they_were_and_steps_repeat_themselves(self, case, runner, name):
        inputs = midway(case), rows_of(case, weighted=True)[:50], runner
        before = contents(inputs)
        once = STEPS[name](*inputs)
        assert contents(inputs) == before
        assert contents(STEPS[name](*inputs)) == contents(once)

    def test_contents_sees_a_changed_bit(self):
        state = started(PLAIN, 2, 2)
        before = contents(state)
        state.batches[1].stats.t[0, 0] += 1e-9
        assert contents(state) != before


class TestGrouping:
    @named(SOME)
    def test_blocks_hardly_matter_to_a_run(self, case):
        """Rows in blocks of another size: the same moves, and bounds that are close."""
        traces = []
        for block_bytes in (8_000_000, SMALL_BLOCKS):
            runner = runner_of(case, block_bytes=block_bytes)
            state, infos = started(case, 1, 1, runner=runner), []
            for _ in range(4):
                state, info = lap(state, runner, lively())
                infos.append(info)
            traces.append(infos)
        for one, other in zip(*traces, strict=True):
            assert_allclose(other.bound, one.bound, rtol=1e-9)
            assert [m.removed for m in other.moves] == [m.removed for m in one.moves]

    def test_seeds_name_the_run(self):
        runner = runner_of(PLAIN)
        results = []
        for seed in (0, 0, 1):
            state = State.empty(model_of(PLAIN), seed)
            state = absorb(state, rows_of(PLAIN), tools_of(runner, lively()))
            results.append(contents(state.total))
        assert results[0] == results[1]
        assert results[0] != results[2]


class TestConservation:
    """Whatever happens, every row counts with its weight, once."""

    def check(self, state, seen):
        features = state.model.family.features(seen.X)
        weights = np.ones(len(seen)) if seen.weights is None else seen.weights
        sums = np.asarray(features.T @ weights)
        scale = np.abs(sums).max()
        assert_allclose(state.total.n.sum(), seen.mass, rtol=1e-8)
        assert_allclose(state.total.t.sum(axis=0), sums, rtol=1e-8, atol=1e-8 * scale)
        assert_allclose(state.total.base, weights @ state.model.family.log_base(seen.X), rtol=1e-10)
        parts = [state.sealed.stats, *(b.stats for b in state.batches)]
        assert_stats(state.total, total(parts), rtol=1e-9, atol=1e-7)
        assert (state.total.n >= 0).all()
        assert (state.total.h.sum()) >= -1e-6
        assert len(set(state.total.ids.tolist())) == len(state.total)

    @named(SOME)
    @settings(max_examples=6)
    @given(
        steps=st.lists(
            st.sampled_from(["lap", "still", "absorb", "absorb", "seal", "reorder", "visit"]),
            min_size=4,
            max_size=7,
        ),
        weighted=st.booleans(),
        k=st.integers(1, 6),
    )
    def test_any_sequence_of_steps(self, case, steps, weighted, k):
        runner, rows = runner_of(case), rows_of(case, weighted)
        pieces = iter(rows.blocks(24))
        state, seen = State.empty(model_of(case), 1, k), []
        for step in ["absorb", *steps]:
            if step == "absorb":
                seen.append(next(pieces))
                state = absorb(state, seen[-1], tools_of(runner, lively()))
            elif step == "seal" and state.batches:
                state = seal_oldest(state, runner)
            elif step == "visit" and state.batches:
                state, _ = visit(state, len(state.batches) - 1, Plan(), runner)
            elif step == "reorder":
                state = state.reordered()
            elif state.batches:
                state, _ = lap(state, runner, lively() if step == "lap" else STILL)
            self.check(state, concatenate(seen))

    def test_a_row_of_weight_zero_counts_for_nothing(self):
        runner = runner_of(PLAIN)
        weights = np.ones(len(PLAIN))
        weights[::7] = 0.0
        state = State.empty(model_of(PLAIN), 0)
        state = absorb(state, Rows(PLAIN.X, weights), tools_of(runner, lively()))
        self.check(state, Rows(PLAIN.X[weights > 0]))
