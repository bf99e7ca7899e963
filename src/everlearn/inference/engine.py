"""Where local steps run: the one thing learners ask of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from everlearn.core.stats import Summable

S = TypeVar("S", bound=Summable)
Shared = TypeVar("Shared")
Item = TypeVar("Item")
Info = TypeVar("Info")


class Engine(Protocol):
    """Runs pure tasks and gives back what they return, in the order of the items."""

    @property
    def n_workers(self) -> int:
        """How many tasks run side by side."""

    def map(
        self, task: Callable[[Shared, Item], Info], items: Sequence[Item], shared: Shared
    ) -> list[Info]:
        """The results, in the order of `items`."""

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Item],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        """Sum of the first results, and the second results in the order of `items`.

        The order of the additions depends on the items alone.
        """
