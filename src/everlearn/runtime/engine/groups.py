"""Which items go to which worker: where their data are, and no finer than it pays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from everlearn.core.stats import LAST
from everlearn.inference.engine import together

TASKS_PER_THREAD = 2
"""Of items that nobody holds yet, so that workers get about as many."""


class Group(NamedTuple):
    """Runs of items that are one task, the worker it is meant for, and its place in the tree.

    start : number of runs of the groups before it
    height : what `total` wants to know of the sum of the runs
    """

    runs: list[list[Any]]
    home: str
    start: int = 0
    height: int = 0


class Node(NamedTuple):
    """A sum, and its place in the tree of additions as that of a group."""

    start: int
    height: int
    sum: Any

    def meets(self, right: Node) -> bool:
        """Whether the tree adds this one and the node to the right of it."""
        if self.height == LAST or self.start + (1 << self.height) != right.start:
            return False
        if right.height == LAST:  # the smallest before the last one is added to it first
            return right.start & -right.start == 1 << self.height
        return right.height == self.height and self.start % (2 << self.height) == 0


def folded(nodes: Iterable[Node]) -> list[Node]:
    """As few sums as make up for those given, which ascend: the same additions as of `total`."""
    found: list[Node] = []
    for node in nodes:
        while found and found[-1].meets(node):
            left = found.pop()
            height = LAST if node.height == LAST else node.height + 1
            node = Node(left.start, height, left.sum + node.sum)
        found.append(node)
    return found


def grouped(
    items: Sequence[Any],
    workers: Sequence[str],
    n_threads: int,
    home: Callable[[Any], str | None],
) -> list[Group]:
    """Runs of items that are held together, in groups that are sent to one worker each.

    Groups have a power of two of runs, so that their sums are nodes of the tree of additions: the
    bits do not depend on how many groups there are. Runs that different workers hold, as `home`
    says of their first items, are in different groups; those that nobody holds are dealt out.
    What a worker of one thread holds is as few groups as the tree allows.
    """
    alone = together(items)
    settled = n_threads == len(workers) and all(home(run[0]) is not None for run in alone)
    most = 1 if settled else TASKS_PER_THREAD * n_threads
    size = 1
    while size * most < len(alone):
        size *= 2
    found: list[list[list[Any]]] = []
    for i in range(0, len(alone), size):
        found += _halved(alone[i : i + size], size, home)
    starts = accumulate(map(len, found), initial=0)
    heights = [len(runs).bit_length() - 1 for runs in found[:-1]] + [LAST]
    return [
        Group(runs, home(runs[0][0]) or workers[number % len(workers)], start, height)
        for number, (runs, start, height) in enumerate(zip(found, starts, heights, strict=False))
    ]


def _halved(
    runs: list[list[Any]], size: int, home: Callable[[Any], str | None]
) -> list[list[list[Any]]]:
    """The runs as one group if one worker holds them, else in two halves, and so on."""
    if size == 1 or len({home(run[0]) for run in runs}) <= 1:
        return [runs]
    half = size // 2
    parts = [part for part in (runs[:half], runs[half:]) if part]
    return [group for part in parts for group in _halved(part, half, home)]
