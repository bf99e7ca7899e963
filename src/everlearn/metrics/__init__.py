"""Scores of fitted models: clusters against classes, topics, and learning without forgetting.

Each docstring gives the formula, the range, and which values are better. A name is loaded when it
is first used.
"""

from typing import TYPE_CHECKING

from everlearn._lazy import lazy

_MODULE_OF = {
    "ClusteringScores": "everlearn.metrics.clustering",
    "Coherence": "everlearn.metrics.topics",
    "Comparison": "everlearn.metrics.comparison",
    "ContinualEvaluator": "everlearn.metrics.continual",
    "ContinualSummary": "everlearn.metrics.continual",
    "adjusted_mutual_information": "everlearn.metrics.clustering",
    "clustering_scores": "everlearn.metrics.clustering",
    "compare": "everlearn.metrics.comparison",
    "continual_summary": "everlearn.metrics.continual",
    "lost_since_best": "everlearn.metrics.continual",
    "normalized_mutual_information": "everlearn.metrics.clustering",
    "npmi_coherence": "everlearn.metrics.topics",
    "perplexity": "everlearn.metrics.topics",
    "purity": "everlearn.metrics.clustering",
    "seen_so_far": "everlearn.metrics.continual",
    "topic_diversity": "everlearn.metrics.topics",
}
__all__ = list(_MODULE_OF)

if TYPE_CHECKING:  # type checkers and editors read the names here
    from everlearn.metrics.clustering import ClusteringScores as ClusteringScores
    from everlearn.metrics.clustering import (
        adjusted_mutual_information as adjusted_mutual_information,
    )
    from everlearn.metrics.clustering import clustering_scores as clustering_scores
    from everlearn.metrics.clustering import (
        normalized_mutual_information as normalized_mutual_information,
    )
    from everlearn.metrics.clustering import purity as purity
    from everlearn.metrics.comparison import Comparison as Comparison
    from everlearn.metrics.comparison import compare as compare
    from everlearn.metrics.continual import ContinualEvaluator as ContinualEvaluator
    from everlearn.metrics.continual import ContinualSummary as ContinualSummary
    from everlearn.metrics.continual import continual_summary as continual_summary
    from everlearn.metrics.continual import lost_since_best as lost_since_best
    from everlearn.metrics.continual import seen_so_far as seen_so_far
    from everlearn.metrics.topics import Coherence as Coherence
    from everlearn.metrics.topics import npmi_coherence as npmi_coherence
    from everlearn.metrics.topics import perplexity as perplexity
    from everlearn.metrics.topics import topic_diversity as topic_diversity
else:
    __getattr__, __dir__ = lazy(__name__, _MODULE_OF)
