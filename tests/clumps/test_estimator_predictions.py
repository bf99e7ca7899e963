"""What a `ClumpedTopicModel` has learned and tells of new documents; neighbours are M12."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln, psi

from support.clumped_data import (
    FAMILIES,
    assert_same,
    content,
    documents,
    model_of,
    taught,
)

every = pytest.mark.parametrize("family", FAMILIES)


@every
def test_attributes_fit_together(family: str) -> None:
    model = taught(family, count=12, max_clumps=30, max_groups=7)
    k = model.n_components_
    assert_allclose(model.weights_.sum(), 1.0)
    assert model.means_.shape == (k, 3)
    assert model.covariances_.shape[0] == k
    assert model.alpha_.shape == model.component_ids_.shape == (k,)
    assert len(set(model.component_ids_.tolist())) == k
    assert model.group_sizes_.sum() == model.n_samples_seen_ == 12
    assert model.n_points_seen_ == 12 * 40
    assert model.bound_history_.shape == (3,)
    assert_allclose(model.bound_history_[-1], model.bound_)
    numbers = 40 if family == "multinomial" else 40 * 3
    assert_allclose(model.topic_price_, 0.015 * numbers)
    assert model.memory_report()["n_groups"] == 7


@every
def test_mixtures_are_of_each_document_by_itself(family: str) -> None:
    model = taught(family)
    new = documents(family, 7, seed=3)[0]
    mixtures = model.transform(new)
    assert mixtures.shape == (7, model.n_components_)
    assert (mixtures > 0).all()
    assert_allclose(mixtures.sum(axis=1), 1.0, rtol=1e-12)
    for part, row in zip(new, mixtures, strict=True):
        assert_array_equal(model.transform(part)[0], row)
    assert_array_equal(model.transform(new[::-1]), mixtures[::-1])
    index = model.document_index(new)
    assert_allclose(index / index.sum(axis=1, keepdims=True), mixtures)
    assert_allclose(index.sum(axis=1), model.alpha_.sum() + 40)
    assert_array_equal(
        model_of(family).fit_transform(new), model_of(family).fit(new).transform(new)
    )


@every
def test_points_have_the_topics_of_their_document(family: str) -> None:
    model = taught(family)
    new, truth = documents(family, 7, seed=3)
    labels = model.assign(new)
    mixtures = model.transform(new)
    for own, z, mixture in zip(labels, truth, mixtures, strict=True):
        shares = np.bincount(own, minlength=model.n_components_) / len(own)
        assert np.abs(shares - mixture).max() < 0.15
        if family != "multinomial":  # whose six topics are three
            assert len(set(zip(own.tolist(), z.tolist(), strict=True))) == len(set(z.tolist()))


@every
def test_the_score_is_a_bound_by_the_definition(family: str) -> None:
    """Against the free energy of one document, points and topics one by one."""
    model = taught(family, count=6)
    state = model._learned.state
    part = documents(family, 1, seed=9, points=12)[0][0]
    eta, constant = state.model.family.natural(
        state.model.family.posterior(state.topics.n, state.topics.t)
    )
    scores = state.model.family.features(part) @ eta.T + constant
    base = state.model.family.log_base(part).sum()
    alpha, best = model.alpha_, -np.inf
    zeta = alpha.copy()
    for _ in range(300):
        log_pi = psi(zeta) - psi(zeta.sum())
        r = np.exp(scores + log_pi - np.logaddexp.reduce(scores + log_pi, axis=1)[:, None])
        zeta = alpha + r.sum(axis=0)
        log_pi = psi(zeta) - psi(zeta.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.where(r > 0, r * (scores + log_pi - np.log(r)), 0.0).sum()
        divergence = gammaln(zeta.sum()) - gammaln(zeta).sum() - gammaln(alpha.sum())
        divergence += gammaln(alpha).sum() + (zeta - alpha) @ log_pi
        best = own - divergence + base
    assert_allclose(12 * model.score([part]), best, rtol=1e-4, atol=1e-3)


@every
def test_documents_of_the_same_kind_score_higher(family: str) -> None:
    model = taught(family)
    same = documents(family, 5, seed=6)[0]
    other = [part[:, ::-1] * 1.0 + (3.0 if family != "multinomial" else 0.0) for part in same]
    assert np.isfinite(model.score(same))
    parts = [model.score([p]) for p in same]
    assert_allclose(model.score(same), np.mean(parts))
    if family != "multinomial":
        assert model.score(same) > model.score(other) + 1.0


@every
def test_reading_changes_nothing(family: str) -> None:
    model = taught(family)
    before, new = content(model), documents(family, 3, seed=3)[0]
    for method in (model.transform, model.assign, model.score, model.document_index):
        method(new)
    model.retrieve(new[0])
    assert_same(content(model), before)


@pytest.mark.parametrize("smoothing", [0.0, 0.5, 3.0])
@every
def test_m12_neighbours_are_those_of_brute_force(family: str, smoothing: float) -> None:
    model = taught(family)
    state = model._learned.state
    new, query = documents(family, 9, seed=3)[0], documents(family, 1, seed=4)[0][0]
    posterior = state.model.family.posterior(state.topics.n, state.topics.t)
    eta, constant = state.model.family.natural(posterior)
    index = model.document_index(new)
    own = state.topics.alpha + state.topics.counts / state.sizes[:, None]
    background = smoothing * state.n_points / state.n_documents * state.topics.n / state.n_points
    among_new = model.retrieve(query, 9, index, smoothing)
    among_own = model.retrieve(query, smoothing=smoothing)
    for zetas, found in ((index, among_new), (own, among_own)):
        want = []
        for zeta in zetas + background:
            score = -len(query) * psi(zeta.sum()) + state.model.family.log_base(query).sum()
            for f in state.model.family.features(query):
                score += max(f @ eta[k] + constant[k] + psi(zeta[k]) for k in range(len(zeta)))
            want.append(score)
        assert_allclose(found.scores, np.sort(want)[::-1], rtol=1e-11)
        assert_array_equal(found.positions, np.argsort(-np.array(want), kind="stable"))
    assert len(model.retrieve(query, 3).positions) == 3
    assert len(model.retrieve([query], 300, index).positions) == 9


def test_neighbours_are_smoothed_by_half_a_document_unless_said() -> None:
    model, query = taught("full"), documents("full", 1, seed=4)[0][0]
    assert_array_equal(model.retrieve(query).scores, model.retrieve(query, smoothing=0.5).scores)
    assert not np.array_equal(
        model.retrieve(query).scores, model.retrieve(query, smoothing=0).scores
    )


def test_documents_of_the_same_topics_are_near() -> None:
    model = taught("full", count=20)
    new, truth = documents("full", 40, seed=3)
    index = model.document_index(new)
    query, own = documents("full", 10, seed=5)
    hits = []
    for part, z in zip(query, own, strict=True):
        best = model.retrieve(part, 1, index).positions[0]
        shared = set(z.tolist()) & set(truth[best].tolist())
        hits.append(len(shared) / len(set(z.tolist())))
    assert np.mean(hits) > 0.8
