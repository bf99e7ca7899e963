"""Parameters of `DPMixture` as its parts read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

FAMILY_ALIASES: Final[Mapping[str, str]] = {"diag": "diagonal"}
"""Other names of families, as in scikit-learn."""
MAX_BUDGET_WORKERS: Final = 2
"""Most blocks of rows to process at the same time if there is a memory budget."""


def family_of(name: str) -> str:
    """The family that a valid `family` parameter means."""
    return FAMILY_ALIASES.get(name, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureSettings:
    """All parameters for one call, checked.

    They are those of `DPMixture`, in the form in which they are used: `family` is no alias,
    `init_components` is None for "many", `moves` is a set, and `memory_budget` is in bytes.
    `owner` is the name of the estimator, for messages.
    """

    owner: str
    family: str
    prior: str | Mapping[str, Any]
    concentration: float
    max_components: int
    init_components: int | None
    n_init: int
    batch_size: int | None
    birth_window: int
    max_laps: int
    tol: float
    moves: frozenset[str]
    learner: str
    dtype: str
    memory_budget: int | None
    verbose: int

    @property
    def most_workers(self) -> int | None:
        """Most blocks of rows to process at the same time, or None for no limit."""
        return None if self.memory_budget is None else MAX_BUDGET_WORKERS
