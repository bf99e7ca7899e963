"""Terminals, and pipes in their place, that commands print to."""

from __future__ import annotations

from rich.console import Console


class OutputConsole(Console):
    """A console that leaves it to the command how to end when nobody reads its output."""

    def on_broken_pipe(self) -> None:
        """Raise the error again; rich would end the process with a code of its own."""
        raise  # noqa: PLE0704  # called while the error is handled
