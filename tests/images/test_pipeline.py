"""Images into clusters in one pipeline, learned at once or as a stream, kept in one file."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from conftest import REPOSITORY
from everlearn.errors import NotConvergedWarning
from everlearn.estimator.saving import load
from everlearn.images import HOG, LBP, CNNFeatures, ImagePipeline, ScaledPCA, image_pipeline
from everlearn.mixture.estimator import DPMixture
from support.image_pipelines import made, scenes


@pytest.mark.parametrize("kind", ["hog", "lbp", "cnn"])
def test_clusters_are_the_kinds_of_pictures(kind, tmp_path):
    images = scenes()
    labels = made(kind, tmp_path).fit_predict(images)
    assert not set(labels[::2]) & set(labels[1::2])


def test_it_is_a_pipeline_of_scikit_learn():
    pipeline = image_pipeline("hog", n_components=7, size=128)
    assert isinstance(pipeline, Pipeline)
    kinds = [type(step) for _, step in pipeline.steps]
    assert kinds == [HOG, ScaledPCA, DPMixture]
    assert pipeline["reduce"].n_components == 7
    assert pipeline["features"].size == 128
    assert pipeline["mixture"].prior == "shared"
    twin = clone(pipeline).set_params(features__cell=32)
    assert isinstance(twin, ImagePipeline)
    assert twin["features"].cell == 32
    assert pipeline["features"].cell == 16
    assert isinstance(image_pipeline("lbp")["features"], LBP)
    assert isinstance(image_pipeline("cnn", weights="x.onnx")["features"], CNNFeatures)


def test_the_steps_are_what_they_are_alone(tmp_path):
    images = scenes()
    pipeline = made("lbp", tmp_path).fit(images)
    rows = ScaledPCA(3).fit_transform(LBP(size=64, grid=4).transform(images))
    alone = DPMixture(random_state=0).fit(rows)
    np.testing.assert_array_equal(pipeline.predict_proba(images), alone.predict_proba(rows))


def test_a_stream_keeps_its_axes(tmp_path):
    images = scenes(80)
    pipeline = made("hog", tmp_path)
    pipeline.partial_fit(images[:40])
    axes = pipeline["reduce"].components_.copy()
    pipeline.partial_fit(images[40:])
    np.testing.assert_array_equal(pipeline["reduce"].components_, axes)
    assert pipeline["mixture"].n_samples_seen_ == 80
    assert len(set(pipeline.predict(images)[::2]) & set(pipeline.predict(images)[1::2])) == 0


TOO_WIDE = {"mean": np.zeros(7)}  # for rows of three numbers, which are known only when they come
CONTINUE = """
import sys
from support.image_pipelines import scenes
from everlearn import load

model = load(sys.argv[1])
model.partial_fit(scenes(40, seed=1))
model.save(sys.argv[2])
"""


@pytest.mark.parametrize("kind", ["hog", "cnn"])
def test_a_new_process_goes_on_as_if_nothing_had_happened(kind, tmp_path):
    steady = made(kind, tmp_path, engine="threads").partial_fit(scenes())
    steady.save(tmp_path / "begun.evl")
    steady.partial_fit(scenes(40, seed=1)).save(tmp_path / "steady.evl")
    paths = [str(REPOSITORY / name) for name in ("src", "tests")]
    code = f"import sys; sys.path[:0] = {paths!r}\n{CONTINUE}"
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "begun.evl"), str(tmp_path / "other.evl")],
        check=True,
        timeout=300,
    )
    assert (tmp_path / "other.evl").read_bytes() == (tmp_path / "steady.evl").read_bytes()
    back = load(tmp_path / "other.evl")
    assert type(back) is ImagePipeline
    np.testing.assert_array_equal(back.predict_proba(scenes()), steady.predict_proba(scenes()))


@pytest.mark.parametrize("features", ["hog", "cnn"])
def test_the_steps_before_the_mixture_give_its_rows(features, tmp_path):
    pipeline = made(features, tmp_path).fit(scenes())
    rows = pipeline[:-1].transform(scenes())
    np.testing.assert_array_equal(pipeline["mixture"].predict(rows), pipeline.predict(scenes()))


@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform"])
def test_a_mixture_that_refuses_leaves_the_pipeline_as_it_was(method, tmp_path):
    pipeline = made("hog", tmp_path).fit(scenes())
    before = pipeline.predict_proba(scenes())
    pipeline.set_params(mixture__prior=TOO_WIDE)
    with pytest.raises(ValueError, match="the 'prior' of DPMixture cannot be used"):
        getattr(pipeline, method)(scenes()[:8])
    pipeline.set_params(mixture__prior="data")
    np.testing.assert_array_equal(pipeline.predict_proba(scenes()), before)


def test_other_weights_are_noticed(tmp_path):
    pipeline = made("cnn", tmp_path).fit(scenes())
    pipeline.save(tmp_path / "model.evl")
    back = load(tmp_path / "model.evl")
    back.check_settings()
    (tmp_path / "tiny.onnx").write_bytes(b"other")
    with pytest.raises(
        ValueError, match=r"'weights' .*tiny\.onnx.* not those that it learned with"
    ):
        back.check_settings()
    uses = (back.predict, back.predict_proba, back.transform, back.score, back.score_samples)
    for use in (*uses, back[:-1].transform, back.partial_fit):
        with pytest.raises(ValueError, match="not those that it learned with"):
            use(scenes())


@pytest.mark.parametrize(
    ("features", "changed", "was", "now"),
    [
        ("hog", {"features__cell": 32, "features__size": 128}, "16", "32"),
        ("lbp", {"features__grid": 2}, "4", "2"),
        ("cnn", {"features__mean": 127.0}, r"\[0.0, 0.0, 0.0\]", r"\[127.0, 127.0, 127.0\]"),
        ("cnn", {"features__std": (1, 1, 2)}, r"\[1.0, 1.0, 1.0\]", r"\[1.0, 1.0, 2.0\]"),
        ("cnn", {"features__mean": "grey"}, r"\[0.0, 0.0, 0.0\]", "\"'grey'\""),
        ("hog", {"reduce__n_components": 2}, "3", "2"),
        ("hog", {"features": LBP(size=64)}, "'HOG'", "'LBP'"),
    ],
)
def test_settings_stay_what_they_were_in_learning(features, changed, was, now, tmp_path):
    pipeline = made(features, tmp_path).fit(scenes())
    pipeline.save(tmp_path / "model.evl")
    for model in (pipeline, load(tmp_path / "model.evl")):
        expected = model.predict(scenes())
        before = model.get_params()
        model.set_params(**changed)
        uses = (model.predict, model.score_samples, model[:-1].transform, model.partial_fit)
        name = next(iter(changed))
        message = f"'{name}' of ImagePipeline must stay .* It was {was} and is {now}: set it back"
        for use in uses:
            with pytest.raises(ValueError, match=message):
                use(scenes())
        with pytest.raises(ValueError, match=message):
            model.save(tmp_path / "other.evl")
        model.set_params(**{name: before[name] for name in changed})
        np.testing.assert_array_equal(model.predict(scenes()), expected)


def test_settings_that_change_no_row_may_change(tmp_path):
    pipeline = made("cnn", tmp_path).fit(scenes())
    pipeline.set_params(features__mean=np.zeros(3), features__std=[1, 1, 1])
    pipeline.set_params(features__n_jobs=1, features__batch_size=3, reduce__batch_size=7)
    pipeline.set_params(mixture__max_laps=40).partial_fit(scenes(10, seed=1))
    assert pipeline["mixture"].n_samples_seen_ == 50
    pipeline.set_params(features__std=2.0).fit(scenes())  # which begins anew
    assert pipeline.settings_["features__std"] == [2.0, 2.0, 2.0]


def test_verbose_is_saved(tmp_path):
    pipeline = made("hog", tmp_path).fit(scenes())
    pipeline.set_params(verbose=True).save(tmp_path / "model.evl")
    assert load(tmp_path / "model.evl").verbose is True


@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_frames_between_steps_are_frames_after_loading(form, tmp_path):
    """In tests every warning is an error, also that of columns without the names they had."""
    pytest.importorskip(form)
    pipeline = made("hog", tmp_path).set_output(transform=form).fit(scenes())
    pipeline.save(tmp_path / "model.evl")
    back = load(tmp_path / "model.evl")
    np.testing.assert_array_equal(back.predict(scenes()), pipeline.predict(scenes()))
    rows = back[:-1].transform(scenes(3))
    assert type(rows).__module__.startswith(form)
    assert list(rows.columns) == ["scaledpca0", "scaledpca1", "scaledpca2"]
    back.partial_fit(scenes(10, seed=1))


def test_weights_and_names_of_images_reach_the_mixture(tmp_path):
    images, weights = scenes(), np.arange(1.0, 41.0)
    pipeline = made("hog", tmp_path).partial_fit(images, mixture__sample_weight=weights)
    rows = pipeline[:-1].transform(images)
    alone = DPMixture(random_state=0).partial_fit(rows, sample_weight=weights)
    np.testing.assert_array_equal(pipeline.predict_proba(images), alone.predict_proba(rows))
    pipeline.partial_fit(scenes(10, seed=1), mixture__batch_id="monday")
    pipeline["mixture"].forget("monday")
    assert pipeline["mixture"].n_samples_seen_ == 40
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'weights'"):
        pipeline.partial_fit(["missing.png"], weights=weights)


# ----------------------------------------------------------------------- bad input


@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform"])
def test_a_warning_that_is_an_error_leaves_all_steps_as_they_were(method, tmp_path):
    pipeline = made("hog", tmp_path).fit(scenes())
    before = pipeline.predict_proba(scenes())
    pipeline.set_params(mixture__max_laps=1, mixture__tol=0.0)
    noise = np.random.default_rng(0).integers(0, 255, (100, 32, 32)).astype(np.uint8)
    with pytest.raises(NotConvergedWarning):  # in tests every warning is an error
        getattr(pipeline, method)(noise)
    assert (pipeline["reduce"].n_samples_seen_, pipeline["mixture"].n_samples_seen_) == (40, 40)
    np.testing.assert_array_equal(pipeline.predict_proba(scenes()), before)
    begun = made("hog", tmp_path, max_laps=1, tol=0.0)
    with pytest.raises(NotConvergedWarning):
        getattr(begun, method)(noise)
    assert not begun["reduce"].__sklearn_is_fitted__()
    assert not begun["mixture"].__sklearn_is_fitted__()


def test_weights_that_vanish_while_learning_leave_the_pipeline_as_it_was(tmp_path):
    pipeline = made("cnn", tmp_path)

    def images():
        yield from scenes()
        (tmp_path / "tiny.onnx").unlink()

    with pytest.raises(FileNotFoundError, match="'weights' parameter of CNNFeatures"):
        pipeline.fit(images())
    assert not pipeline["mixture"].__sklearn_is_fitted__()
    assert not hasattr(pipeline, "settings_")


@pytest.mark.parametrize("method", ["fit", "fit_predict", "partial_fit"])
def test_the_error_for_a_single_image_says_so(method, tmp_path):
    pipeline = made("hog", tmp_path)
    with pytest.raises(ValueError, match="ImagePipeline must hold at least two images"):
        getattr(pipeline, method)(scenes(1))
    pipeline.fit(scenes()).partial_fit(scenes(1))
    assert pipeline["mixture"].n_samples_seen_ == 41


@pytest.mark.parametrize(
    ("features", "settings", "message"),
    [
        ("sift", {}, "'features' parameter of image_pipeline must be one of 'hog', 'lbp', 'cnn'"),
        ("hog", {"grid": 3}, r"image_pipeline\('hog'\) takes the settings .*, got grid"),
        ("cnn", {}, "needs 'weights'"),
    ],
)
def test_bad_settings_are_refused(features, settings, message):
    with pytest.raises(ValueError, match=message):
        image_pipeline(features, **settings)


def test_a_bad_image_leaves_the_pipeline_as_it_was(tmp_path):
    pipeline = made("hog", tmp_path).partial_fit(scenes())
    before = pipeline.to_checkpoint()
    with pytest.raises(ValueError, match="image 3 of HOG"):
        pipeline.partial_fit([*scenes(3), np.zeros((4, 4, 7))])
    header, arrays = pipeline.to_checkpoint()
    assert header == before[0]
    for key, array in arrays.items():
        np.testing.assert_array_equal(array, before[1][key])


def test_a_first_call_that_fails_leaves_no_settings(tmp_path):
    pipeline = made("hog", tmp_path, prior=TOO_WIDE)
    with pytest.raises(ValueError, match="the 'prior' of DPMixture cannot be used"):
        pipeline.partial_fit(scenes())
    pipeline.set_params(mixture__prior="data").partial_fit(scenes(10, seed=5))
    assert pipeline["reduce"].n_samples_seen_ == 10


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"features__cell": 1}, "'cell' parameter of HOG"),
        ({"reduce__n_components": 2.5}, "'n_components' parameter of ScaledPCA"),
        ({"mixture__max_laps": 0}, "'max_laps' parameter of DPMixture"),
        ({"mixture__prior": "firm"}, "'prior' of DPMixture"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform", "partial_fit"])
def test_parameters_are_checked_before_images_are_read(method, params, message):
    def images():
        pytest.fail("an image was read")
        yield

    pipeline = image_pipeline("hog", 3).set_params(**params)
    with pytest.raises(ValueError, match=message):
        getattr(pipeline, method)(images())


def test_another_family_is_refused_before_images_are_read(tmp_path):
    pipeline = made("hog", tmp_path).partial_fit(scenes()).set_params(mixture__family="full")
    with pytest.raises(ValueError, match="'family'"):
        pipeline.partial_fit(["missing.png"])


@pytest.mark.parametrize("method", ["fit", "fit_predict", "partial_fit"])
def test_the_error_for_equal_images_says_so(method, tmp_path):
    pipeline = made("hog", tmp_path)
    with pytest.raises(ValueError, match="X of ImagePipeline must hold images that differ"):
        getattr(pipeline, method)(scenes(1) * 5)
    assert not pipeline["reduce"].__sklearn_is_fitted__()


def test_a_small_first_portion_is_warned_of(tmp_path):
    pipeline = made("hog", tmp_path).set_params(reduce__n_components=30)
    with pytest.warns(UserWarning, match="10 images have only 9 principal components") as found:
        pipeline.partial_fit(scenes(10))
    assert [one.filename for one in found] == [__file__]
    pipeline.partial_fit(scenes(10, seed=1))  # once is enough
    assert pipeline["reduce"].n_components_ == 9
    other = clone(pipeline)
    with pytest.raises(UserWarning, match="10 images have only"):
        other.partial_fit(scenes(10))
    assert not other["mixture"].__sklearn_is_fitted__()


@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform"])
def test_too_few_images_are_warned_of(method, tmp_path):
    pipeline = made("hog", tmp_path).set_params(reduce__n_components=30)
    message = r"10 images have only 9 principal components \(n_components=30\)"
    with pytest.warns(UserWarning, match=message) as found:
        getattr(pipeline, method)(scenes(10))
    assert [one.filename for one in found] == [__file__]
    getattr(pipeline, method)(scenes(40))


def test_steps_of_other_kinds_are_not_saved(tmp_path):
    pipeline = ImagePipeline([("features", HOG()), ("mixture", DPMixture())])
    with pytest.raises(ValueError, match="the 'steps' of ImagePipeline must be 'features'"):
        pipeline.save(tmp_path / "model.evl")


# Odd images


def test_odd_images_are_found_and_saved_with_the_file(tmp_path):
    """Checkers, which the components of stripes leave out."""
    images = scenes(60)
    pipeline = made("hog", tmp_path).set_params(reduce__residual=True).fit(images)
    squares = np.indices((32, 32)).sum(axis=0) // 6 % 2 * 255
    odd = [squares.astype(np.uint8)]
    assert pipeline.outlier_score(odd)[0] > pipeline.outlier_score(scenes(40, seed=1)).max()
    assert pipeline.is_outlier(odd, rate=0.05).tolist() == [True]
    pipeline.save(tmp_path / "m.evl")
    twin = load(tmp_path / "m.evl")
    np.testing.assert_array_equal(twin.outlier_score(odd), pipeline.outlier_score(odd))


def test_odd_images_need_the_residual(tmp_path):
    pipeline = made("hog", tmp_path).fit(scenes())
    for ask in (pipeline.outlier_score, pipeline.is_outlier):
        with pytest.raises(ValueError, match="reduce__residual=True"):
            ask(scenes())
    pipeline.set_params(reduce__residual=True)
    with pytest.raises(ValueError, match="'reduce__residual' of ImagePipeline must stay"):
        pipeline.outlier_score(scenes())
    with pytest.raises(ValueError, match="'rate'"):
        pipeline.fit(scenes()).is_outlier(scenes(), rate=2)
