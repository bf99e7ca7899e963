"""Sections about docstrings: their tree of topics, and who tells packages apart."""

from __future__ import annotations

from html import escape

from everlearn.attic.app_packages import PackageStudy
from everlearn.report import charts
from everlearn.report import charts as timeline
from everlearn.report.page import details, paragraph, section
from everlearn.report.tree import outline, treemap


def package_sections(study: PackageStudy) -> tuple[str, ...]:
    """The tree, then the classifier."""
    return _tree(study), _classifier(study)


def _tree(study: PackageStudy) -> str:
    found = study.tree.tree_
    return section(
        "tree",
        "A tree of topics in docstrings",
        paragraph(
            f"Docstrings of {', '.join(study.classes)}, as they are installed here, "
            f"{study.tree.n_samples_seen_:,} of them, each read once and without labels. Words "
            "that all share are at the root; branches are what docstrings differ in. A click "
            "opens a branch."
        ),
        charts.chart(
            "chart-tree",
            treemap(found),
            f"A map of {len(found)} topics; the outline below lists them.",
        ),
        details(f"All {len(found)} topics", outline(found)),
    )


def _classifier(study: PackageStudy) -> str:
    names = [escape(name) for name in study.classes]
    hover = [
        [f"{n:,} docstrings of {a}, taken for {b}" for b, n in zip(names, line, strict=True)]
        for a, line in zip(names, study.table.tolist(), strict=True)
    ]
    figure = charts.counts_table(study.table, names, names, hover, ("package", "taken for"))
    return section(
        "packages",
        "Which package is it from?",
        paragraph(
            f"A classifier with topics, MedLDA, learned the same docstrings in one pass, names of "
            f"packages left out. It tells the package of {study.accuracy:.0%} of "
            f"{int(study.table.sum()):,} docstrings that it was not shown."
        ),
        charts.chart(
            "chart-packages",
            figure,
            f"Table of packages: {study.accuracy:.0%} of the docstrings are on the diagonal.",
        ),
        charts.chart(
            "chart-accuracy",
            timeline.accuracy(study.curve),
            f"Accuracy over the docstrings learned, ending at {study.accuracy:.0%}.",
        ),
    )
