"""Run `fit` or `partial_fit` of `OnlinePPCA`, and return all that it has learned."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.opening import open_engine
from everlearn.engine.progress import RowProgress
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.errors import NotConvergedWarning
from everlearn.ppca.batch_em import BatchEM
from everlearn.ppca.local import block_rows
from everlearn.ppca.natural_em import NaturalEM
from everlearn.ppca.settings import PPCAForm, PPCASettings
from everlearn.ppca.state import PPCAState


@dataclass(frozen=True, slots=True, eq=False)
class PPCAFit:
    """Everything that an `OnlinePPCA` has learned.

    Attributes
    ----------
    state : of the learner
    form : the parameters that cannot change
    likelihoods : mean log-likelihood before each iteration of EM in the last `fit`
    """

    state: PPCAState
    form: PPCAForm
    likelihoods: tuple[float, ...] = ()

    @property
    def seed(self) -> int:
        """Seed of all draws."""
        return self.state.seed

    @property
    def n_features(self) -> int:
        """Width of a row."""
        return len(self.state.origin)


def fit_rows(
    settings: PPCASettings, rows: Rows | ChunkedRows, engine: Engine, seed: int
) -> PPCAFit:
    """Learn a data set with a new model: `fit`."""
    learner, likelihoods = settings.learner, list[float]()
    exact = settings.exact
    if exact is None:
        exact = not (settings.form.is_mixture or rows.missing)
    with RowProgress(settings.verbose, len(rows)) as progress:
        if exact:
            blank = PPCAState.blank(rows, learner.rank, seed, engine)
            state = _after(settings, blank, rows, engine)
        else:
            start = None
            if rows.missing and not settings.form.is_mixture:
                start = _start_with_gaps(learner, rows, seed, engine)
            found, likelihoods = BatchEM(
                learner.rank, learner.max_components, settings.max_iter, settings.tol
            ).fit(rows, seed, engine, lambda value: progress.show(len(rows), value), start)
            state = _checked(settings, learner.adopt(found, rows, engine))
    if len(likelihoods) > 1 and likelihoods[-1] - likelihoods[-2] >= settings.tol:
        warnings.warn(
            f"{settings.owner} stopped at max_iter={settings.max_iter} while the mean "
            f"log-likelihood still rose by {likelihoods[-1] - likelihoods[-2]:.2g}, more than "
            f"tol={settings.tol:g}",
            NotConvergedWarning,
            stacklevel=3,
        )
    return PPCAFit(state, settings.form, tuple(likelihoods))


def _start_with_gaps(
    learner: NaturalEM, rows: Rows | ChunkedRows, seed: int, engine: Engine
) -> PPCAState:
    """A start for EM if entries are missing: one exact step on filled rows.

    From random loadings, EM needs hundreds of iterations.
    """
    exact = replace(learner, constraint="step", weight=None)
    state = exact.step(PPCAState.blank(rows, learner.rank, seed, engine), rows, engine)
    return replace(state, reference=(), window=())


def begin(settings: PPCASettings, rows: Rows, task: int | str | None, seed: int) -> PPCAFit:
    """The fit of a new model, whose first `partial_fit` brings these rows."""
    first = rows if settings.batch_size is None else rows[: settings.batch_size]
    blank = PPCAState.blank(first, settings.learner.rank, seed)
    return PPCAFit(replace(blank, task=task), settings.form)


def learn_rows(
    settings: PPCASettings, known: PPCAFit, calls: Sequence[Rows], task: int | str | None = None
) -> PPCAFit:
    """Learn the rows of one or several calls of `partial_fit`, in batches and in their order."""
    state, done, longest = known.state, 0, max(calls, key=len)
    size = len(longest) if settings.batch_size is None else settings.batch_size
    with (
        engine_for(settings, longest) as engine,
        RowProgress(settings.verbose, sum(map(len, calls))) as progress,
    ):
        if task is not None and task != state.task:
            state = replace(settings.learner.consolidate(state), task=task)
        for batch in (batch for rows in calls for batch in rows.blocks(size)):
            state = _after(settings, state, batch, engine)
            done += len(batch)
            progress.show(done, None)
    return replace(known, state=state)


def consolidated(settings: PPCASettings, known: PPCAFit) -> PPCAFit:
    """The fit after the end of a task."""
    with open_engine("serial"):
        return replace(known, state=settings.learner.consolidate(known.state))


def engine_for(settings: PPCASettings, rows: Rows) -> AbstractContextManager[Engine]:
    """The engine of the settings, but no threads if a batch is a single block."""
    size = len(rows) if settings.batch_size is None else settings.batch_size
    one_block = size <= block_rows(rows.width, settings.learner.rank)
    return open_engine("serial" if one_block else settings.engine)


def _after(
    settings: PPCASettings, state: PPCAState, rows: Rows | ChunkedRows, engine: Engine
) -> PPCAState:
    """The state after a batch, or a ValueError if it cannot be computed."""
    try:
        return _checked(settings, settings.learner.step(state, rows, engine))
    except OverflowError as error:
        raise _not_finite(settings) from error


def _checked(settings: PPCASettings, state: PPCAState) -> PPCAState:
    if not state.is_finite():
        raise _not_finite(settings)
    return state


def _not_finite(settings: PPCASettings) -> ValueError:
    return ValueError(
        f"{settings.owner} cannot learn from X: parameters are not finite any more. Scale X, or "
        "choose a smaller 'constraint_weight'."
    )
