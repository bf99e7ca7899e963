"""What estimators make of tables: `set_output` holds for `transform`, and NaN is explained."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from everlearn.components.estimator import ComponentTree
from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier
from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.ppca.scaled import ScaledPCA
from everlearn.topics.medlda import MedLDAClassifier
from everlearn.topics.topic_model import TopicModel
from everlearn.trees.estimator import TopicTree

pytestmark = pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
ROWS = np.random.default_rng(0).normal(size=(60, 4))
COUNTS = np.random.default_rng(0).integers(0, 4, (40, 6))
CLASSES = np.arange(40) % 2
MODELS: dict[str, tuple[Any, Any]] = {
    "mixture": (DPMixture(random_state=0), ROWS),
    "component tree": (ComponentTree(max_nodes=4, max_iter=2, random_state=0), ROWS),
    "ppca": (OnlinePPCA(2, random_state=0), ROWS),
    "scaled pca": (ScaledPCA(2), ROWS),
    "topics": (TopicModel(n_topics=2, random_state=0), COUNTS),
    "topic tree": (TopicTree(n_sweeps=2, random_state=0), COUNTS),
    "classifier": (MedLDAClassifier(n_topics=2, random_state=0), COUNTS),
}


@pytest.mark.parametrize(("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
@pytest.mark.parametrize("name", MODELS)
def test_transform_gives_the_frames_that_were_asked_for(name: str, backend: str, kind: Any) -> None:
    model, X = MODELS[name]
    model.set_output(transform="default").fit(X, CLASSES if name == "classifier" else None)
    plain = model.transform(X)
    frame = model.set_output(transform=backend).transform(X)
    assert isinstance(frame, kind)
    assert list(frame.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(frame.to_numpy(), plain)


def test_rows_come_back_whatever_transform_gives() -> None:
    model = ComponentTree(max_nodes=4, max_iter=2, random_state=0).fit(ROWS)
    plain = model.reconstruct(ROWS)
    model.set_output(transform="polars")
    assert isinstance(plain, np.ndarray)
    np.testing.assert_array_equal(model.reconstruct(ROWS), plain)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (DPMixture(family="full"), "family='full' does not take; 'auto', 'diagonal' and 'table'"),
        (DPMixture(family="zero-mean"), "family='zero-mean' does not take"),
        (DPMixture(family="multinomial"), "family='multinomial' does not take"),
        (ComponentTree(), "it does not take; DPMixture and OnlinePPCA do"),
        (BayesianPassiveAggressiveClassifier(), "it does not take; DPMixture"),
        (BayesianPassiveAggressiveRegressor(), "it does not take; DPMixture"),
    ],
)
def test_models_that_take_no_missing_values_say_which_do(model: Any, words: str) -> None:
    X = np.arange(24.0).reshape(8, 3)
    X[3, 1] = np.nan
    name = type(model).__name__
    with pytest.raises(ValueError, match=f"X of {name} contains NaN") as caught:
        model.fit(X, np.arange(8) % 2)
    assert words in str(caught.value)
