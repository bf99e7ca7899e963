"""Bayesian latent-variable models that keep learning from a stream.

The public names are loaded when they are first used, so that ``import everlearn`` costs next to
nothing and a command line can answer ``--help`` without loading the numerical libraries.
"""

from typing import TYPE_CHECKING

from everlearn._lazy import lazy

if TYPE_CHECKING:
    from everlearn.clumps.estimator import ClumpedTopicModel
    from everlearn.components.estimator import ComponentTree
    from everlearn.estimator.saving import load
    from everlearn.linear.classifier import BayesianPassiveAggressiveClassifier
    from everlearn.linear.regressor import (
        BayesianPassiveAggressiveRegressor,
    )
    from everlearn.merging import merge
    from everlearn.mixture.estimator import DPMixture
    from everlearn.ppca.estimator import OnlinePPCA
    from everlearn.topics.medlda import MedHDPClassifier, MedLDAClassifier
    from everlearn.topics.medlda_regressor import MedLDARegressor
    from everlearn.topics.topic_model import TopicModel
    from everlearn.trees.estimator import TopicTree

__version__ = "0.1.0"

__all__ = [
    "BayesianPassiveAggressiveClassifier",
    "BayesianPassiveAggressiveRegressor",
    "ClumpedTopicModel",
    "ComponentTree",
    "DPMixture",
    "MedHDPClassifier",
    "MedLDAClassifier",
    "MedLDARegressor",
    "OnlinePPCA",
    "TopicModel",
    "TopicTree",
    "__version__",
    "load",
    "merge",
]

# Where each lazy name lives. A new one also joins __all__ and the imports for type checkers above.
_HOMES = {
    "BayesianPassiveAggressiveClassifier": "everlearn.linear.classifier",
    "BayesianPassiveAggressiveRegressor": "everlearn.linear.regressor",
    "ClumpedTopicModel": "everlearn.clumps.estimator",
    "ComponentTree": "everlearn.components.estimator",
    "DPMixture": "everlearn.mixture.estimator",
    "MedHDPClassifier": "everlearn.topics.medlda",
    "MedLDAClassifier": "everlearn.topics.medlda",
    "MedLDARegressor": "everlearn.topics.medlda_regressor",
    "OnlinePPCA": "everlearn.ppca.estimator",
    "TopicModel": "everlearn.topics.topic_model",
    "TopicTree": "everlearn.trees.estimator",
    "load": "everlearn.estimator.saving",
    "merge": "everlearn.merging",
}

# Hidden from type checkers, which would otherwise accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
