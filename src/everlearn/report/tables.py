"""Tables with columns of several kinds: how each is learned, and what sets components apart."""

from __future__ import annotations

from typing import Final

from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.profiles import ColumnProfile
from everlearn.report.page import paragraph, section, table
from everlearn.stream.models import StreamModel

_MOST_COMPONENTS: Final = 50
_STANDS_OUT: Final = 0.1
"""Nats by which a column must differ from all rows to be shown."""


def columns_section(model: StreamModel) -> str:
    """One line for each column, one column for each component; empty for other models."""
    if not isinstance(model, DPMixture) or not model.columns_:
        return ""
    shares = zip(model.weights_.tolist(), model.component_ids_.tolist(), strict=True)
    largest = [component for _, component in sorted(shares, reverse=True)[:_MOST_COMPONENTS]]
    profiles = {(one.component, one.column): one for one in model.profiles()}
    lines = []
    for column in model.columns_:
        own = [profiles[component, column.name] for component in largest]
        lines.append([column.name, str(column), _overall(own), *map(_level, own)])
    return section(
        "columns",
        "What sets components apart",
        paragraph(
            "The mean of numbers and counts, or the value that stands out with its share in the "
            "component and in all rows. A cell is empty where the component is like all rows."
        ),
        table(
            f"Columns, and the {len(largest)} largest components",
            ("column", "learned as", "all rows", *(f"#{component}" for component in largest)),
            lines,
            text_columns=3 + len(largest),
        ),
    )


def _overall(profiles: list[ColumnProfile]) -> str:
    """The mean over all rows; categories have one in each cell."""
    return f"{profiles[0].overall:.3g}" if profiles[0].value is None else ""


def _level(profile: ColumnProfile) -> str:
    if profile.difference < _STANDS_OUT:
        return ""
    if profile.value is None:
        return f"{profile.level:.3g}"
    return f"{profile.value} {profile.level:.0%} (all: {profile.overall:.0%})"
