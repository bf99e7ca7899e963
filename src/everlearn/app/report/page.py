"""The frame that all pages share: head, style, title, key numbers and foot."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

import everlearn
from everlearn.app.report.html import escape, numbers
from everlearn.runtime.store import replacement

NO_SCRIPT = (
    '<noscript><p class="notice">The charts need JavaScript; the tables do not.</p></noscript>'
)
"""What a page with charts says to those who see none."""


def page(
    title: str,
    lead: str,
    key_numbers: Iterable[tuple[str, str]],
    sections: Iterable[str],
    scripts: Sequence[str] = (),
) -> str:
    """One HTML page that needs nothing from elsewhere; `sections` are HTML, `scripts` are code.

    The page tells the browser to fetch nothing, and to run nothing if it has no scripts.
    """
    home = files(__package__)
    template = Template(home.joinpath("page.html").read_text("utf-8"))
    return template.substitute(
        title=escape(title),
        lead=escape(lead),
        numbers=numbers(key_numbers),
        content="\n".join(part for part in sections if part),
        version=escape(everlearn.__version__),
        style=home.joinpath("page.css").read_text("utf-8"),
        scripts="\n".join(f"<script>{code}</script>" for code in scripts),
        script_source="'unsafe-inline'" if scripts else "'none'",
    )


def save_page(html: str, path: Path) -> None:
    """Write a page to a file, which stays what it was if that fails."""
    with replacement(os.path.realpath(path)) as file:
        file.write(html.encode("utf-8"))
