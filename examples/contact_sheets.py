"""Show clusters of images as contact sheets.

`image_pipeline` clusters scikit-learn's handwritten digits. The page shows, for each cluster, the
images nearest its mean and the least certain ones, and how the number of clusters grew.

python examples/contact_sheets.py            # writes contact_sheets.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

import numpy as np
from sklearn.datasets import load_digits

from everlearn import DPMixture
from everlearn.engine.progress import watched_growth
from everlearn.images import image_pipeline
from everlearn.images.files import AnyImage
from everlearn.report.charts import Line, Panel, line_chart
from everlearn.report.images import photograph
from everlearn.report.mixture import component_table, examples
from everlearn.report.page import details, page, paragraph, save_page, section
from everlearn.report.study import (
    Agreement,
    Assigned,
    Component,
    Study,
    Truth,
    agreement,
    assigned,
    components,
)

Trace = Sequence[tuple[float, int]]
"""Seconds of learning, with the number of components at that time."""
_THUMBNAIL: Final = 96
_COLOURS = ("--accent", "--accent-2", "--birth", "--merge", "--delete", "--muted")


def contact_sheets(
    study: Study,
    images: Sequence[AnyImage],
    names: Sequence[str] | None = None,
    growth: Mapping[str, Trace] | None = None,
    *,
    max_shown: int = 60,
    n_examples: int = 8,
) -> str:
    """A page of clusters, in one file that needs no network.

    Parameters
    ----------
    study : Study
        The mixture, the rows of the images, title and lead, and the classes if they are known.
    images : sequence of paths, bytes of files or arrays
        One for each row. Only those that are shown are read.
    names : sequence of str, default=None
        What each image is called.
    growth : mapping of str to sequence of (seconds, components), default=None
        How the number of components grew, by name of the model; each is a curve.
    max_shown : int, default=60
        Number of clusters to show, the largest first.
    n_examples : int, default=8
        Number of images nearest the mean to show, and half as many of the least certain ones.

    Returns
    -------
    html : str
    """
    if len(images) != len(study.rows):
        raise ValueError(
            f"'images' must have one entry for each of the {len(study.rows)} rows of the study, "
            f"got {len(images)}"
        )
    names = [f"image {i + 1}" for i in range(len(images))] if names is None else names
    rows = assigned(study)
    classes = None
    if study.truth is not None:
        classes = agreement(rows.labels, study.truth, study.model.n_components_)
    found = [one for one in components(study, rows, classes) if one.n_rows]
    cards = []
    for one in found[:max_shown]:
        nearest, doubtful = examples(study, rows, one, n_examples)
        doubtful = [i for i in doubtful if i not in nearest][: max(1, n_examples // 2)]
        strips = [
            _strip(title, [_picture(study, images, names, rows, i) for i in chosen])
            for title, chosen in (("nearest", nearest), ("least certain", doubtful))
        ]
        about = f'<div class="about"><h3>#{one.id}</h3>{_about(study, one)}</div>'
        cards.append(f'<li class="contact">{about}{"".join(strips)}</li>')
    few = f"The {max_shown} largest of {len(found)} clusters. " if len(found) > max_shown else ""
    how = (
        f"{few}Each cluster shows the {study.noun}s nearest its mean, then those whose assignment "
        "is least certain. The number is the permanent id of the component."
    )
    sheets = section(
        "clusters",
        "Clusters",
        paragraph(how),
        f'<ul class="contacts">{"".join(cards)}</ul>',
        details("All clusters as a table", component_table(study, rows, found)),
    )
    numbers = _key_numbers(study, rows, found, classes)
    sections = [sheets, *([_growth(growth)] if growth else [])]
    return page(study.title, study.lead, numbers, sections)


def _key_numbers(
    study: Study, rows: Assigned, found: Sequence[Component], classes: Agreement | None
) -> list[tuple[str, str]]:
    pairs = [(f"{study.noun}s", f"{len(rows.labels):,}"), ("clusters", f"{len(found)}")]
    if classes is not None and study.truth is not None:
        pairs += [
            ("known classes", f"{len(study.truth.classes)}"),
            ("purity", f"{classes.purity:.1%}"),
            ("NMI", f"{classes.nmi:.3f}"),
            ("AMI", f"{classes.ami:.3f}"),
        ]
    pairs.append(("uncertain (under 0.9)", f"{np.mean(rows.certainty < 0.9):.1%}"))
    return pairs


def _about(study: Study, one: Component) -> str:
    lines = [f"{one.n_rows:,} {study.noun}{'' if one.n_rows == 1 else 's'}"]
    if one.top is not None and one.purity is not None:
        lines.append(f"{one.purity:.0%} {one.top}")
    return "".join(f"<span>{escape(line)}</span>" for line in lines)


def _picture(
    study: Study, images: Sequence[AnyImage], names: Sequence[str], rows: Assigned, i: int
) -> str:
    label = ""
    if study.truth is not None:
        label = f", {study.truth.classes[study.truth.labels[i]]}"
    hint = f"{names[i]}{label}, certainty {rows.certainty[i]:.2f}"
    picture = photograph(images[i], hint, title=hint, longest=_THUMBNAIL)
    return f'<div class="tile">{picture}</div>'


def _strip(title: str, pictures: Sequence[str]) -> str:
    if not pictures:
        return ""
    return f'<div class="thumbs"><span>{escape(title)}</span>{"".join(pictures)}</div>'


def _growth(growth: Mapping[str, Trace]) -> str:
    """The number of components over the learning time, a curve for each model."""
    lines = [
        Line(name, [*trace], _COLOURS[i % len(_COLOURS)], steps=True, dashed=i >= len(_COLOURS))
        for i, (name, trace) in enumerate(growth.items())
    ]
    ends = ", ".join(f"{name} {trace[-1][1]}" for name, trace in growth.items() if trace)
    return section(
        "growth",
        "Number of components",
        paragraph("The number of components after each lap."),
        line_chart(
            [Panel("components", lines, low=0.0)],
            "learning time, seconds",
            f"Curves of components: {ends}.",
        ),
    )


def main() -> None:
    """Cluster handwritten digits by their gradients, and write the page."""
    pixels, digits = load_digits(return_X_y=True)
    light = (255 - 15.9 * pixels).astype(np.uint8).reshape(-1, 8, 8)
    images = [np.kron(one, np.ones((6, 6), np.uint8)) for one in light]
    pipeline = image_pipeline(
        "hog", n_components=20, mixture=DPMixture(max_laps=100, random_state=0), size=48, cell=8
    )
    with watched_growth() as growth:
        pipeline.fit(images)
    study = Study(
        model=pipeline["mixture"],
        rows=pipeline[:-1].transform(images),
        title="Handwritten digits, in clusters",
        lead="Clustered by their gradients (HOG), without labels.",
        noun="image",
        truth=Truth("digit", digits, tuple("0123456789")),
    )
    html = contact_sheets(study, images, growth={"DPMixture": growth})
    save_page(html, Path("contact_sheets.html"))
    print("contact_sheets.html")


if __name__ == "__main__":
    main()
