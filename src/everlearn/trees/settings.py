"""The parameters of a `TopicTree`, typed for one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from everlearn.core.arrays import Vec
from everlearn.engine.opening import EngineChoice
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.params import Constraint, Instance, Interval
from everlearn.trees.local import PathStep
from everlearn.trees.model import TreeRules

LEVEL_RANGE: Final = (1e-3, 1e6)
"""Smallest and largest entry of a level prior, so that densities of levels are finite."""
MAX_PASSES: Final = 2**15


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions(ExpertOptions):
    """Rarely used parameters of a `TopicTree`.

    Parameters
    ----------
    n_passes : int, default=6
        Variational passes of `fit` over the documents, after sampling. 0 keeps the sampled tree.
    min_mass : float, default=0.5
        `fit` ends by removing branches with fewer documents, and nodes of the last level with
        fewer tokens.
    stream_sweeps : int, default=8
        Sweeps of the sampler over each batch of a stream. The first batch has 30.
    n_candidates : int, default=8
        Paths of each document that variational passes compute exactly. They are the best ones of
        a rough score of all paths.
    merge : bool, default=True
        Whether to merge siblings wherever that makes the tree more probable. False keeps the tree
        as the sampler draws it, with many more nodes.
    """

    n_passes: int = 6
    min_mass: float = 0.5
    stream_sweeps: int = 8
    n_candidates: int = 8
    merge: bool = True

    constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "n_passes": (Interval(0, MAX_PASSES, integer=True),),
        "min_mass": (Interval(0),),
        "stream_sweeps": (Interval(1, 2**15, integer=True),),
        "n_candidates": (Interval(1, integer=True),),
        "merge": (Instance((bool, np.bool_), "a truth value"),),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSettings:
    """Everything that learning depends on. The estimator builds it at the start of a call.

    Attributes
    ----------
    rules : prior and limits of the tree
    first_levels : (depth,) level prior of a tree without documents
    step : local step of variational passes
    learning : "batch", "memoized" or "stream"
    n_sweeps : sweeps of the sampler in `fit`, after each document was drawn once
    n_passes, min_mass, stream_sweeps, merge : see `TreeOptions`
    batch_size : documents of a batch, for "memoized" and "stream"
    reservoir : past documents that a stream can still move
    shuffle : whether `fit` visits documents in random order if `learning="stream"`
    engine : the estimator's parameter, for `open_engine`
    verbose : whether progress is shown
    """

    rules: TreeRules
    first_levels: Vec
    step: PathStep
    learning: str = "batch"
    n_sweeps: int = 40
    n_passes: int = 6
    min_mass: float = 0.5
    merge: bool = True
    batch_size: int = 50
    reservoir: int = 300
    stream_sweeps: int = 8
    shuffle: bool = True
    engine: EngineChoice = None
    verbose: int = 0
