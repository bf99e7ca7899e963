"""Data of this process on the workers of a cluster: what was sent, and where to."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from everlearn.inference.engine import Piece
from everlearn.runtime.engine.groups import Group
from everlearn.runtime.engine.remote import by_home


class Sent:
    """Chunks that were sent, for as long as somebody has the data.

    futures : of the chunks, by `Piece.home`
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self.futures: dict[tuple[int, int], Any] = {}
        self._homes: dict[tuple[int, int], str] = {}
        self._sources: dict[int, Any] = {}  # alive, or watched until they are gone

    def clear(self) -> None:
        """Let go of all of them."""
        for kept in (self.futures, self._homes, self._sources):
            kept.clear()

    def settle(self, groups: Iterable[Group]) -> None:
        """Remember which workers get the chunks."""
        for group in groups:
            for run in group.runs:
                if isinstance(run[0], Piece) and run[0].chunk is not None:
                    self._homes[run[0].home] = group.home

    def home(self, piece: Piece) -> str | None:
        """The worker that has a chunk, or gets it."""
        return self._homes.get(piece.home)

    def send_missing(self, runs: Iterable[list[Any]], home: Callable[[Any], str | None]) -> None:
        """Send the chunks that are not on a worker, or no longer."""
        missing = {}
        for run in runs:
            piece = run[0]
            if isinstance(piece, Piece) and piece.chunk is not None:
                held = self.futures.get(piece.home)
                if held is None or held.status in ("cancelled", "lost"):
                    missing[piece.home] = piece
        for address, some in by_home(missing.values(), home):
            chunks = [piece.source[piece.chunk] for piece in some]
            workers = None if address is None else [address]
            try:
                sent = self._client.scatter(chunks, workers=workers, hash=False)
            except KeyError as error:
                raise ConnectionError(f"the scheduler has lost {address}") from error
            for piece, future in zip(some, sent, strict=True):
                self.futures[piece.home] = future
                self._watch(piece.source)

    def _watch(self, source: Any) -> None:
        """Let go of what was sent of some data when nobody has the data any more."""
        number = id(source)
        if number in self._sources:
            return

        def forget(_: Any) -> None:
            self._sources.pop(number, None)
            for kept in (self.futures, self._homes):
                for home in [home for home in kept if home[0] == number]:
                    del kept[home]

        try:
            self._sources[number] = weakref.ref(source, forget)
        except TypeError:  # alive, so that no other object gets the same identity
            self._sources[number] = source
