"""Exit codes, and how a command ends with one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import typer

FAILED: Final = 1
USAGE: Final = 2
BAD_RECORD: Final = 3
BAD_MODEL: Final = 4
LOCKED: Final = 5
UNREAD: Final = 141
EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 failed while running, such as a full disk; 2 wrong usage, such as an "
    "unknown option or a source that is not there; 3 a bad record under --strict; 4 a model file "
    "that is damaged or foreign; 5 another process is learning into the model; 130 and 143 "
    "interrupted (Ctrl-C, SIGTERM), with everything learned so far written; 141 nobody reads the "
    "output."
)


def fail(message: str, code: int = FAILED) -> NoReturn:
    """End the command with a message on standard error."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(code)


@contextmanager
def told_errors() -> Iterator[None]:
    """Errors that users can do something about end the command with a line and a code."""
    from everlearn.errors import CheckpointError, ClusterError, MemoryBudgetError, UsageError
    from everlearn.io.lock import LockedError
    from everlearn.io.sources import SourceError
    from everlearn.stream.learn import BadRecordError

    try:
        yield
    except BadRecordError as error:
        fail(str(error), BAD_RECORD)
    except (MemoryBudgetError, SourceError, UsageError) as error:
        fail(_told(error), USAGE)
    except CheckpointError as error:
        fail(str(error), BAD_MODEL)
    except LockedError as error:
        fail(str(error), LOCKED)
    except BrokenPipeError:
        # Whoever read the output has seen enough, and the interpreter must not write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(UNREAD) from None
    except (ClusterError, ImportError, OSError) as error:
        fail(_told(error))


def _told(error: Exception) -> str:
    """What an error says, and the source that was read then, which is noted on it."""
    names = [name for name in getattr(error, "__notes__", ()) if name not in str(error)]
    return f"{error} (in {names[0]!r})" if names else str(error)
