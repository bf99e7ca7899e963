"""Merge `OnlinePPCA` models that learned parts of a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from everlearn.estimator.merge_checks import refused
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.ppca.fit import in_moments, learner_of


def merge_ppca(models: list[OnlinePPCA], base: OnlinePPCA | None) -> Any:
    """What is known from the rows of all models; a base is refused."""
    first = models[0]
    if base is not None:
        raise ValueError(
            "merge takes no base for OnlinePPCA: moments that were cut to a rank cannot be "
            "subtracted. Learn the shards from the beginning."
        )
    if first.n_mixtures != 1:
        raise refused(first, "n_mixtures", "1")
    if first.constraint is None:
        raise refused(first, "constraint", "'step' or 'task'")
    if not in_moments(first):
        raise refused(first, "solver", "'moment'")
    if first.constraint_weight != "count":
        raise refused(first, "constraint_weight", "'count'")
    learner, states = learner_of(first), [m._learned.state for m in models]

    def joined(parts: list[Any]) -> tuple[Any, ...]:
        whole = [part[0] for part in parts if part]
        return (sum(whole[1:], whole[0]).truncated(learner.kept_rank),) if whole else ()

    reference, window = (joined([getattr(s, n) for s in states]) for n in ("reference", "window"))
    (both,) = joined([window, reference])
    state = replace(
        states[0],
        models=(both.ppca(learner.rank),),
        reference=reference,
        window=window,
        clock=sum(s.clock for s in states),
        n_rows=sum(s.n_rows for s in states),
        since=sum(s.since for s in states),
        count=sum(s.count for s in states),
    )
    return replace(models[0]._learned, state=state)
