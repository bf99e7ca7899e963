"""Bayesian latent-variable models that keep learning from a stream.

The public names are loaded when they are first used, so that ``import everlearn`` costs next to
nothing and a command line can answer ``--help`` without loading the numerical libraries.
"""

from typing import TYPE_CHECKING

from everlearn._lazy import lazy

if TYPE_CHECKING:
    from everlearn.estimators.clumped import ClumpedTopicModel
    from everlearn.estimators.component_tree import ComponentTree
    from everlearn.estimators.merging import merge
    from everlearn.estimators.mixture import DPMixture
    from everlearn.estimators.passive_aggressive import BayesianPassiveAggressiveClassifier
    from everlearn.estimators.passive_aggressive_regression import (
        BayesianPassiveAggressiveRegressor,
    )
    from everlearn.estimators.persistence import load
    from everlearn.estimators.ppca import OnlinePPCA
    from everlearn.estimators.supervised import MedLDAClassifier
    from everlearn.estimators.supervised_growing import MedHDPClassifier
    from everlearn.estimators.supervised_regression import MedLDARegressor
    from everlearn.estimators.topic_tree import TopicTree
    from everlearn.estimators.topics import TopicModel

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
    "BayesianPassiveAggressiveClassifier": "everlearn.estimators.passive_aggressive",
    "BayesianPassiveAggressiveRegressor": "everlearn.estimators.passive_aggressive_regression",
    "ClumpedTopicModel": "everlearn.estimators.clumped",
    "ComponentTree": "everlearn.estimators.component_tree",
    "DPMixture": "everlearn.estimators.mixture",
    "MedHDPClassifier": "everlearn.estimators.supervised_growing",
    "MedLDAClassifier": "everlearn.estimators.supervised",
    "MedLDARegressor": "everlearn.estimators.supervised_regression",
    "OnlinePPCA": "everlearn.estimators.ppca",
    "TopicModel": "everlearn.estimators.topics",
    "TopicTree": "everlearn.estimators.topic_tree",
    "load": "everlearn.estimators.persistence",
    "merge": "everlearn.estimators.merging",
}

# Hidden from type checkers, which would otherwise accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
