"""Draw the figures of the pages as PNG files below docs/images/."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np

from benchmarks.table import ROOT

mpl.use("Agg")
import matplotlib.pyplot as plt

IMAGES = ROOT / "docs" / "images"


def curves(name: str, x: list[float], lines: dict[str, list[float]], across: str, up: str) -> None:
    """Draw one line for each entry, with the names beside the plot."""
    figure, axes = plt.subplots(figsize=(8.5, 4), layout="constrained")
    for label, y in lines.items():
        axes.plot(x, y, marker="o", label=label)
    axes.set(xlabel=across, ylabel=up)
    axes.grid(alpha=0.3)
    figure.legend(frameon=False, loc="outside right upper")
    save(figure, name)


def staircases(
    name: str, panels: dict[str, dict[str, list[tuple[float, int]]]], across: str, up: str
) -> None:
    """Draw counts as steps over a logarithmic time axis, one panel for each set."""
    figure, axes = plt.subplots(
        1, len(panels), figsize=(6 * len(panels), 4), layout="constrained", squeeze=False
    )
    names = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    for ax, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for label, points in lines.items():
            colour = f"C{names.index(label)}"
            ax.step(*zip(*points, strict=True), where="post", label=label, color=colour)
        ax.set(title=title, xlabel=across, ylabel=up, xscale="log")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
    save(figure, name)


@dataclass(frozen=True)
class Panel:
    """A small plot: lines by name, as x and y. `log` is for x; `zero` starts y at zero.

    `ticks` says whether the x of every point is written below.
    """

    title: str
    across: str
    up: str
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    log: bool = False
    zero: bool = False
    ticks: bool = True


def panels(name: str, found: Sequence[Panel]) -> None:
    """Draw small plots side by side; lines of the same name have the same colour."""
    figure, axes = plt.subplots(
        1, len(found), figsize=(1.5 + 3.4 * len(found), 3.6), layout="constrained", squeeze=False
    )
    names = list(dict.fromkeys(label for panel in found for label in panel.lines))
    for ax, panel in zip(axes[0], found, strict=True):
        for label, (x, y) in panel.lines.items():
            ax.plot(x, y, marker="o", markersize=4, label=label, color=f"C{names.index(label)}")
        ax.set(title=panel.title, xlabel=panel.across, ylabel=panel.up)
        marks = sorted({value for x, _ in panel.lines.values() for value in x})
        if panel.log:
            ax.set_xscale("log")
        if panel.zero:
            ax.set_ylim(bottom=0.0)
        if panel.ticks:
            ax.minorticks_off()
            ax.set_xticks(marks, [f"{mark:g}" for mark in marks])
        ax.grid(alpha=0.3)
    handles = {h.get_label(): h for ax in axes[0] for h in ax.get_lines()}
    figure.legend(handles.values(), handles.keys(), frameon=False, loc="outside lower center",
                  ncols=max(2, len(found)))  # fmt: skip
    save(figure, name)


def heatmaps(
    name: str, tables: Sequence[np.ndarray], marks: Sequence[int], rows: Sequence[str],
    words: Sequence[str],
) -> None:  # fmt: skip
    """Draw classes by topics, one map for each number of documents, words beside the last."""
    figure, axes = plt.subplots(
        1, len(tables), figsize=(3.4 * len(tables) + 4.5, 5.2), sharey=True, layout="constrained"
    )
    order = np.argsort(tables[-1].argmax(axis=0), kind="stable")
    most = max(float(table.max()) for table in tables)
    for ax, table, mark in zip(axes, tables, marks, strict=True):
        image = ax.imshow(table[:, order], aspect="auto", cmap="viridis", vmin=0, vmax=most)
        ax.set(title=f"{mark:,} documents", xlabel="topics")
        ax.set_xticks([])
        ax.set_yticks(range(len(rows)), rows, fontsize=8)
    beside = axes[-1].secondary_yaxis("right")
    beside.set_yticks(range(len(rows)), words, fontsize=8)
    beside.tick_params(length=0)
    figure.colorbar(image, ax=axes, label="average share of a document", location="bottom",
                    shrink=0.3, aspect=30)  # fmt: skip
    save(figure, name)


def pairs(name: str, rows: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Draw each pair of images one above the other."""
    figure, axes = plt.subplots(
        2, len(rows), figsize=(1.6 * len(rows), 4), layout="constrained", squeeze=False
    )
    for column, both in enumerate(rows):
        for row, image in enumerate(both):
            axes[row, column].imshow(image)
            axes[row, column].set_axis_off()
    save(figure, name)


def rows_of_images(name: str, rows: list[list[tuple[np.ndarray, str]]]) -> None:
    """Draw rows of images with labels; a label that differs from the first of its row is red."""
    figure, axes = plt.subplots(
        len(rows), len(rows[0]), figsize=(1.7 * len(rows[0]), 1.6 * len(rows)), layout="constrained"
    )
    for line, row in zip(axes, rows, strict=True):
        for ax, (image, label) in zip(line, row, strict=True):
            ax.imshow(image)
            ax.set_axis_off()
            same = label == row[0][1]
            ax.set_title(label, fontsize=8, color="black" if same else "tab:red")
    save(figure, name)


def save(figure: plt.Figure, name: str) -> None:
    """Write the figure to a file and close it."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGES / f"{name}.png", dpi=110)
    plt.close(figure)
