"""Sections about docstrings: their tree of topics, and who tells packages apart."""

from __future__ import annotations

from everlearn.app.packages import PackageStudy
from everlearn.app.report import charts, timeline
from everlearn.app.report.html import details, escape, paragraph, section, table
from everlearn.app.tool.portrait import parts_of


def package_sections(study: PackageStudy) -> tuple[str, ...]:
    """The tree, then the classifier."""
    return _tree(study), _classifier(study)


def _tree(study: PackageStudy) -> str:
    found = parts_of(study.tree)
    rows = [
        (
            f"#{p.id}",
            "" if p.parent is None else f"#{p.parent}",
            " ".join(p.about),
            f"{p.share:.1%}",
        )
        for p in found
    ]
    return section(
        "tree",
        "A tree of topics in docstrings",
        paragraph(
            f"Docstrings of {', '.join(study.classes)}, as they are installed here, "
            f"{study.tree.n_documents_seen_:,} of them, each read once and without labels. Words "
            "that all share are at the root; branches are what docstrings differ in. A click "
            "opens a branch."
        ),
        charts.chart(
            "chart-tree",
            timeline.tree_map(found),
            f"A tree of {len(found)} topics; the table below lists them.",
        ),
        details(
            f"All {len(found)} topics",
            table("Topics", ("id", "below", "words", "share"), rows, text_columns=3),
        ),
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
