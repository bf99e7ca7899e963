"""The nodes of a tree as arrays, and back again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.core.tree import Tree
from everlearn.estimators.persistence import Arrays, member, require


def pack_nodes(tree: Tree) -> dict[str, NDArray[Any]]:
    """Ids and parents of the nodes."""
    return {"tree/ids": tree.ids, "tree/parents": tree.parents}


def unpack_nodes(arrays: Arrays, depth: int, next_id: int) -> Tree:
    """Inverse of `pack_nodes`; what is not a tree of this depth with earlier ids is refused."""
    ids = member(arrays, "tree/ids", (None,), "int64")
    distinct = len(ids) > 0 and len(np.unique(ids)) == len(ids) and ids.min() >= 0
    require(distinct and ids.max() < next_id, "tree/ids", f"distinct ids below {next_id}")
    parents = member(arrays, "tree/parents", ids.shape, "int64")
    before = parents[0] == -1 and (parents[1:] >= 0).all()
    before = before and (parents < np.arange(len(parents))).all()
    require(before, "tree/parents", "positions of earlier nodes, -1 for the root alone")
    tree = Tree(ids, parents, depth)
    require(tree.levels.max() < depth, "tree/parents", f"of a tree of depth {depth}")
    return tree
