"""A model that is being learned from a stream, and the one file that holds all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from everlearn.errors import CheckpointError, UsageError
from everlearn.estimator.saving import load_with, save_with
from everlearn.io.ledger import Ledger
from everlearn.stream.kinds import check_options, constructor_params
from everlearn.stream.layout import Layout


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """What a model file holds: the model, how records are read, and how far sources are.

    Attributes
    ----------
    model : estimator, or None before the first batch
    layout : how records are read
    ledger : how far each source is learned
    """

    model: Any
    layout: Layout
    ledger: Ledger

    def save(self, path: Path) -> None:
        """Write the file, replacing it in one step."""
        header, arrays = self.ledger.to_checkpoint()
        save_with(path, self.model, {"layout": self.layout.to_json(), "ledger": header}, arrays)

    @classmethod
    def load(cls, path: Path) -> Session:
        """Read a file that the tool has written."""
        try:
            model, extras, arrays = load_with(path)
        except FileNotFoundError as error:
            raise UsageError(f"there is no model {str(path)!r}") from error
        if not extras:
            raise CheckpointError(
                f"{path}: this model was saved by a program, not learned from a stream by "
                "everlearn learn, so it does not say how its records are read"
            )
        try:
            layout = Layout.from_json(extras.get("layout"))
            ledger = Ledger.from_checkpoint(extras.get("ledger") or {}, arrays)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error
        return cls(model, layout, ledger)


def opened(path: Path, asked: Mapping[str, Any], changes: Mapping[str, Any]) -> Session:
    """The session of a model file, or a new one if there is no file yet.

    Parameters
    ----------
    path : the model file
    asked : what the command line says about how records shall be read, by names of `Layout`
    changes : parameters that are given on the command line
    """
    if not path.exists():
        if "kind" not in asked:
            raise UsageError(f"there is no model {str(path)!r} yet; say what it shall be by --kind")
        layout = Layout(**asked)
        check_options(layout.kind_of_model, asked)
        _check_any(layout, changes)
        return Session(None, layout, Ledger())
    session = Session.load(path)
    check_options(session.layout.kind_of_model, asked)
    for name, given in asked.items():
        known = getattr(session.layout, name)
        if given != known:
            raise UsageError(
                f"--{name.replace('_', '-')} was {known!r} when the model was begun and cannot be "
                f"{given!r} now"
            )
    seed = session.model.random_state
    if changes.get("random_state", seed) != seed:
        raise UsageError(
            f"--seed belongs to the beginning of a model; this one was begun with {seed}"
        )
    if changes:
        params = constructor_params(type(session.model), changes, session.model)
        try:
            session.model.set_params(**params).to_checkpoint()  # it refuses what cannot go on
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
    return session


def _check_any(asked: Layout, params: Mapping[str, Any]) -> None:
    """Refuse parameters that no model of the kind has, before any record is read."""
    kind = asked.kind_of_model
    refusals = []
    for form in kind.estimators:
        try:
            constructor_params(kind.estimator(form), params)
        except UsageError as error:
            refusals.append(error)
    if len(refusals) == len(kind.estimators):
        raise refusals[0]


def begun(session: Session, params: Mapping[str, Any]) -> Session:
    """With a new model, now that the form of the records is known."""
    if session.layout.form is None:
        raise UsageError("no record could be read, so there is nothing to learn from")
    estimator = session.layout.kind_of_model.estimator(session.layout.form)
    return replace(session, model=estimator(**constructor_params(estimator, params)))
