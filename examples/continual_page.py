"""Show what models keep and forget when tasks come one after the other.

Two `OnlinePPCA` learn handwritten digits, first all zeros, then all ones and so on. The page
compares them by the measures of `everlearn.metrics.continual`.

python examples/continual_page.py            # writes continual.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from sklearn.datasets import load_digits

from everlearn import OnlinePPCA
from everlearn.core.arrays import Mat
from everlearn.metrics.continual import (
    ContinualEvaluator,
    ContinualSummary,
    continual_summary,
    seen_so_far,
)
from everlearn.report.charts import Line, Panel, heat_table, line_chart
from everlearn.report.page import minus, page, paragraph, save_page, section, table

_COLOURS = ("--accent", "--accent-2", "--birth", "--merge", "--delete")
_ORACLE = "oracle"


def continual_page(
    scores: Mapping[str, ArrayLike],
    tasks: Sequence[str],
    *,
    initial: ArrayLike | None = None,
    oracle: ArrayLike | None = None,
    title: str = "Learning one task after the other",
    lead: str = "",
    unit: str = "nats per row",
) -> str:
    """A page on models that learned the same tasks in the same order, in one file.

    Parameters
    ----------
    scores : mapping from names of models to array-likes of shape (n_tasks, n_tasks)
        R[i, j], the score of task j after task i, such as `ContinualEvaluator.scores`.
    tasks : sequence of str
        Names of the tasks, in the order in which they were learned.
    initial : array-like of shape (n_tasks,), default=None
        Scores before learning, such as `ContinualEvaluator.initial`.
    oracle : array-like of shape (n_tasks, n_tasks), default=None
        Scores of models that were fitted to all tasks so far at once.
    title, lead : str
        Headline, and a sentence or two below it.
    unit : str, default="nats per row"
        Unit of a score.

    Returns
    -------
    html : str
    """
    tables = {name: _checked(name, values, len(tasks)) for name, values in scores.items()}
    if not tables:
        raise ValueError("'scores' of continual_page must have a table for at least one model")
    best = None if oracle is None else _checked("oracle", oracle, len(tasks))
    found = {
        name: continual_summary(values, initial=initial, oracle=best)
        for name, values in tables.items()
    }
    sections = [_curves(tables, best, tasks, unit), _summary(found, unit)]
    sections += [
        _matrix(number, name, values, tasks, unit)
        for number, (name, values) in enumerate(tables.items())
    ]
    numbers = _key_numbers(found, len(tasks))
    return page(title, lead, numbers, sections)


def _key_numbers(found: Mapping[str, ContinualSummary], n_tasks: int) -> list[tuple[str, str]]:
    name, first = next(iter(found.items()))
    return [
        ("tasks", f"{n_tasks}"),
        ("models", f"{len(found)}"),
        (f"final, {name}", minus(f"{first.final:,.1f}")),
        (f"forgetting, {name}", minus(f"{first.forgetting:,.1f}")),
    ]


def _checked(name: str, values: ArrayLike, n: int) -> Mat:
    found = np.asarray(values, np.float64)
    if found.shape != (n, n) or not n or not np.isfinite(found).all():
        raise ValueError(
            f"'scores' of continual_page must be finite and of shape ({n}, {n}) for {n} tasks, got "
            f"the shape {found.shape} for {name!r}"
        )
    return found


def consolidation(tables: Mapping[str, Mat]) -> list[Line]:
    """Mean score of the tasks learned so far, after each of them, a line for each model."""
    lines = []
    for i, (name, values) in enumerate(tables.items()):
        spots = list(enumerate(seen_so_far(values).tolist(), start=1))
        colour = "--ink" if name == _ORACLE else _COLOURS[i % len(_COLOURS)]
        dashed = name == _ORACLE or i >= len(_COLOURS)  # the oracle often lies on other lines
        lines.append(Line(name, spots, colour, dashed=dashed))
    return lines


def score_matrix(values: Mat, tasks: Sequence[str], unit: str, label: str) -> str:
    """Scores of all tasks after each. Shades are ranks, so that one low score hides nothing."""
    ranks = values.ravel().argsort().argsort().reshape(values.shape) / max(values.size - 1, 1)
    text = [[minus(f"{v:,.0f}") for v in row] for row in values.tolist()]
    hints = [
        [
            f"{task} after {after}: {minus(f'{v:,.2f}')} {unit}"
            for task, v in zip(tasks, row, strict=True)
        ]
        for after, row in zip(tasks, values.tolist(), strict=True)
    ]
    return heat_table(ranks, text, tasks, tasks, hints, ("after", "score of"), label)


def _curves(tables: Mapping[str, Mat], best: Mat | None, tasks: Sequence[str], unit: str) -> str:
    lines = dict(tables) if best is None else {**tables, _ORACLE: best}
    ends = [
        f"{name} ends at {minus(f'{values[-1].mean():,.1f}')}" for name, values in lines.items()
    ]
    return section(
        "consolidation",
        "Mean score",
        paragraph("The mean score of the tasks learned so far. Higher is better."),
        line_chart(
            [Panel(unit, consolidation(lines))],
            "tasks learned",
            f"A line for each model over {len(tasks)} tasks. {', '.join(ends)} {unit}.",
            x_from=1.0,
            x_names=list(enumerate(tasks, start=1)),
        ),
    )


def _summary(found: Mapping[str, ContinualSummary], unit: str) -> str:
    judged = all(s.regret is not None for s in found.values())
    begun = all(s.forward is not None for s in found.values())
    forward = " Forward is what tasks gain before they are learned." if begun else ""
    head = ["model", "final", "worst task", "just learned", "forgetting", "interference"]
    head += ["interference beyond oracle", "regret"] * judged
    head += ["forward"] * begun
    rows = []
    for name, s in found.items():
        cells = [s.final, s.worst, s.current, s.forgetting, s.interference]
        if judged:
            cells += [s.interference_beyond_oracle or 0.0, s.regret or 0.0]
        if s.forward is not None:
            cells.append(s.forward)
        rows.append([name, *(minus(f"{value:,.1f}") for value in cells)])
    words = (
        "Forgetting is what tasks lose from their best score to the end; lower is better. "
        "Interference is what tasks gain from later tasks, and is negative if these do harm."
        f"{forward} A model of fixed size must give up detail of a task when others come, so even "
        "the best model has negative interference."
    )
    content = table(f"Scores at the end, {unit}", head, rows)
    return section("summary", "Forgetting", paragraph(words), content)


def _matrix(number: int, name: str, values: Mat, tasks: Sequence[str], unit: str) -> str:
    label = (
        f"A table of the scores of {len(tasks)} tasks after each of them, by {name}. The first "
        f"task falls from {minus(f'{values[0, 0]:,.1f}')} to {minus(f'{values[-1, 0]:,.1f}')}."
    )
    return section(f"matrix-{number}", name, score_matrix(values, tasks, unit, label))


def main() -> None:
    """Learn one digit after the other, with and without a constraint, and write the page."""
    X, y = load_digits(return_X_y=True)
    held_out = {digit: X[y == digit][::5] for digit in range(10)}
    scores = {}
    for name, constraint in (("constrained", "step"), ("without constraint", None)):
        model = OnlinePPCA(n_components=10, constraint=constraint)
        learning = ContinualEvaluator(held_out)
        for digit in range(10):
            rows = X[y == digit]
            model.partial_fit(np.delete(rows, np.s_[::5], axis=0))
            learning.update(model, digit)
        scores[name] = learning.scores
    html = continual_page(
        scores,
        [str(digit) for digit in range(10)],
        title="Handwritten digits, one digit after the other",
        lead="OnlinePPCA sees all images of one digit, then all of the next, each once.",
    )
    save_page(html, Path("continual.html"))
    print("continual.html")


if __name__ == "__main__":
    main()
