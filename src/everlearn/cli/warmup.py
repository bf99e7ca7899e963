"""`everlearn warmup`: compile the kernels of models in advance."""

from __future__ import annotations

import time
import warnings
from typing import Annotated

import typer

from everlearn.cli.exits import exit_on_errors


def warmup(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KIND", help="Compile for these kinds, such as topics (default: all)."
        ),
    ] = None,
) -> None:
    """Compile what models need, so that later processes begin at once.

    For images of containers, and for servers. Compiled code is kept beside the
    package or in the user's cache folder; NUMBA_CACHE_DIR names another place.
    It fits one type of processor, so run it where the models will run.

    Example: everlearn warmup topics tree
    """
    from everlearn.errors import UsageError
    from everlearn.registry import ESTIMATORS
    from everlearn.stream.kinds import KINDS
    from everlearn.stream.warmup import warm_up

    with exit_on_errors(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in kinds or ():
            if kind not in KINDS:
                raise UsageError(f"unknown kind {kind!r}: expected {', '.join(KINDS)}")
        for entry in ESTIMATORS:
            if entry.form is not None and (not kinds or entry.kind in kinds):
                start = time.perf_counter()
                warm_up(entry)
                typer.echo(f"{entry.name}: ready after {time.perf_counter() - start:.1f} s")
