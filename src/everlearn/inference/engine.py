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
    """Runs pure tasks and adds up what they return, in an order that depends on items alone."""

    def map_sum(
        self,
        task: Callable[[Shared, Item], tuple[S, Info]],
        items: Sequence[Item],
        shared: Shared,
    ) -> tuple[S, list[Info]]:
        """Sum of the first results, and the second results in the order of `items`."""
