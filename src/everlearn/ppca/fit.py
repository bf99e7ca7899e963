"""From the parameters of `OnlinePPCA` to a learner, and from rows to what is known."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.opening import open_engine
from everlearn.engine.progress import RowProgress
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.errors import NotConvergedWarning
from everlearn.ppca.batch_em import BatchEM
from everlearn.ppca.constraint import ParameterConstraint
from everlearn.ppca.local import block_rows
from everlearn.ppca.natural_em import NaturalEM, StepSize
from everlearn.ppca.state import PPCAState

FIXED = ("n_components", "constraint", "solver", "statistics")
"""Parameters that what is learned depends on for good."""


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What an estimator knows.

    Attributes
    ----------
    state : of the learner
    form : the values of `FIXED` when learning began
    mixture : whether `n_mixtures` was more than 1 then
    likelihoods : mean log-likelihood before each iteration of EM in the last `fit`
    """

    state: PPCAState
    form: tuple[Any, ...]
    mixture: bool
    likelihoods: tuple[float, ...] = ()


def form_of(estimator: Any) -> tuple[Any, ...]:
    """The values of `FIXED`; a solver matters only where there is a choice."""
    return (
        int(estimator.n_components),
        estimator.constraint,
        "moment" if in_moments(estimator) else "em",
        str(estimator.statistics),
    )


def in_moments(estimator: Any) -> bool:
    """Whether batches are merged by their moments."""
    kl = estimator.constraint is not None and estimator.constraint_form == "kl"
    return kl and estimator.solver == "moment"


def is_mixture(estimator: Any) -> bool:
    """Whether there may be several PPCAs."""
    return bool(estimator.n_mixtures > 1)


def check_same_model(estimator: Any, learned: Learned) -> None:
    """Refuse to go on with another kind of model than learning began with."""
    cls = type(estimator).__name__
    for name, known, asked in zip(FIXED, learned.form, form_of(estimator), strict=True):
        if known == asked:
            continue
        if name == "solver" and known == estimator.solver:  # another form takes the choice away
            name, known, asked = "constraint_form", "kl", estimator.constraint_form
        elif name == "solver" and asked == "moment":
            raise ValueError(
                f"the 'solver' and 'constraint_form' parameters of {cls} asked for online EM when "
                "learning began, which cannot change without a new fit. Got 'moment' and 'kl' "
                "instead."
            )
        raise ValueError(
            f"the {name!r} parameter of {cls} was {known!r} when learning began and cannot change "
            f"without a new fit. Got {asked!r} instead."
        )
    least = len(learned.state.models)
    if learned.mixture != is_mixture(estimator) or estimator.n_mixtures < least:
        expected = f"at least {max(2, least)}" if learned.mixture else "1"
        raise ValueError(
            f"the 'n_mixtures' parameter of {cls} must be {expected} to go on from what was "
            f"learned without a new fit. Got {estimator.n_mixtures!r} instead."
        )


def learner_of(estimator: Any) -> NaturalEM:
    """The learner that the parameters describe."""
    rank = int(estimator.n_components)
    kept = 2 * rank if estimator.kept_components is None else int(estimator.kept_components)
    weight = estimator.constraint_weight
    most = estimator.max_reference_rows
    parametric = None
    if estimator.constraint is not None and estimator.constraint_form != "kl":
        parametric = ParameterConstraint(
            estimator.constraint_form,
            complete=estimator.fisher == "complete",
            clip=bool(estimator.clip),
            align=bool(estimator.align),
        )
    constant = None if estimator.step_size is None else float(estimator.step_size)
    return NaturalEM(
        rank=rank,
        kept_rank=min(kept, estimator.n_features_in_),
        constraint=estimator.constraint,
        in_moments=in_moments(estimator),
        parametric=parametric,
        weight=None if weight == "count" else float(weight),
        max_evidence=np.inf if most is None else float(most),
        step_size=StepSize(constant, float(estimator.step_power), float(estimator.step_offset)),
        moving_centre=estimator.statistics == "printed",
        max_components=int(estimator.n_mixtures),
        novelty=float(estimator.novelty),
    )


def fit_rows(estimator: Any, rows: Rows | ChunkedRows, engine: Engine) -> Learned:
    """What is known after a data set, from nothing."""
    seed, form = estimator._new_seed(), form_of(estimator)
    learner = learner_of(estimator)
    exact = estimator.fit_method == "exact"
    if estimator.fit_method == "auto":
        exact = estimator.n_mixtures == 1 and not rows.missing
    likelihoods: list[float] = []
    with RowProgress(estimator.verbose, len(rows)) as progress:
        if exact:
            blank = PPCAState.blank(rows, learner.rank, seed, engine)
            state = _after(estimator, learner, blank, rows, engine)
        else:
            em = BatchEM(
                learner.rank, int(estimator.n_mixtures), int(estimator.max_iter), estimator.tol
            )
            start = None
            if rows.missing and estimator.n_mixtures == 1:
                start = _completed(learner, rows, seed, engine)
            found, likelihoods = em.fit(
                rows, seed, engine, lambda value: progress.show(len(rows), value), start
            )
            state = _checked(estimator, learner.adopt(found, rows, engine))
    if len(likelihoods) > 1 and likelihoods[-1] - likelihoods[-2] >= estimator.tol:
        warnings.warn(
            f"{type(estimator).__name__} stopped at max_iter={estimator.max_iter} while the mean "
            f"log-likelihood still rose by {likelihoods[-1] - likelihoods[-2]:.2g}, more than "
            f"tol={estimator.tol:g}",
            NotConvergedWarning,
            stacklevel=3,
        )
    return Learned(state, form, is_mixture(estimator), tuple(likelihoods))


def _completed(
    learner: NaturalEM, rows: Rows | ChunkedRows, seed: int, engine: Engine
) -> PPCAState:
    """A start for EM with gaps, which from afar takes hundreds of iterations where noise is low."""
    exact = replace(learner, constraint="step", in_moments=True, parametric=None, weight=None)
    state = exact.step(PPCAState.blank(rows, learner.rank, seed, engine), rows, engine)
    return replace(state, reference=(), window=())


def learn_rows(
    estimator: Any, learned: Learned | None, calls: Sequence[Rows], task: int | str | None
) -> Learned:
    """What is known after the rows of one or several calls, in batches and in their order."""
    learner, longest = learner_of(estimator), max(calls, key=len)
    if learned is None:
        blank = PPCAState.blank(_first(estimator, calls[0]), learner.rank, estimator._new_seed())
        form, mixture = form_of(estimator), is_mixture(estimator)
        learned = Learned(replace(blank, task=task), form, mixture)
    state, done = learned.state, 0
    size = len(longest) if estimator.batch_size is None else int(estimator.batch_size)
    with (
        engine_for(estimator, longest) as engine,
        RowProgress(estimator.verbose, sum(map(len, calls))) as progress,
    ):
        if task is not None and task != state.task:
            state = replace(learner.consolidate(state), task=task)
        for batch in (batch for rows in calls for batch in rows.blocks(size)):
            state = _after(estimator, learner, state, batch, engine)
            done += len(batch)
            progress.show(done, None)
    return replace(learned, state=state)


def consolidated(estimator: Any, learned: Learned) -> Learned:
    """What is known after the end of a task."""
    with open_engine("serial"):
        return replace(learned, state=learner_of(estimator).consolidate(learned.state))


def _first(estimator: Any, rows: Rows) -> Rows:
    """The first batch."""
    return rows if estimator.batch_size is None else rows[: int(estimator.batch_size)]


def engine_for(estimator: Any, rows: Rows) -> AbstractContextManager[Engine]:
    """The engine asked for; threads are not started for what is one block."""
    size = len(rows) if estimator.batch_size is None else int(estimator.batch_size)
    one_block = size <= block_rows(estimator.n_features_in_, int(estimator.n_components))
    return open_engine("serial" if one_block else estimator.engine)


def _after(
    estimator: Any, learner: NaturalEM, state: PPCAState, rows: Rows | ChunkedRows, engine: Engine
) -> PPCAState:
    """The state after a batch, or a ValueError if it cannot be computed."""
    try:
        return _checked(estimator, learner.step(state, rows, engine))
    except OverflowError as error:
        raise _not_finite(estimator) from error


def _checked(estimator: Any, state: PPCAState) -> PPCAState:
    if not state.is_finite():
        raise _not_finite(estimator)
    return state


def _not_finite(estimator: Any) -> ValueError:
    return ValueError(
        f"{type(estimator).__name__} cannot learn from X: parameters are not finite any more. "
        "Scale X, or choose a smaller 'constraint_weight'."
    )
