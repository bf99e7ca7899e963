"""Places to write to, looked at before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

import typer


def check_output(output: Path) -> None:
    """Refuse a place that cannot be written to."""
    folder = output.parent
    if output.is_dir():
        problem = f"'{output}' is a folder; name a file in it, such as '{output / 'report.html'}'."
    elif not folder.is_dir():
        problem = f"there is no folder '{folder}'; create it first or choose another place."
    elif not os.access(output if output.exists() else folder, os.W_OK):
        problem = f"'{output}' cannot be written to; choose another place."
    else:
        return
    raise typer.BadParameter(problem, param_hint="'--output'")
