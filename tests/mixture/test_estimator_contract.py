"""scikit-learn's own battery, every check of it, none expected to fail.

One exception, stated here because it is not visible below: a plain
`check_estimator(DPMixture(family="multinomial"))` stops at the two checks of sparse input, which
take whatever has `predict_proba` for a classifier (`WithoutProbabilities` says more). No tag helps:
they read `classifier_tags.multi_class`, which is None of an estimator that is no classifier, and
with it would ask for exactly two or four columns, the number of classes of their own y, where a
mixture has as many as it found components. Nor is there a tag for having `predict_proba`.
"""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from everlearn.mixture.estimator import DPMixture

SPARSE_CHECKS = {"check_estimator_sparse_array", "check_estimator_sparse_matrix"}
SPARSE_FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")


class WithoutProbabilities(DPMixture):
    """The same estimator, but for a method that the checks of sparse input misread.

    They take whatever has `predict_proba` for a classifier of four classes, and ask for the
    tags of one; `test_sparse_input_of_any_format` looks at those probabilities instead.
    """

    @property
    def predict_proba(self) -> Any:
        raise AttributeError("hidden from a check that is meant for classifiers")


def without_probabilities(estimator: DPMixture) -> DPMixture:
    return WithoutProbabilities(**estimator.get_params())


@pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
@parametrize_with_checks(
    [
        DPMixture(),
        DPMixture(family="full"),
        DPMixture(family="zero-mean"),
        DPMixture(family="multinomial"),
        DPMixture(learner="stochastic"),
        DPMixture(dtype="float32"),
        DPMixture(memory_budget="4MB"),
    ]
)
def test_scikit_learn_contract(
    estimator: DPMixture, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # otherwise a check is skipped
    if check.func.__name__ in SPARSE_CHECKS and estimator.family == "multinomial":
        estimator = without_probabilities(estimator)
    check(estimator)


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("indices", [np.int32, np.int64])
@pytest.mark.parametrize("name", SPARSE_FORMATS)
def test_sparse_input_of_any_format(container: Any, indices: Any, name: str) -> None:
    counts = np.random.default_rng(0).poisson(1.0, (40, 3)).astype(float)
    X = container(counts)
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
    X = X.asformat(name)
    mixture = DPMixture(family="multinomial", random_state=0).fit(X)
    probabilities = mixture.predict_proba(X)
    assert probabilities.shape == (40, mixture.n_components_)
    np.testing.assert_allclose(probabilities, mixture.predict_proba(counts), atol=1e-12)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), mixture.predict(X))
    np.testing.assert_array_equal(mixture.means_, mixture.fit(counts).means_)
