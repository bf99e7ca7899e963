"""Sparse input of `DPMixture`; `tests/test_scikit_learn.py` has scikit-learn's own checks."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from everlearn.mixture.estimator import DPMixture

SPARSE_FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")


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
