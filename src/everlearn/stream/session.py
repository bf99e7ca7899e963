"""A stream's model file: the model, how to read records, and how far each source is learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from everlearn.errors import CheckpointError, UsageError
from everlearn.estimator.saving import load_with, save_with
from everlearn.io.ledger import Ledger
from everlearn.io.opening import has_texts
from everlearn.io.sources import Source
from everlearn.stream.kinds import (
    KINDS,
    check_layout_options,
    check_params_fit_kind,
    constructor_params,
)
from everlearn.stream.layout import CHANGEABLE, Layout, checked_options
from everlearn.stream.models import StreamModel


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """What a model file holds.

    Attributes
    ----------
    model_or_none : the estimator; None before the first batch
    layout : how records are read
    ledger : how far each source is learned
    """

    model_or_none: StreamModel | None
    layout: Layout
    ledger: Ledger

    @property
    def model(self) -> StreamModel:
        """The estimator, once there is one."""
        if self.model_or_none is None:
            raise UsageError("nothing has been learned yet, so there is no model")
        return self.model_or_none

    def with_model(self, model: StreamModel) -> Session:
        """With this model."""
        return replace(self, model_or_none=model)

    def reading_as(self, sources: Sequence[Source], options: Mapping[str, Any]) -> Session:
        """With sources read as `options` say, also the rest of those that were begun."""
        layout = self.layout
        for name in ("encoding", "decimal"):
            if name in options and not any(map(has_texts, sources)):
                raise UsageError(
                    f"option {name!r} is about sources of text, and none of those given is one"
                )
        encoding = layout.encoding if "encoding" in options else None
        decimal = layout.decimal if "decimal" in options else None
        keys = {source.key for source in sources}
        return replace(self, ledger=self.ledger.read_as(keys, encoding, decimal))

    def save(self, path: Path) -> None:
        """Write the file, replacing it in one step."""
        header, arrays = self.ledger.to_checkpoint()
        save_with(path, self.model, {"layout": self.layout.to_json(), "ledger": header}, arrays)

    @classmethod
    def load(cls, path: Path) -> Session:
        """Read a file that `everlearn learn` has written."""
        try:
            model, extras, arrays = load_with(path)
        except FileNotFoundError as error:
            raise UsageError(f"there is no model {str(path)!r}") from error
        if not extras:
            raise CheckpointError(
                f"{path} was saved from Python, so it does not say how to read records. Only "
                "models that everlearn learn has written can be used on the command line"
            )
        try:
            layout = Layout.from_json(extras.get("layout"))
            ledger = Ledger.from_checkpoint(extras.get("ledger") or {}, arrays)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error
        return cls(model, layout, ledger)


def open_session(path: Path, options: Mapping[str, Any], params: Mapping[str, Any]) -> Session:
    """Load the session of a model file, or begin one if there is no file yet.

    Parameters
    ----------
    path : the model file
    options : how to read records, by names of `Layout`; names that are missing keep their values
    params : parameters of the estimator to set
    """
    options = checked_options(options)
    if not path.exists():
        return _begin(path, options, params)
    session = Session.load(path)
    check_layout_options(session.layout.kind_of_model, options)
    changed = {name: options[name] for name in CHANGEABLE & options.keys()}
    session = replace(session, layout=replace(session.layout, **changed))
    for name, value in options.items():
        known = getattr(session.layout, name)
        if value != known:
            raise UsageError(
                f"option {name.replace('_', '-')!r} was {_plain(known)!r} when {str(path)!r} was "
                f"begun and cannot be {_plain(value)!r} now"
            )
    model = session.model
    seed = params.get("random_state", model.random_state)
    if seed != model.random_state:
        raise UsageError(
            f"the seed (random_state) was {model.random_state!r} when {str(path)!r} was begun and "
            f"cannot be {seed!r} now"
        )
    if params:
        changes = constructor_params(type(model), params, model)
        try:
            # Packing the model refuses parameters that learning cannot go on with.
            model.set_params(**changes).to_checkpoint()
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
    return session


def _plain(value: Any) -> Any:
    return ",".join(value) if isinstance(value, tuple) else value


def _begin(path: Path, options: Mapping[str, Any], params: Mapping[str, Any]) -> Session:
    if "kind" not in options:
        raise UsageError(
            f"there is no model {str(path)!r} yet; to begin it, add option 'kind' "
            f"{', '.join(KINDS)}"
        )
    layout = Layout(**options)
    check_layout_options(layout.kind_of_model, options)
    check_params_fit_kind(layout.kind_of_model, params)
    return Session(None, layout, Ledger())
