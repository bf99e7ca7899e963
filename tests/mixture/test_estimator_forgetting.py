"""`forget` takes back a batch that was learned under a name, up to rounding."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import everlearn
from everlearn.core.stats import total
from everlearn.errors import CheckpointError
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.state import State

RNG = np.random.default_rng(4)
CENTRES = (-12.0, 0.0, 12.0)


def rows(n: int, centres=CENTRES):
    return np.concatenate([RNG.normal(c, 1.0, (n, 2)) for c in centres])[RNG.permutation(3 * n)]


BATCHES = {name: rows(110) for name in ("a", "b", "c", 7)}
LATE = rows(110, (-12.0, 0.0, 40.0))


def stream(**params) -> DPMixture:
    """A model of all batches. Its window is small, so most rows are sealed, after real moves."""
    params = {"birth_window": 200, "batch_size": 50, "random_state": 0, "engine": "serial"} | params
    model = DPMixture(**params)
    for name, X in BATCHES.items():
        model.partial_fit(X, batch_id=name)
    return model


def parts_of(state: State, name: int | str):
    """Statistics of one name: sealed ones, and those of open batches."""
    sealed = [state.named_parts[name].sealed.stats] if name in state.named_parts else []
    return [*sealed, *(b.stats for b in state.batches if b.name == name)]


def assert_close(one, two):
    assert one.ids.tolist() == two.ids.tolist()
    for name in ("n", "t", "h", "base"):
        a, b = np.asarray(getattr(one, name)), np.asarray(getattr(two, name))
        assert_allclose(a, b, rtol=1e-10, atol=1e-10 * (1 + np.abs(b).max()))


@pytest.mark.parametrize("family", ["diagonal", "full", "zero-mean"])
def test_parts_add_up_to_everything_whatever_moves_were_made(family):
    model = stream(family=family).partial_fit(LATE, batch_id="late")
    state = model._learned.state
    assert len(state.named_parts) >= 3
    assert model.history_.counts.get("birth accepted", 0) > 0 or family == "zero-mean"
    assert_close(
        total([p for name in (*BATCHES, "late") for p in parts_of(state, name)]), state.total
    )


@pytest.mark.parametrize("name", BATCHES)
def test_the_rest_is_the_sum_of_the_other_batches(name):
    model = stream()
    state = model._learned.state
    expected = total([p for other in BATCHES if other != name for p in parts_of(state, other)])
    assert model.forget(name) is model
    left = model._learned.state
    assert_close(left.total, expected)
    assert model.n_samples_seen_ == 3 * 330
    assert_allclose(left.sealed.pair_loss, left.sealed.pair_loss.T, atol=0)
    assert np.isfinite(model.bound_)


def test_one_component_is_as_if_the_rows_had_never_come():
    """Without a choice of component, statistics do not depend on what else was there."""
    fixed = {"prior": {"mean": 0.0, "mean_precision": 0.1, "shape": 2.0, "rate": 1.0}}
    params = {"moves": (), "random_state": 0, "batch_size": 50, "birth_window": 100, **fixed}
    one, two = DPMixture(**params), DPMixture(**params)
    one.partial_fit(BATCHES["a"]).partial_fit(BATCHES["b"], batch_id="b").partial_fit(BATCHES["c"])
    two.partial_fit(BATCHES["a"]).partial_fit(BATCHES["c"])
    assert_allclose(one.forget("b").bound_, two.bound_, rtol=1e-10)
    assert_allclose(one.means_, two.means_, rtol=1e-10)


def test_a_component_that_loses_all_rows_is_removed():
    model = DPMixture(random_state=0, birth_window=300, batch_size=100)
    for i in range(3):
        model.partial_fit(rows(100, (-12.0, 0.0, 0.0)), batch_id=i)
    model.partial_fit(RNG.normal(40.0, 1.0, (300, 2)), batch_id="far")
    before = model.n_components_
    model.forget("far")
    assert model.n_components_ < before
    assert np.abs(model.means_).max() < 20


def test_a_file_keeps_what_can_be_forgotten(tmp_path):
    model = stream()
    model.save(tmp_path / "m.evl")
    again = everlearn.load(tmp_path / "m.evl")
    for one in (model, again):
        one.forget("b").partial_fit(BATCHES["a"], batch_id="new").forget("new")
    one, two = model.to_checkpoint(), again.to_checkpoint()
    assert one[0] == two[0]
    for name, array in one[1].items():
        np.testing.assert_array_equal(array, two[1][name])


def test_a_stream_that_settles_keeps_the_names():
    model = DPMixture(random_state=0, engine="serial")
    for i in range(6):
        model.partial_fit(BATCHES["a"][20 * i : 20 * i + 20], batch_id=i)
    model.forget(2)
    assert model.n_samples_seen_ == 100


def test_missing_values_that_come_later_extend_the_remembered_statistics():
    model = stream()
    gaps = BATCHES["a"].copy()
    gaps[::7, 0] = np.nan
    model.partial_fit(gaps, batch_id="gaps").forget("a")
    assert np.isfinite(model.bound_)


class TestRefusals:
    def test_an_unknown_name(self):
        model = stream()
        with pytest.raises(ValueError, match=r"'batch_id' of DPMixture.forget.*7, 'a', 'b', 'c'"):
            model.forget("z")
        with pytest.raises(ValueError, match=r"'batch_id' of DPMixture.forget"):
            model.forget(None)

    def test_everything(self):
        model = DPMixture().partial_fit(BATCHES["a"], batch_id="a")
        with pytest.raises(ValueError, match="it has learned nothing else"):
            model.forget("a")

    @pytest.mark.parametrize("name", [True, 1.5, -1, ("a",), b"a"])
    def test_invalid_names(self, name):
        with pytest.raises(ValueError, match="'batch_id' of DPMixture must be None, text"):
            DPMixture().partial_fit(BATCHES["a"], batch_id=name)

    def test_learners_without_memory(self):
        with pytest.raises(ValueError, match="'batch_id' of DPMixture needs learner='memoized'"):
            DPMixture(learner="stochastic").partial_fit(BATCHES["a"], batch_id=1)
        with pytest.raises(ValueError, match="needs memory_budget=None"):
            DPMixture(memory_budget="4MB").partial_fit(BATCHES["a"], batch_id=1)


PARTS = "learned/state/named_parts/values"


def multiplied(name, factor):
    return lambda file: file.arrays.update({name: file.arrays[name] * factor})


def in_parts(change):
    return lambda file: change(file.header["learned"]["state"]["named_parts"])


SPOILT = [
    (f"{PARTS}/0/sealed/stats/", multiplied(f"{PARTS}/0/sealed/stats/n", 9)),
    (f"{PARTS}/0/sealed/stats/t", multiplied(f"{PARTS}/0/sealed/stats/t", -1)),
    (f"{PARTS}/0/sealed/stats/ids", multiplied(f"{PARTS}/0/sealed/stats/ids", 2)),
    (f"{PARTS}/1/sealed/pair_loss", lambda file: file.arrays.update(
        {f"{PARTS}/1/sealed/pair_loss": file.arrays[f"{PARTS}/1/sealed/pair_loss"] + 5})),
    ("named_parts/keys", in_parts(lambda p: p["keys"].append(dict(p["keys"][0])))),
    ("named_parts/keys", in_parts(lambda p: p["keys"].__setitem__(1, p["keys"][0]))),
    ("keys/0/number", in_parts(lambda p: p["keys"][0].update(number=3))),
    ("keys/0/number", in_parts(lambda p: p["keys"][0].update(text=None))),
    (PARTS, in_parts(lambda p: p.update(keys=[], values=[]))),
]  # fmt: skip


@pytest.mark.parametrize(("word", "spoil"), SPOILT)
def test_spoilt_files_are_refused(word, spoil):
    header, arrays = stream().to_checkpoint()
    file = SimpleNamespace(header=copy.deepcopy(header), arrays=dict(arrays))
    spoil(file)
    with pytest.raises(CheckpointError, match=word):
        DPMixture.from_checkpoint(file.header, file.arrays)
