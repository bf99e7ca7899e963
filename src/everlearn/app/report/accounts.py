"""Sections that every report on a model ends with: its memory, and how it was made."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any, Final

from everlearn.app.report.html import escape, paragraph, section, table
from everlearn.app.tool.portrait import memory_of, told_size
from everlearn.core.words import megabytes

_NAMES: Final[Mapping[str, str]] = {
    "statistics": "statistics of components",
    "pair_entropies": "overlap of pairs",
    "open_rows": "rows still open to new components",
    "total": "in all",
    "bytes_per_component": "one component, in one set of statistics",
    "max_components": "most components allowed",
    "window_rows": "most rows kept open",
}


def memory_section(model: Any) -> str:
    """The model's own account of its memory; nothing if it keeps none."""
    report = memory_of(model)
    if not report:
        return ""
    window, total = report.get("window_rows"), report.get("total")
    told = "" if total is None else f"The model holds {megabytes(total)}."
    if window is not None:
        told = (
            f"The latest {window:,} rows stay open to new components; of earlier ones only sums "
            "remain, so memory does not grow with the length of the stream."
        )
    rows = [
        (_name(key), "none set" if v is None else told_size(key, v)) for key, v in report.items()
    ]
    return section(
        "memory",
        "Memory",
        paragraph(told) if told else "",
        table("Memory held by the model", ("what", "size"), rows),
    )


def _name(key: str) -> str:
    told = key.removeprefix("n_").replace("_", " ")
    return _NAMES.get(key, told if told == key.replace("_", " ") else f"number of {told}")


def making_section(model: Any, notes: Sequence[str] = ()) -> str:
    """What the model was made with and on, and its parameters that are not the default."""
    defaults = type(model)().get_params(deep=False)
    changed = [
        (name, repr(value))
        for name, value in model.get_params(deep=False).items()
        if _canonical(value) != _canonical(defaults[name])
    ]
    machine = f"Python {platform.python_version()} on {platform.machine()}."
    listed = "".join(f"<li>{escape(note)}</li>" for note in (*notes, machine))
    caption = f"Parameters of {type(model).__name__} that are not the default"
    return section(
        "making",
        "How this was made",
        f'<ul class="notes">{listed}</ul>',
        table(caption, ("parameter", "value"), changed) if changed else "",
    )


def _canonical(value: object) -> object:
    """Collections in one order and of one type: moves may be given in any."""
    return tuple(sorted(value)) if isinstance(value, (list, set, tuple)) else value
