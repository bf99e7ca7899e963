"""Tables for people: printed as they grow, written as Markdown at the end."""

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
    title: str
    columns: list[str]
    note: str = ""
    rows: list[list[str]] = field(default_factory=list)
    shown: bool = True
    """Whether rows are printed as they come."""

    def add(self, *cells: object) -> None:
        self.rows.append([str(cell) for cell in cells])
        if self.shown:
            print(self.title, "|", " | ".join(self.rows[-1]), flush=True)

    def markdown(self) -> str:
        lines = [f"## {self.title}", ""]
        if self.note:
            lines += [self.note, ""]
        lines.append("| " + " | ".join(self.columns) + " |")
        lines.append("|" + " --- |" * len(self.columns))
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"


def circumstances() -> str:
    """Machine, versions and commit that figures measured now belong to."""
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
    """Circumstances that differ by the commit alone, as one."""
    commits: dict[str, list[str]] = {}
    for place, _, commit in (said.rpartition(" at ") for said in sorted(measured)):
        commits.setdefault(place, []).append(commit)
    return [f"{place} at {', '.join(found)}" for place, found in commits.items()]


def write_page(
    name: str, head: str, content: Sequence[Table | str], measured: Iterable[str] = ()
) -> Path:
    """A page below docs/ with where and with what the figures were measured: now, if not said.

    Texts between tables are Markdown already.
    """
    found = _together(set(measured) or {circumstances()})
    where = "Measured on " + "; and on ".join(found) + "."
    parts = [part if isinstance(part, str) else part.markdown() for part in content]
    path = ROOT / "docs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head.rstrip(), "", where, "", *parts]))
    return path


def replace_section(name: str, head: str, table: Table) -> Path:
    """A page below docs/ in which this table, measured now, stands in place of its last version.

    Every section says where and with what it was measured, because others may be older.
    """
    path = ROOT / "docs" / name
    old = path.read_text() if path.exists() else ""
    sections = {part.partition("\n")[0]: part for part in old.split("\n## ")[1:]}
    new = f"{table.markdown()}\nMeasured on {circumstances()}.\n"
    sections[table.title] = new.removeprefix("## ")
    path.write_text("\n".join([head, *(f"## {part.rstrip()}\n" for part in sections.values())]))
    return path
