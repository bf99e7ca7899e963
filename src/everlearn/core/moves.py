"""Records of a lap and of its moves, accepted or rejected."""

from __future__ import annotations

from dataclasses import dataclass

ALL_MOVES = ("birth", "merge", "delete")


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """One judged move: the ids it would take away and bring, its gain, and the verdict."""

    kind: str
    removed: tuple[int, ...]
    added: tuple[int, ...]
    gain: float
    accepted: bool


@dataclass(frozen=True, slots=True)
class LapInfo:
    """What a lap did, for the reader."""

    clock: int
    bound: float
    n_components: int
    mass: float
    """Rows seen, by weight."""
    moves: tuple[MoveRecord, ...]
    settled: bool
    """No move was accepted and no component is left to be tried."""


TREE_MOVES = ("birth", "split", "merge", "delete")
