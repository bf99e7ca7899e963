"""Bayesian latent-variable models that keep learning from a stream.

Public names are loaded when they are first used. So ``import everlearn`` is quick, and the command
line answers ``--help`` without the numerical libraries.
"""

from typing import TYPE_CHECKING

from everlearn._lazy import lazy
from everlearn.registry import ESTIMATORS

if TYPE_CHECKING:  # the same names, for editors and type checkers
    from everlearn.clumps.estimator import ClumpedTopicModel as ClumpedTopicModel
    from everlearn.clumps.settings import ClumpOptions as ClumpOptions
    from everlearn.clusters.estimator import Clusters as Clusters
    from everlearn.components.estimator import ComponentTree as ComponentTree
    from everlearn.components.settings import ComponentTreeOptions as ComponentTreeOptions
    from everlearn.estimator.merging import merge as merge
    from everlearn.estimator.saving import load as load
    from everlearn.linear.classifier import (
        BayesianPassiveAggressiveClassifier as BayesianPassiveAggressiveClassifier,
    )
    from everlearn.linear.regressor import (
        BayesianPassiveAggressiveRegressor as BayesianPassiveAggressiveRegressor,
    )
    from everlearn.mixture.estimator import DPMixture as DPMixture
    from everlearn.ppca.estimator import OnlinePPCA as OnlinePPCA
    from everlearn.ppca.settings import PPCAOptions as PPCAOptions
    from everlearn.text.inputs import TextOptions as TextOptions
    from everlearn.topics.medlda import MedHDPClassifier as MedHDPClassifier
    from everlearn.topics.medlda import MedLDAClassifier as MedLDAClassifier
    from everlearn.topics.medlda_regressor import MedLDARegressor as MedLDARegressor
    from everlearn.topics.params import SamplerOptions as SamplerOptions
    from everlearn.topics.topic_model import TopicModel as TopicModel
    from everlearn.trees.estimator import TopicTree as TopicTree
    from everlearn.trees.settings import TreeOptions as TreeOptions

__version__ = "0.1.0"

_MODULE_OF = {
    "ClumpOptions": "everlearn.clumps.settings",
    "ComponentTreeOptions": "everlearn.components.settings",
    "load": "everlearn.estimator.saving",
    "merge": "everlearn.estimator.merging",
    "PPCAOptions": "everlearn.ppca.settings",
    "SamplerOptions": "everlearn.topics.params",
    "TextOptions": "everlearn.text.inputs",
    "TreeOptions": "everlearn.trees.settings",
    **{entry.name: entry.module for entry in ESTIMATORS if entry.package == __name__},
}
__all__ = list(_MODULE_OF)

# Hidden from type checkers, which would otherwise accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _MODULE_OF)
