"""Tables for people: printed as they grow, written as Markdown at the end."""

import os
import platform
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

    def add(self, *cells: object) -> None:
        self.rows.append([str(cell) for cell in cells])
        print(self.title, "|", " | ".join(self.rows[-1]), flush=True)

    def markdown(self) -> str:
        lines = [f"## {self.title}", ""]
        if self.note:
            lines += [self.note, ""]
        lines.append("| " + " | ".join(self.columns) + " |")
        lines.append("|" + " --- |" * len(self.columns))
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"


def write_page(name: str, head: str, tables: list[Table]) -> Path:
    """A page below docs/ with where and with what the figures were measured."""
    packages = ", ".join(f"{p} {version(p)}" for p in ("numpy", "scipy", "scikit-learn", "numba"))
    machine = f"{platform.machine()} with {os.cpu_count()} cores"
    where = f"Measured on {machine}, Python {platform.python_version()}, {packages}."
    path = ROOT / "docs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head.rstrip(), "", where, "", *(t.markdown() for t in tables)]))
    return path
