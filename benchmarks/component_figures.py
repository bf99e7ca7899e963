"""Draw the loadings of a `ComponentTree` on its tree."""

import matplotlib as mpl
import numpy as np

from benchmarks.figures import save
from everlearn import ComponentTree

mpl.use("Agg")
import matplotlib.pyplot as plt

_CELL = 1.15


def tree_of_loadings(name: str, model: ComponentTree, side: int = 8) -> None:
    """Draw each node as a square image below its parent, with the number of rows that pass it."""
    tree = model.tree_
    places = _places(tree)
    width = max(x for x, _ in places.values()) + 1
    depth = max(y for _, y in places.values()) + 1
    figure = plt.figure(figsize=(_CELL * width, 1.5 * _CELL * depth))
    lines = figure.add_axes((0, 0, 1, 1))
    lines.set(xlim=(-0.5, width - 0.5), ylim=(depth - 0.35, -0.55))
    lines.set_axis_off()
    position = {int(i): p for p, i in enumerate(model.component_ids_)}
    for node in tree:
        x, y = places[node.id]
        if node.parent is not None:
            up = places[node.parent]
            lines.plot([up[0], x], [up[1], y], color="0.6", lw=1.2, zorder=1)
        loading = model.components_[position[node.id]].reshape(side, side)
        size = np.abs(loading).max()
        image = lines.inset_axes((x - 0.4, y - 0.28, 0.8, 0.56), transform=lines.transData)
        image.imshow(loading, cmap="PuOr_r", vmin=-size, vmax=size, aspect="auto")
        image.set_xticks([])
        image.set_yticks([])
        lines.text(
            x, y + 0.36, f"{node.mass:,.0f}", ha="center", va="center", fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
    save(figure, name)


def _places(tree: object) -> dict[int, tuple[float, int]]:
    """Column and level of each node: leaves side by side, others above their children."""
    places: dict[int, tuple[float, int]] = {}
    free = 0

    def place(node: object) -> float:
        nonlocal free
        columns = [place(child) for child in tree.children(node.id)]
        if columns:
            column = float(np.mean([columns[0], columns[-1]]))
        else:
            column, free = float(free), free + 1
        places[node.id] = (column, node.level)
        return column

    place(tree.root)
    return places
