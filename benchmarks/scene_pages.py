"""Pictures of the scene experiment: a page of contact sheets, and its largest clusters as a PNG."""

from pathlib import Path

import numpy as np
from examples.contact_sheets import contact_sheets

from benchmarks.figures import rows_of_images
from benchmarks.images import caltech
from benchmarks.scene_runs import KEPT, MODELS, Scene, chosen
from everlearn.report.mixture import examples
from everlearn.report.study import Study, Truth, agreement, assigned, components

SHOWN, EXAMPLES = 6, 8
"""Clusters in the picture, and images of each."""


def write_sheets(
    scene: Scene, model_name: str, growth: dict[str, list[tuple[float, int]]], picture: str
) -> None:
    """Write a page of the clusters that a model finds in a scene, and a picture of the largest."""
    X, y = scene.load()
    images = caltech().chosen(chosen(scene.size, scene.resample, caltech().y))
    names, labels = np.unique(y, return_inverse=True)
    classes = tuple(images.labels[i] for i in names)
    model = MODELS[model_name](len(classes), scene.resample).fit(X)
    study = Study(
        model=model,
        rows=X,
        title=f"{len(X):,} images of {len(classes)} categories, in clusters",
        lead=f"Caltech-101, {scene.features} features, DPMixture with a diagonal family and the "
        'prior "shared". The categories were not shown to it.',
        noun="image",
        truth=Truth("category", labels, classes),
    )
    own = [classes[i] for i in labels]
    html = contact_sheets(study, images.photographs, images.names, growth)
    sheets_page(scene).write_text(html, encoding="utf-8")
    _write_picture(study, images.photographs, own, picture)


def sheets_page(scene: Scene) -> Path:
    """Path of the page of a scene."""
    return KEPT / f"clusters-{scene.features}-{scene.size}.html"


def _write_picture(study: Study, photographs, own: list[str], picture: str) -> None:
    rows = assigned(study)
    classes = agreement(rows.labels, study.truth, study.model.n_components_)
    found = components(study, rows, classes)[:SHOWN]
    nearest = [examples(study, rows, one, EXAMPLES)[0] for one in found]
    rows_of_images(picture, [[(photographs[i], own[i]) for i in line] for line in nearest])
