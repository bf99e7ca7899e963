"""Models learned apart become one: statistics add, whoever learned them."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

import everlearn
from everlearn.core.families.recentred import recentred
from everlearn.estimator.merging import merge
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.merging import sealed_state

RNG = np.random.default_rng(5)
LABELS = RNG.integers(3, size=900)
POINTS = np.array([-10.0, 0.0, 10.0])[LABELS, None] + RNG.normal(size=(900, 3))
FAMILIES = ("diagonal", "full", "zero-mean")


def fitted(X, **params):
    return DPMixture(random_state=0, engine="serial", **params).fit(X)


def mass(model):
    return model._learned.state.total


def recentred_sum(model, other):
    """The first feature of all rows, added up, from the origin of another model."""
    state = model._learned.state
    family, origin = state.model.family, other._learned.state.model.family.origin
    return recentred(family, state.total, origin).t.sum(axis=0)[0]


class TestMixtures:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_everything_counts_once(self, family):
        shards = [fitted(part, family=family) for part in np.split(POINTS, 3)]
        both = merge(shards)
        assert both.n_samples_seen_ == 900
        assert_allclose(mass(both).n.sum(), 900, rtol=1e-12)
        assert_allclose(mass(both).base, sum(mass(s).base for s in shards), rtol=1e-12)
        if family != "zero-mean":
            assert_allclose(both.weights_ @ both.means_, POINTS.mean(axis=0), atol=0.15)

    def test_components_of_different_models_find_each_other(self):
        shards = [fitted(part) for part in np.split(POINTS, 3)]
        both = merge(shards)
        assert both.n_components_ == 3
        assert adjusted_rand_score(LABELS, both.predict(POINTS)) == 1.0
        whole = fitted(POINTS, prior="data")
        assert_allclose(np.sort(both.means_[:, 0]), np.sort(whole.means_[:, 0]), atol=1e-2)

    def test_joining_raises_the_bound(self):
        shards = [fitted(part) for part in np.split(POINTS, 3)]
        joined = [m for m in merge(shards).history_.moves if m.kind == "merge"]
        assert len(joined) == 6
        assert all(move.gain > 0 for move in joined)

    def test_a_base_counts_once_and_ids_match(self):
        base = fitted(POINTS[:300])
        shards = [
            copy.deepcopy(base).set_params(moves=()).partial_fit(part)
            for part in (POINTS[300:600], POINTS[600:])
        ]
        both = merge(shards, base=base.set_params(moves=()))
        assert both.n_samples_seen_ == 900
        assert_array_equal(np.sort(both.component_ids_), np.sort(base.component_ids_))
        expected = fitted(POINTS[:300]).set_params(moves=())
        expected.partial_fit(POINTS[300:])
        assert_allclose(mass(both).n.sum(), 900, rtol=1e-12)
        order = np.argsort(mass(both).ids), np.argsort(mass(expected).ids)
        assert_allclose(mass(both).n[order[0]], mass(expected).n[order[1]], rtol=1e-6)
        assert_allclose(mass(both).t[order[0]], mass(expected).t[order[1]], rtol=1e-6, atol=1e-6)

    def test_no_more_components_than_allowed(self):
        """Those that cost least are joined, if the bound would rather keep them apart."""
        shards = [
            fitted(part + shift, max_components=2) for part, shift in ((POINTS, 0), (POINTS, 50))
        ]
        assert [shard.n_components_ for shard in shards] == [2, 2]
        both = merge(shards)
        assert both.n_components_ == 2
        assert_allclose(np.sort(mass(both).n), [900, 900], rtol=1e-9)
        assert np.isfinite(both.bound_)

    def test_batches_keep_their_names(self):
        def taught(*names):
            model = DPMixture(random_state=0, engine="serial", moves=("merge",))
            for name in names:
                start = 100 * "abcdef".index(name)
                model.partial_fit(POINTS[start : start + 100], batch_id=name)
            return model

        both = merge([taught("a", "b"), taught("c", "d")])
        assert both.forget("b").n_samples_seen_ == 300
        assert_allclose(mass(both).n.sum(), 300, rtol=1e-9)
        assert_allclose(
            both.weights_ @ both.means_,
            POINTS[[*range(100), *range(200, 400)]].mean(axis=0),
            atol=0.2,
        )
        twice = merge([taught("a", "b"), taught("a", "c")])  # one batch, as in partial_fit
        assert twice.forget("a").n_samples_seen_ == 200

    def test_batches_of_the_base_count_once(self):
        base = DPMixture(random_state=0, engine="serial", moves=())
        base.partial_fit(POINTS[:100], batch_id="old").partial_fit(POINTS[100:300])
        base._learned = replace(base._learned, state=sealed_state(base))
        shards = [
            copy.deepcopy(base).partial_fit(POINTS[i : i + 100], batch_id=i) for i in (300, 400)
        ]
        both = merge(shards, base=base)
        assert both.n_samples_seen_ == 500
        assert both.forget("old").n_samples_seen_ == 400
        assert_allclose(mass(both).n.sum(), 400, rtol=1e-9)
        assert both.forget(300).n_samples_seen_ == 300
        for shard in shards:
            shard.forget("old")
        with pytest.raises(ValueError, match="batch 'old' was forgotten in more than one"):
            merge(shards, base=base)

    def test_priors_with_arrays(self):
        prior = {"mean": np.zeros(3)}
        shards = [fitted(part, prior=dict(prior)) for part in np.split(POINTS, 2)]
        assert merge(shards).n_samples_seen_ == 900
        shards[1].set_params(prior={"mean": np.ones(3)})
        with pytest.raises(ValueError, match=r"same parameters\. Got 'prior'"):
            merge(shards)

    def test_a_base_whose_rows_are_not_there(self):
        params = {"family": "zero-mean", "prior": {"scale": np.eye(3)}, "moves": ()}
        few, many = (fitted(part, **params) for part in (POINTS[:20], POINTS[20:]))
        with pytest.raises(ValueError, match="'base' that all models began as copies of"):
            merge([few, few], base=many)

    def test_a_base_must_be_what_all_began_as(self):
        base = fitted(POINTS[:100])
        copied = copy.deepcopy(base).partial_fit(POINTS[100:200])
        with pytest.raises(ValueError, match=r"'base' that all models began .* Model 1 did not"):
            merge([copied, fitted(POINTS[300:])], base=base)

    def test_models_stay_as_they_are_and_the_new_one_goes_on(self, tmp_path):
        shards = [fitted(part) for part in np.split(POINTS, 2)]
        before = [pickle.dumps(s.to_checkpoint()[1]) for s in shards]
        both = merge(shards)
        assert [pickle.dumps(s.to_checkpoint()[1]) for s in shards] == before
        both.save(tmp_path / "m.evl")
        again = everlearn.load(tmp_path / "m.evl")
        assert both.partial_fit(POINTS).bound_ == again.partial_fit(POINTS).bound_
        assert both.n_samples_seen_ == 1800

    def test_open_rows_are_sealed_first(self):
        shards = [DPMixture(random_state=0).partial_fit(part) for part in np.split(POINTS, 2)]
        assert merge(shards)._learned.state.n_open == 0

    def test_a_base_with_open_rows(self):
        base = DPMixture(random_state=0).partial_fit(POINTS)
        with pytest.raises(ValueError, match=r"base without open rows.*Got 900"):
            merge([copy.deepcopy(base), copy.deepcopy(base)], base=base)

    def test_gaps_in_one_of_them(self):
        gaps = np.where(RNG.random((450, 3)) < 0.1, np.nan, POINTS[450:])
        both = merge([fitted(POINTS[:450]), fitted(gaps)])
        assert both.n_samples_seen_ == 900
        assert np.isfinite(both.bound_)
