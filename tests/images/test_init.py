"""Type checkers see the names that are loaded when they are first used."""

import ast
from pathlib import Path

from everlearn import images


def test_type_checkers_see_every_name_where_it_lives():
    tree = ast.parse(Path(images.__file__).read_text("utf-8"))
    seen = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert seen == images._MODULE_OF
