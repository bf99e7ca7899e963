"""The experiments of variational inference for the nested Chinese restaurant process.

The page is made of parts, one for each kind of tree.
"""

from collections.abc import Callable, Iterator

from benchmarks import component_trees
from benchmarks.table import Table, write_page

HEAD = """# The nested Chinese restaurant process: the paper's experiments

Written by `make reproduce PAPER=ncrp`. Settings are the library's defaults unless said, on one
thread; CPU seconds are those of the process. Other programs ran on the machine meanwhile.
"""
PARTS: list[tuple[str, Callable[[set[str]], Iterator[Table]]]] = [
    (component_trees.HEAD, component_trees.tables),
]


def reproduce() -> None:
    """Run what has not been run yet, then write the page."""
    measured: set[str] = set()
    heads, tables = [HEAD], []
    for head, part in PARTS:
        heads.append(head)
        tables += list(part(measured))
    print("written to", write_page("papers/ncrp.md", "\n".join(heads), tables, measured))
