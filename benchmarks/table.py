"""Tables of measurements: printed while they grow, written as Markdown pages at the end."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Table:
    """A table with its title and a note below the title."""

    title: str
    columns: list[str]
    note: str = ""
    rows: list[list[str]] = field(default_factory=list)
    shown: bool = True
    """Whether each new row is printed."""
    level: int = 2
    """Level of the title as a heading."""

    def add(self, *cells: object) -> None:
        """Add a row."""
        self.rows.append([str(cell) for cell in cells])
        if self.shown:
            print(self.title, "|", " | ".join(self.rows[-1]), flush=True)

    def markdown(self) -> str:
        """The table below its title."""
        lines = [f"{'#' * self.level} {self.title}", ""]
        if self.note:
            lines += [self.note, ""]
        lines.append("| " + " | ".join(self.columns) + " |")
        lines.append("|" + " --- |" * len(self.columns))
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"


def circumstances() -> str:
    """Machine, versions and commit of figures that are measured now."""
    packages = ", ".join(f"{p} {version(p)}" for p in ("numpy", "scipy", "scikit-learn", "numba"))
    machine = f"{platform.machine()} with {os.cpu_count()} cores"
    return f"{machine}, Python {platform.python_version()}, {packages}, everlearn at {_commit()}"


def _commit() -> str:
    """The commit that is checked out, with a plus sign if code differs from it.

    Pages and pictures may differ: runs write them while others still wait.
    """
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return version("everlearn")

    def said(*words: str) -> str:
        done = subprocess.run([git, *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    commit = said("describe", "--always", "--abbrev=7", "--exclude=*")
    changed = said("status", "--porcelain", "--", "src", "benchmarks")
    return f"{commit}{'+' if changed else ''}" if commit else version("everlearn")


def _together(measured: set[str]) -> list[str]:
    """Circumstances, with those joined that differ by the commit alone."""
    commits: dict[str, list[str]] = {}
    for place, _, commit in (said.rpartition(" at ") for said in sorted(measured)):
        commits.setdefault(place, []).append(commit)
    return [f"{place} at {', '.join(found)}" for place, found in commits.items()]


def write_page(
    name: str, head: str, content: Sequence[Table | str], measured: Iterable[str] = ()
) -> Path:
    """Write a page below docs/, with where and with what its figures were measured (default: now).

    Texts between tables are Markdown.
    """
    found = _together(set(measured) or {circumstances()})
    where = "Measured on " + "; and on ".join(found) + "."
    parts = [part if isinstance(part, str) else part.markdown() for part in content]
    path = ROOT / "docs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head.rstrip(), "", where, "", *parts]))
    return path


def replace_section(name: str, head: str, table: Table) -> Path:
    """Replace a table, which was measured now, in a page below docs/; add it if it is new.

    Every section says where and with what it was measured, because others may be older.
    """
    path = ROOT / "docs" / name
    old = path.read_text() if path.exists() else ""
    sections = {part.partition("\n")[0]: part for part in old.split("\n## ")[1:]}
    new = f"{table.markdown()}\nMeasured on {circumstances()}.\n"
    sections[table.title] = new.removeprefix("## ")
    path.write_text("\n".join([head, *(f"## {part.rstrip()}\n" for part in sections.values())]))
    return path
