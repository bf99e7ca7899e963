"""What a model of pixels makes of the images it learned from, for its report."""

from __future__ import annotations

import os
from collections.abc import Iterator

from everlearn.app.report.html import paragraph, section
from everlearn.app.tool.session import Session
from everlearn.core.errors import ImageDecodeError
from everlearn.estimators.clumped import ClumpedTopicModel
from everlearn.runtime.stream.endings import IMAGES, ending_of
from everlearn.runtime.stream.folders import files_below, mark

_SHOWN = 8


def images_by_topic(session: Session) -> str:
    """Some of the images, each beside its topics; nothing if there are none to be found."""
    if not isinstance(session.model, ClumpedTopicModel):
        return ""
    paths = list(_learned_images(session))
    if not paths:
        return ""
    from everlearn.app.report.segmentation import contact_sheet
    from everlearn.features.images import read_image
    from everlearn.features.pixels import labels_as_image, pixel_points

    side, model = session.layout.image_side, session.model
    images, labels, names = [], [], []
    for path in paths[:: -(-len(paths) // _SHOWN)]:
        try:
            image = read_image(path)
        except (ImageDecodeError, OSError):  # since it was learned from
            continue
        topics = model.component_ids_[model.assign(pixel_points(image, side))]
        images.append(image)
        labels.append(labels_as_image(topics, image, side))
        names.append(os.path.basename(path))
    if not images:
        return ""
    how = (
        f"{len(images)} of {len(paths)} images, and beside each the same with every pixel in the "
        "mean colour of its topic. A topic has the same colour wherever it occurs."
    )
    return section(
        "images", "Images by topic", paragraph(how), contact_sheet(images, labels, names)
    )


def _learned_images(session: Session) -> Iterator[str]:
    """Paths of the images learned from that are still where they were."""
    for source in session.ledger.sources.values():
        if not len(source.done) or not os.path.isdir(source.name):
            continue
        done = set(source.done.tolist())
        for name in files_below(source.name):
            if ending_of(name) in IMAGES and mark(name) in done:
                yield os.path.join(source.name, name)
