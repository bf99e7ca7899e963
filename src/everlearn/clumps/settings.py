"""The parameters of a `ClumpedTopicModel`, checked and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from everlearn.clumps.budget import KeepLimits
from everlearn.engine.opening import EngineChoice
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.params import Constraint, Interval, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class ClumpOptions(ExpertOptions):
    """Rarely used parameters of `ClumpedTopicModel`.

    Parameters
    ----------
    first_clumps : int, default=500
        Clumps per document for the search of topics, if documents have more than 5,000 points on
        average. Searching on clumps is several times faster than on points. 0 always searches on
        points.
    raw_iterations : int, default=3
        Iterations over all points that follow a search on first clumps.
    group_merge : {"cosine", "free-energy"}, default="cosine"
        Which groups of documents are merged first: "cosine" takes those with the most similar
        mixtures, "free-energy" those whose merge lowers the bound least.
    max_topics : int, default=10000
        Topics are not split beyond this number.
    """

    first_clumps: int = 500
    raw_iterations: int = 3
    group_merge: str = "cosine"
    max_topics: int = 10_000

    constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "first_clumps": (Interval(0, integer=True),),
        "raw_iterations": (Interval(1, integer=True),),
        "group_merge": (Options(("cosine", "free-energy")),),
        "max_topics": (Interval(1, integer=True),),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClumpSettings:
    """The parameters of a model at the time of one call. `owner` is its class, for messages."""

    owner: str
    family: str
    prior: str | Mapping[str, Any]
    topic_price: float | str
    limits: KeepLimits
    epoch_budget: int | None
    track_documents: bool
    expected_points: float | None
    on_budget: str
    batch_size: int | None
    options: ClumpOptions
    engine: EngineChoice
    verbose: int
