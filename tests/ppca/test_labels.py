"""A label means the same PPCA of a mixture for life."""

import numpy as np
from numpy.testing import assert_array_equal

from everlearn.ppca.estimator import OnlinePPCA

RNG = np.random.default_rng(0)


def rows(n: int, centre: float) -> np.ndarray:
    return RNG.normal(size=(n, 6)) * [2, 1, 0.2, 0.2, 0.2, 0.2] + centre


FEW, MANY, LATE = rows(100, -9.0), rows(300, 9.0), rows(400, 0.0)


def test_fit_sorts_the_ppcas_by_share() -> None:
    for seed in range(6):
        model = OnlinePPCA(1, n_mixtures=2, random_state=seed).fit(np.vstack([FEW, MANY]))
        assert_array_equal(model.component_ids_, [0, 1])
        np.testing.assert_allclose(model.weights_, [0.75, 0.25], atol=1e-3)
        assert set(model.predict(MANY)) == {0}
        assert set(model.predict(FEW)) == {1}


def test_a_new_ppca_changes_no_label() -> None:
    model = OnlinePPCA(1, n_mixtures=3, random_state=0)
    for start in range(0, 400, 25):
        model.partial_fit(np.vstack([FEW, MANY])[start : start + 25])
    assert_array_equal(model.component_ids_, [0, 1])
    before = [model.predict(part) for part in (FEW, MANY)]
    for start in range(0, 400, 25):
        model.partial_fit(LATE[start : start + 25])
    assert_array_equal(model.component_ids_, [0, 1, 2])
    for part, labels in zip((FEW, MANY), before, strict=True):
        assert (model.predict(part) == labels).mean() > 0.95
    assert (model.predict(LATE) == 2).mean() > 0.95
    assert set(model.sample(200)[1]) == {0, 1, 2}


def test_names_of_columns_have_the_ids() -> None:
    model = OnlinePPCA(2, n_mixtures=2, random_state=0).fit(np.vstack([FEW, MANY]))
    model.set_output(transform="pandas")
    frame = model.transform(FEW)
    latents = [f"ppca{i}_latent{j}" for i in range(2) for j in range(2)]
    assert list(frame.columns) == ["ppca0", "ppca1", *latents]
    assert (frame["ppca1"] > 0.99).all()
    plain = OnlinePPCA(2).fit(MANY).get_feature_names_out()
    assert plain.tolist() == ["onlineppca0", "onlineppca1"]
