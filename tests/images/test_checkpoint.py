"""Files of image pipelines: what every estimator promises, and forged files."""

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from everlearn.store.archive import read_checkpoint, write_checkpoint
from everlearn.testing.checks import CHECKS, Case, check_refusals_leave_no_trace
from support.image_pipelines import made, scenes


def case_of(kind, folder):
    def make(engine=None, **params):  # engines are those of the mixture
        return made(kind, folder, **params)

    batches = [(scenes(12, seed),) for seed in range(3)]
    return Case(kind, make, batches, scenes(6, 7), ("predict", "transform", "score_samples"))


@pytest.mark.parametrize(
    "check", [one for one in CHECKS if one is not check_refusals_leave_no_trace]
)
@pytest.mark.parametrize("kind", ["hog", "lbp", "cnn"])
def test_conformance(kind, check, tmp_path):
    check(case_of(kind, tmp_path), tmp_path)


def narrower(header, arrays):
    for name in ("sizes", "directions"):
        place = f"learned/reduce/learned/{name}"
        arrays[place] = arrays[place][:1].copy()
    header["learned"]["reduce"]["learned"]["n_components"] = 1


def features(**changes):
    return lambda h, a: h["learned"]["features"].update(changes)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (features(kind="sift"), "features/kind"),
        (features(kind=3), "features/kind"),
        (features(size="big"), "features/size"),
        (features(colour="red"), "colour"),
        (lambda h, a: h["learned"]["features"].pop("size"), "size"),
        (lambda h, a: h["learned"].update(features=None), "features"),
        (lambda h, a: h["learned"].update(weights=None), "weights"),
        (lambda h, a: h["learned"].update(output="arrow"), "output"),
        (lambda h, a: h["learned"].update(mixture=[]), "mixture"),
        (lambda h, a: h.update(verbose=True), "verbose"),
        (lambda h, a: a.update(stray=np.ones(2)), "stray"),
        (narrower, "of 1 columns"),
    ],
)
def test_contradictions_are_refused(spoil, words, tmp_path):
    path = tmp_path / "model.evl"
    made("cnn", tmp_path).fit(scenes(12)).save(path)
    file = read_checkpoint(path)
    header, arrays = dict(file.header), dict(file.arrays)
    spoil(header, arrays)
    write_checkpoint(path, header, arrays)
    with pytest.raises(CheckpointError, match=words):
        load(path)


@pytest.mark.parametrize("mean", [np.array(0.0), np.float32(1), np.zeros(3, int), (1, 2, 3)])
def test_means_of_any_form_are_saved(mean, tmp_path):
    pipeline = made("cnn", tmp_path).set_params(features__mean=mean).fit(scenes())
    pipeline.save(tmp_path / "model.evl")
    back = load(tmp_path / "model.evl")
    np.testing.assert_array_equal(back["features"].mean, mean)
    np.testing.assert_array_equal(back.predict(scenes()), pipeline.predict(scenes()))
