"""A small study with pictures and awkward names, and the demo's report, each made once."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.attic.app_streaming import StreamRun, learn_stream
from everlearn.mixture.estimator import DPMixture
from everlearn.report.mixture import render
from everlearn.report.study import Gallery, Mark, Study, Truth
from support.markup import HOSTILE

CENTRES = ((-9.0, 0.0), (0.0, 9.0), (9.0, 0.0))


@pytest.fixture(scope="session")
def run() -> StreamRun:
    """Three clear clusters as a stream of batches of 40 rows."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(c, 1.0, (200, 2)) for c in CENTRES])
    stream = rows[rng.permutation(len(rows))]
    return learn_stream(DPMixture(random_state=0), stream, 40, lambda point: None)


@pytest.fixture(scope="session")
def study(run: StreamRun) -> Study:
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.normal(c, 1.0, (30, 2)) for c in CENTRES])
    labels = np.repeat(np.arange(3), 30)
    return Study(
        model=run.model,
        rows=rows,
        title=f"A title {HOSTILE[0]}",
        lead=f"A lead {HOSTILE[1]}",
        noun="row",
        truth=Truth("kind <b>of</b>", labels, HOSTILE),
        gallery=Gallery(rng.random((run.model.n_components_, 4, 4)), rng.random((90, 4, 4))),
        trace=run.trace,
        marks=(Mark(run.stopped_at, f"a mark {HOSTILE[0]}"),),
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
