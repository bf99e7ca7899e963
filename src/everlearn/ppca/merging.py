"""Merge `OnlinePPCA` models that learned parts of a stream."""

from __future__ import annotations

from dataclasses import replace

from everlearn.estimator.merge_checks import refused
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.ppca.fit import PPCAFit
from everlearn.ppca.moments import Moments


def merge_ppca(models: list[OnlinePPCA], base: OnlinePPCA | None) -> PPCAFit:
    """The fit of the merged model. A base is refused."""
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
    learner, states = first._settings().learner, [model._learned.state for model in models]
    if first.constraint_weight != "count":
        raise refused(first, "constraint_weight", "'count'")

    def joined(parts: list[tuple[Moments, ...]]) -> tuple[Moments, ...]:
        whole = [part[0] for part in parts if part]
        return (sum(whole[1:], whole[0]).truncated(learner.kept_rank),) if whole else ()

    reference = joined([state.reference for state in states])
    window = joined([state.window for state in states])
    (both,) = joined([window, reference])
    state = replace(
        states[0],
        models=(both.ppca(learner.rank),),
        reference=reference,
        window=window,
        clock=sum(s.clock for s in states),
        n_rows=sum(s.n_rows for s in states),
        mass=sum(s.mass for s in states),
        new_mass=sum(s.new_mass for s in states),
    )
    return replace(first._learned, state=state)
