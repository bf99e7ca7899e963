"""A small study with pictures and awkward names, and the demo's report, each made once."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.estimator.history import Point
from everlearn.mixture.estimator import DPMixture
from everlearn.report.mixture import render
from everlearn.report.study import Gallery, Mark, Study, Truth
from support.markup import HOSTILE

CENTRES = ((-9.0, 0.0), (0.0, 9.0), (9.0, 0.0))


@pytest.fixture(scope="session")
def learned() -> tuple[DPMixture, tuple[Point, ...]]:
    """Three clear clusters as a stream of batches of 40 rows, and a point after each batch.

    The last cluster comes late, so it is born.
    """
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(c, 1.0, (200, 2)) for c in CENTRES])
    stream = rows[np.append(rng.permutation(400), 400 + rng.permutation(200))]
    model, trace = DPMixture(random_state=0), []
    for first in range(0, len(stream), 40):
        model.partial_fit(stream[first : first + 40])
        lap = model.history_.points[-1].lap if model.history_.points else 0
        trace.append(Point(lap, model.n_samples_seen_, model.bound_, model.n_components_))
    return model, tuple(trace)


@pytest.fixture(scope="session")
def study(learned: tuple[DPMixture, tuple[Point, ...]]) -> Study:
    model, trace = learned
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.normal(c, 1.0, (30, 2)) for c in CENTRES])
    labels = np.repeat(np.arange(3), 30)
    return Study(
        model=model,
        rows=rows,
        title=f"A title {HOSTILE[0]}",
        lead=f"A lead {HOSTILE[1]}",
        noun="row",
        truth=Truth("kind <b>of</b>", labels, HOSTILE),
        gallery=Gallery(rng.random((model.n_components_, 4, 4)), rng.random((90, 4, 4))),
        trace=trace,
        marks=(Mark(320, f"a mark {HOSTILE[0]}"),),
        seconds=1.25,
        notes=(f"A note {HOSTILE[2]}",),
    )


@pytest.fixture(scope="session")
def hostile_page(study: Study) -> str:
    return render(study)


@pytest.fixture(scope="session")
def bare_study(study: Study) -> Study:
    """Neither classes nor pictures nor anything else that may be left out."""
    return replace(
        study,
        title="Plain",
        lead="Nothing else.",
        truth=None,
        gallery=None,
        trace=(),
        marks=(),
        seconds=None,
        notes=(),
    )
