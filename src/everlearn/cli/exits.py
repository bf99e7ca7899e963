"""Exit codes, and how errors become messages and exit codes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import typer

from everlearn.errors import (
    BadRecordError,
    CheckpointError,
    ClusterError,
    LockedError,
    MemoryBudgetError,
    SourceError,
    UsageError,
)

FAILED: Final = 1
USAGE: Final = 2
BAD_RECORD: Final = 3
BAD_MODEL: Final = 4
LOCKED: Final = 5
BROKEN_PIPE: Final = 141
EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 failed, such as a full disk; 2 wrong usage, such as an unknown option, "
    "or a source that is missing or has no good record; 3 bad record under --strict; 4 model file "
    "damaged, or not written by everlearn learn; 5 another process is learning into the model; 130 "
    "or 143 stopped by Ctrl-C or SIGTERM, with everything learned so far saved; 141 output no "
    "longer read."
)


def fail(message: str, code: int = FAILED) -> NoReturn:
    """End the command with a message on standard error."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(code)


@contextmanager
def exit_on_errors() -> Iterator[None]:
    """End the command with a message and an exit code if the block raises an expected error.

    Any other error is a bug, and shows its traceback.
    """
    try:
        yield
    except BadRecordError as error:
        fail(str(error), BAD_RECORD)
    except (MemoryBudgetError, SourceError, UsageError) as error:
        fail(_message(error), USAGE)
    except CheckpointError as error:
        fail(str(error), BAD_MODEL)
    except LockedError as error:
        fail(str(error), LOCKED)
    except BrokenPipeError:
        # Python flushes standard output at exit, which would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None
    except (ClusterError, ImportError, OSError) as error:
        fail(_message(error))


def as_typed(text: str) -> str:
    """A message with options as they are typed: the library calls --label "option 'label'"."""
    return re.sub(r"\boption '([a-z-]+)'", r"--\1", text)


def _message(error: Exception) -> str:
    """What an error says, and the source in which it happened, which is noted on it."""
    text = as_typed(str(error))
    names = [name for name in getattr(error, "__notes__", ()) if name not in text]
    return f"{text} (in {names[0]!r})" if names else text
