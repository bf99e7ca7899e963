"""The table of estimators: a new one is registered here, and nowhere else.

`everlearn.<name>`, `load`, `merge` and `everlearn learn --kind` read it. A row holds strings only:
the module is imported when the estimator is first used.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

Form: TypeAlias = Literal["rows", "documents", "points"]
"""What a record is: numbers in columns, a text, or points that make one document."""
Target: TypeAlias = Literal["class", "number"]
Trait: TypeAlias = Literal[
    "components",
    "bound",
    "tree",
    "scores",
    "class_topics",
    "tokens",
    "points",
    "memory",
    "levels",
    "row_by_row",
    "batch_by_batch",
]
"""What an estimator can tell, by the attributes it has; `stream/models.py` lists them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One estimator.

    Attributes
    ----------
    name : the class
    module : where it is
    key : what files call it; it must never change
    kind : `everlearn learn --kind`, or None if the command line cannot learn it
    form : what the command line makes of a record for it
    target : what it learns beside a record
    merge : "module:function" that `merge` calls, or None if what it keeps is no sum over its data
    parts : "module:function" that lists what it has found, for `everlearn show` and reports
    answers : "module:function" that answers `everlearn predict`
    traits : what it can tell beside that
    package : the package that exports it
    """

    name: str
    module: str
    key: str
    kind: str | None = None
    form: Form | None = None
    target: Target | None = None
    merge: str | None = None
    parts: str | None = None
    answers: str | None = None
    traits: tuple[Trait, ...] = ()
    package: str = "everlearn"

    def estimator(self) -> Any:
        """The class."""
        return imported(f"{self.module}:{self.name}")


def imported(place: str) -> Any:
    """What "module:name" stands for."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


_MERGE_TOPICS: Final = "everlearn.topics.merging:merge_topic_models"
_MERGE_LINEAR: Final = "everlearn.linear.merging:merge_linear_models"
_PARTS: Final = "everlearn.stream.summary"
_ANSWERS: Final = "everlearn.stream.predict"
ESTIMATORS: Final = (
    Entry(
        "DPMixture",
        "everlearn.mixture.estimator",
        key="dp-mixture",
        kind="mixture",
        form="rows",
        merge="everlearn.mixture.merging:merge_mixtures",
        parts=f"{_PARTS}:mixture_parts",
        answers=f"{_ANSWERS}:component_answers",
        traits=("components", "bound", "memory"),
    ),
    Entry(
        "Clusters",
        "everlearn.clusters.estimator",
        key="clusters",
        kind="clusters",
        form="rows",
        parts=f"{_PARTS}:gaussian_parts",
        answers=f"{_ANSWERS}:cluster_answers",
        traits=("components", "memory", "levels"),
    ),
    Entry(
        "TopicModel",
        "everlearn.topics.topic_model",
        key="topic-model",
        kind="topics",
        form="documents",
        merge=_MERGE_TOPICS,
        parts=f"{_PARTS}:topic_parts",
        answers=f"{_ANSWERS}:topic_answers",
        traits=("components", "tokens"),
    ),
    Entry(
        "TopicTree",
        "everlearn.trees.estimator",
        key="topic-tree",
        kind="tree",
        form="documents",
        parts=f"{_PARTS}:tree_parts",
        answers=f"{_ANSWERS}:path_answers",
        traits=("components", "tree", "tokens"),
    ),
    Entry(
        "MedLDAClassifier",
        "everlearn.topics.medlda",
        key="medlda-classifier",
        kind="classifier",
        form="documents",
        target="class",
        merge=_MERGE_TOPICS,
        parts=f"{_PARTS}:class_topic_parts",
        answers=f"{_ANSWERS}:label_answers",
        traits=("components", "class_topics", "tokens"),
    ),
    Entry(
        "BayesianPassiveAggressiveClassifier",
        "everlearn.linear.classifier",
        key="bayesian-pa-classifier",
        kind="classifier",
        form="rows",
        target="class",
        merge=_MERGE_LINEAR,
        parts=f"{_PARTS}:score_parts",
        answers=f"{_ANSWERS}:label_answers",
        traits=("scores", "row_by_row"),
    ),
    Entry(
        "MedLDARegressor",
        "everlearn.topics.medlda_regressor",
        key="medlda-regressor",
        kind="regressor",
        form="documents",
        target="number",
        merge=_MERGE_TOPICS,
        parts=f"{_PARTS}:topic_parts",
        answers=f"{_ANSWERS}:value_answers",
        traits=("components", "tokens"),
    ),
    Entry(
        "BayesianPassiveAggressiveRegressor",
        "everlearn.linear.regressor",
        key="bayesian-pa-regressor",
        kind="regressor",
        form="rows",
        target="number",
        merge=_MERGE_LINEAR,
        parts=f"{_PARTS}:score_parts",
        answers=f"{_ANSWERS}:value_answers",
        traits=("scores", "row_by_row"),
    ),
    Entry(
        "ClumpedTopicModel",
        "everlearn.clumps.estimator",
        key="clumped-topic-model",
        kind="clumped",
        form="points",
        parts=f"{_PARTS}:gaussian_parts",
        answers=f"{_ANSWERS}:topic_answers",
        traits=("components", "bound", "points", "memory"),
    ),
    Entry(
        "ComponentTree",
        "everlearn.components.estimator",
        key="component-tree",
        kind="components",
        form="rows",
        parts=f"{_PARTS}:tree_parts",
        answers=f"{_ANSWERS}:path_answers",
        traits=("components", "bound", "tree"),
    ),
    Entry(
        "OnlinePPCA",
        "everlearn.ppca.estimator",
        key="online-ppca",
        kind="ppca",
        form="rows",
        merge="everlearn.ppca.merging:merge_ppca",
        parts=f"{_PARTS}:axis_parts",
        answers=f"{_ANSWERS}:coordinate_answers",
        traits=("batch_by_batch",),
    ),
    Entry(
        "MedHDPClassifier",
        "everlearn.topics.medlda",
        key="medhdp-classifier",
        form="documents",
        target="class",
        parts=f"{_PARTS}:class_topic_parts",
        answers=f"{_ANSWERS}:label_answers",
        traits=("components", "class_topics", "tokens"),
    ),
    Entry(
        "ScaledPCA",
        "everlearn.ppca.scaled",
        key="scaled-pca",
        package="everlearn.images",
    ),
    Entry(
        "ImagePipeline",
        "everlearn.images.pipeline",
        key="image-pipeline",
        package="everlearn.images",
    ),
)
BY_KEY: Final = {entry.key: entry for entry in ESTIMATORS}
