"""A scikit-learn user tries everlearn: pipelines, searches, joblib, data frames, and errors.

python examples/walkthroughs/scikit_learn_user.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_blobs, make_classification
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from everlearn import (
    BayesianPassiveAggressiveClassifier,
    ComponentTree,
    DPMixture,
    OnlinePPCA,
    load,
)


def clusters() -> tuple[pd.DataFrame, Any]:
    """Four clusters in a data frame, and where each row belongs."""
    X, truth = make_blobs(600, 3, centers=4, cluster_std=0.8, random_state=3)
    return pd.DataFrame(X, columns=["width", "height", "weight"]), truth


def said(call: Callable[[], Any]) -> str:
    """The message of the error that a wrong call raises."""
    try:
        call()
    except (AttributeError, TypeError, ValueError) as error:
        return str(error).splitlines()[0]
    raise AssertionError("a wrong call was accepted")


def cluster_in_a_pipeline() -> None:
    """The estimator is the last step, a step between, and the subject of a search."""
    frame, truth = clusters()
    pipeline = make_pipeline(StandardScaler(), DPMixture(random_state=0)).fit(frame)
    found = pipeline[-1].n_components_
    score = adjusted_rand_score(truth, pipeline.predict(frame))
    print(f"{found} clusters found, adjusted Rand index {score:.2f}")
    assert score > 0.95

    search = GridSearchCV(pipeline, {"dpmixture__family": ["diagonal", "full"]}, cv=3).fit(frame)
    print("search:", search.best_params_)
    shares = pipeline.set_output(transform="pandas").fit_transform(frame)
    print("columns:", ", ".join(sorted(shares.columns)))


def classify() -> None:
    """Scores of cross-validation, probabilities, and wrappers."""
    X, y = make_classification(600, 12, n_informative=5, random_state=0)
    X *= np.geomspace(1e-3, 1e3, 12)  # columns have units of their own
    for scoring in ("accuracy", "roc_auc", "neg_log_loss"):
        scores = cross_val_score(BayesianPassiveAggressiveClassifier(), X, y, scoring=scoring)
        print(f"{scoring}: {scores.mean():.2f}")
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    wrapped = CalibratedClassifierCV(BayesianPassiveAggressiveClassifier(), cv=3)
    assert wrapped.fit(X_train, y_train).score(X_test, y_test) > 0.8


def columns_and_unions() -> None:
    """Data frames go in and come out."""
    frame, _ = clusters()
    chosen = ColumnTransformer([("pca", OnlinePPCA(2), ["width", "height"])], remainder="drop")
    both = FeatureUnion(
        [("chosen", chosen), ("tree", ComponentTree(depth=2, max_nodes=3, random_state=0))]
    )
    out = both.set_output(transform="pandas").fit_transform(frame)
    print("features:", ", ".join(out.columns[:3]), "...")
    assert len(out) == len(frame)


def keep_models() -> None:
    """Joblib runs and stores estimators; `save` writes files that run no code when loaded."""
    frame, _ = clusters()
    models = joblib.Parallel(n_jobs=2, prefer="threads")(
        joblib.delayed(OnlinePPCA(q).fit)(frame) for q in (1, 2)
    )
    with tempfile.TemporaryDirectory() as folder:
        joblib.dump(models, Path(folder) / "models.joblib")
        one, two = joblib.load(Path(folder) / "models.joblib")
        two.save(Path(folder) / "model.evl")
        same = load(Path(folder) / "model.evl")
    assert np.array_equal(same.transform(frame), models[1].transform(frame))
    print(f"score with 1 and 2 components: {one.score(frame):.2f} and {two.score(frame):.2f}")


def make_mistakes() -> None:
    """What scikit-learn taught, and other slips: the errors say what to do."""
    frame, _ = clusters()
    model = OnlinePPCA(2).fit(frame)
    wrong: list[Callable[[], Any]] = [
        lambda: DPMixture(n_components=4),  # type: ignore[call-arg]
        lambda: DPMixture().set_params(n_jobs=2),
        lambda: model.predict_proba(frame),
        lambda: BayesianPassiveAggressiveClassifier(loss="averaging").predict_proba(frame),
        lambda: model.transform(frame["width"]),
        lambda: model.partial_fit({"width": 1.0, "height": 2.0, "weight": 3.0}),
        lambda: model.partial_fit(iter(frame.to_numpy())),
        lambda: model.partial_fit(frame.assign(weight="heavy")),
        lambda: load(__file__),
    ]
    for call in wrong:
        print("  error:", said(call).replace(__file__, "scikit_learn_user.py"))
    assert model.n_samples_seen_ == len(frame)  # nothing changed


if __name__ == "__main__":
    cluster_in_a_pipeline()
    classify()
    columns_and_unions()
    keep_models()
    make_mistakes()
    print("done")
