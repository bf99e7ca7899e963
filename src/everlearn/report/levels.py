"""The section on the levels of a clustering: a table to unfold, with the default level marked."""

from __future__ import annotations

from everlearn.report.page import details, minus, paragraph, section, table
from everlearn.stream.models import StreamModel, has_levels

_HEAD = ("level", "clusters", "effective number", "links cut", "gap to one Gaussian")
_HOW = (
    "A level is a choice. Coarse levels show regions, fine levels parts of them. The default has "
    "the largest gap: it cuts fewest links between prototypes, compared with one Gaussian."
)


def levels_section(model: StreamModel) -> str:
    """Why the model has this number of clusters, and its other levels. Empty without levels."""
    if not has_levels(model):
        return ""
    levels = model.levels_
    rows = [
        (
            "default" if level.is_default else "",
            f"{level.n_clusters:,}",
            f"{level.effective:.1f}",
            f"{level.cut:.1%}",
            minus(f"{level.gap:.3f}"),
        )
        for level in levels
    ]
    text = f"{levels.why} Rows were measured {levels.units}."
    if levels.joins:
        text += f" Clusters of this level that were joined: {len(levels.joins)}."
    return section(
        "levels",
        "Levels",
        paragraph(_HOW),
        paragraph(text),
        details(f"All {len(rows)} levels", table("Levels, from coarse to fine", _HEAD, rows)),
    )
