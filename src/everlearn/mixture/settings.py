"""The parameters of `DPMixture`, checked and typed for one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from everlearn.mixture.columns import KINDS, Columns

FAMILY_ALIASES: Final[Mapping[str, str]] = {"diag": "diagonal", "auto": "diagonal"}
"""Other names of families; "diag" is that of scikit-learn."""
MAX_BUDGET_WORKERS: Final = 2
"""Most blocks of rows to process at the same time if there is a memory budget."""


def family_of(name: str | Mapping[str, str]) -> str:
    """The family that a valid `family` parameter means for rows of numbers."""
    return FAMILY_ALIASES.get(name, name) if isinstance(name, str) else "table"


@dataclass(frozen=True, slots=True)
class KindsByColumn:
    """Constraint of a parameter: a mapping from names of columns to their kinds."""

    def allows(self, value: Any) -> bool:
        """Whether the value is one."""
        return isinstance(value, Mapping) and all(
            isinstance(name, str) and isinstance(kind, str) and kind in KINDS
            for name, kind in value.items()
        )

    def __str__(self) -> str:
        return f"a mapping from columns to kinds ({', '.join(map(repr, KINDS))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureSettings:
    """All parameters for one call, checked.

    They are those of `DPMixture`, in the form in which they are used: `family` is no alias,
    `moves` is a set, and `memory_budget` is in bytes.
    `owner` is the name of the estimator, for messages. `columns` are those of a table as the rows
    of the call were read with, and `kinds` what the user says of them.
    """

    owner: str
    family: str
    prior: str | Mapping[str, Any]
    concentration: float
    max_components: int
    batch_size: int | None
    birth_window: int
    max_laps: int
    tol: float
    moves: frozenset[str]
    learner: str
    dtype: str
    memory_budget: int | None
    verbose: int
    columns: Columns | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def most_workers(self) -> int | None:
        """Most blocks of rows to process at the same time, or None for no limit."""
        return None if self.memory_budget is None else MAX_BUDGET_WORKERS
