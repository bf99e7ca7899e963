"""Components as cards with pictures, and as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from everlearn.app.report.html import details, escape, table
from everlearn.app.report.pictures import image
from everlearn.app.study import Assigned, Component, Gallery, Study

_EXAMPLES = 6


def component_cards(study: Study, rows: Assigned, found: Sequence[Component]) -> str:
    """One card for each component; empty if there are no pictures."""
    if study.gallery is None:
        return ""
    cards = "\n".join(_card(study, study.gallery, rows, one) for one in found)
    return f'<ul class="cards">\n{cards}\n</ul>'


def component_table(study: Study, found: Sequence[Component]) -> str:
    """Id, share and rows of each component, with its main class if classes are known."""
    head = ["component", "share", f"{study.noun}s"]
    lines = [[f"#{c.id}", f"{c.share:.1%}", f"{c.n_rows:,}"] for c in found]
    if study.truth is not None:
        head += [f"most frequent {study.truth.noun}", "purity"]
        for line, c in zip(lines, found, strict=True):
            line += [c.top or "–", "–" if c.purity is None else f"{c.purity:.1%}"]
    content = table("Components, largest first", head, lines)
    return content if study.gallery is None else details("The same as a table", content)


def _card(study: Study, gallery: Gallery, rows: Assigned, one: Component) -> str:
    mean = image(gallery.means[one.position], f"Mean of component {one.id}", "mean")
    lines = [f'<span class="share">{one.share:.1%} of all</span>']
    if one.top is not None and one.purity is not None and study.truth is not None:
        lines.append(
            f"<span>{one.purity:.0%} are {escape(study.truth.noun)} "
            f"<strong>{escape(one.top)}</strong></span>"
        )
    nearest, doubtful = examples(study, rows, one, _EXAMPLES)
    return (
        f'<li class="card"><div class="who">{mean}<div><h3>#{one.id}</h3>{"".join(lines)}</div>'
        f"</div>{_strip(study, gallery, rows, 'nearest', nearest)}"
        f"{_strip(study, gallery, rows, 'least certain', doubtful)}</li>"
    )


def examples(study: Study, rows: Assigned, one: Component, n: int) -> tuple[list[int], list[int]]:
    """Rows of the component nearest its mean, and those whose assignment is least sure."""
    members = np.flatnonzero(rows.labels == one.position)
    distance = np.linalg.norm(study.rows[members] - study.model.means_[one.position], axis=1)
    nearest = members[np.argsort(distance, kind="stable")[:n]]
    doubtful = members[np.argsort(rows.certainty[members], kind="stable")[:n]]
    return nearest.tolist(), doubtful.tolist()


def _strip(study: Study, gallery: Gallery, rows: Assigned, name: str, chosen: Sequence[int]) -> str:
    if not chosen:
        return ""
    images = []
    for row in chosen:
        what = study.noun
        if study.truth is not None:
            what = f"{study.truth.noun} {study.truth.classes[study.truth.labels[row]]}"
        hint = f"{what}, certainty {rows.certainty[row]:.2f}"
        images.append(image(gallery.rows[row], what, "example", hint))
    return f'<p class="strip"><span>{escape(name)}</span>{"".join(images)}</p>'
