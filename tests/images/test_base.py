"""Images become rows: the right ones, whatever form and however many threads."""

import threading
from hashlib import blake2b
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto
from skimage.feature import hog, local_binary_pattern
from sklearn.base import clone

from everlearn.engine.progress import ImageProgress
from everlearn.errors import ImageDecodeError, ImageSkippedWarning
from everlearn.images import HOG, LBP, CNNFeatures
from everlearn.images.base import in_order, square
from everlearn.images.files import ImageFolder, read_image
from everlearn.images.networks import weights_digest
from support.networks import save_network
from support.pictures import colours, encoded

IMAGES = [colours(40, 60, seed) for seed in range(5)]
SMALL = {"size": 64, "n_jobs": 1}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "tiny.onnx"
    save_network(path)
    return path


@pytest.fixture(params=["hog", "lbp", "cnn"])
def transformer(request, weights):
    if request.param == "cnn":
        return CNNFeatures(weights, size=32, batch_size=2, n_jobs=1)
    return {"hog": HOG, "lbp": LBP}[request.param](**SMALL)


def grey(image, size):
    """The middle square as Pillow's grey, by its formula."""
    pixels = square(image, size).astype(np.int64)
    return ((pixels @ [19595, 38470, 7471] + 0x8000) >> 16).astype(np.uint8)


# ------------------------------------------------------------------- right numbers


def test_hog_is_that_of_the_middle_square():
    (row,) = HOG(size=64, cell=8, orientations=6).transform(IMAGES[:1])
    image = grey(IMAGES[0], 64)
    peer = hog(image, 6, (8, 8), (2, 2), block_norm="L2-Hys")
    assert row.shape == (7 * 7 * 4 * 6,)
    np.testing.assert_allclose(row, peer, atol=1e-6)


@pytest.mark.parametrize(
    ("invariant", "method", "n_codes"), [(False, "nri_uniform", 59), (True, "uniform", 10)]
)
def test_lbp_counts_patterns_part_by_part(invariant, method, n_codes):
    (row,) = LBP(size=32, grid=4, rotation_invariant=invariant).transform(IMAGES[:1])
    codes = local_binary_pattern(grey(IMAGES[0], 32), 8, 1.0, method).astype(int)
    expected = []
    for top in range(0, 32, 8):
        for left in range(0, 32, 8):
            part = codes[top : top + 8, left : left + 8].ravel()
            expected.append(np.bincount(part, minlength=n_codes) / 64)
    np.testing.assert_allclose(row, np.concatenate(expected), atol=1e-7)


def test_a_grid_that_does_not_divide_the_side_still_counts_every_pixel():
    (row,) = LBP(size=50, grid=7).transform(IMAGES[:1])
    np.testing.assert_allclose(row.reshape(49, 59).sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("output", [None, "pooled", "maps"])
def test_a_network_gets_channels_first_and_scaled_pixels(output, tmp_path):
    filters = save_network(tmp_path / "tiny.onnx")
    mean, std = [100.0, 110.0, 120.0], [50.0, 60.0, 70.0]
    network = CNNFeatures(tmp_path / "tiny.onnx", output=output, size=32, mean=mean, std=std)
    rows = network.transform(IMAGES[:3])
    for row, image in zip(rows, IMAGES, strict=False):
        pixels = (square(image, 32).astype(float) - mean) / std
        expected = np.maximum(pixels @ filters.T, 0).mean(axis=(0, 1))
        np.testing.assert_allclose(row, expected, rtol=1e-4)


def test_square_is_cut_from_the_middle():
    image = np.zeros((30, 50, 3), np.uint8)
    image[:, 10:40] = np.arange(1, 31, dtype=np.uint8)[:, None]
    np.testing.assert_array_equal(square(image, 30), image[:, 10:40])
    tall = image.transpose(1, 0, 2)
    np.testing.assert_array_equal(square(tall, 30), tall[10:40])


# ------------------------------------------------------------------- forms of input


def test_forms_of_an_image_make_no_difference(transformer, tmp_path):
    for i, image in enumerate(IMAGES):
        (tmp_path / f"{i}.png").write_bytes(encoded(image))
    expected = transformer.transform(IMAGES)
    assert expected.dtype == np.float32
    paths = sorted(tmp_path.glob("*.png"))
    forms = {
        "paths": paths,
        "strings": [str(path) for path in paths],
        "bytes": [path.read_bytes() for path in paths],
        "stack": np.stack(IMAGES),
        "generator": (image for image in IMAGES),
        "folder": ImageFolder(tmp_path),
        "array of strings": np.array([str(path) for path in paths]),
    }
    for name, given in forms.items():
        np.testing.assert_array_equal(transformer.transform(given), expected, err_msg=name)


def test_threads_make_no_difference(transformer):
    many = IMAGES * 7
    expected = transformer.transform(many)
    for n_jobs in (2, 5, None):
        np.testing.assert_array_equal(
            transformer.set_params(n_jobs=n_jobs).transform(many), expected
        )


def test_rows_come_a_few_at_a_time(transformer):
    found = list(transformer.stream(IMAGES * 7))
    assert len(found) > 1
    np.testing.assert_array_equal(np.concatenate(found), transformer.transform(IMAGES * 7))


def test_it_is_a_transformer_of_scikit_learn(transformer):
    twin = clone(transformer)
    assert twin.get_params() == transformer.get_params()
    np.testing.assert_array_equal(
        twin.fit_transform(IMAGES), transformer.fit(IMAGES).transform(IMAGES)
    )


def test_the_progress_bar_counts_images(transformer, capsys):
    transformer.set_params(verbose=1).transform(IMAGES)
    assert "5 images" in capsys.readouterr().out


@pytest.fixture
def folder(tmp_path):
    for i, image in enumerate(IMAGES):
        (tmp_path / f"{i}.png").write_bytes(encoded(image))
    return tmp_path


def test_the_images_of_a_folder_are_decoded_by_threads(folder, monkeypatch):
    decoders = set()

    def spied(path):
        decoders.add(threading.current_thread())
        return read_image(path)

    monkeypatch.setattr("everlearn.images.files.read_image", spied)
    HOG(size=64, n_jobs=2).transform(ImageFolder(folder))
    assert decoders
    assert threading.main_thread() not in decoders


def test_the_progress_bar_knows_how_many_a_folder_has(folder, monkeypatch):
    totals = []

    class Spied(ImageProgress):
        def __init__(self, verbose, total):
            totals.append(total)
            super().__init__(verbose, total)

    monkeypatch.setattr("everlearn.images.base.ImageProgress", Spied)
    HOG(**SMALL, verbose=1).transform(ImageFolder(folder))
    assert totals == [5]
    assert len(ImageFolder(folder)) == 5


@pytest.mark.parametrize("broken", [["2.png"], ["0.png", "1.png", "2.png"]])
def test_what_a_folder_leaves_out_has_no_row(folder, broken):
    """Of the network's batches of two, one may be left without images."""
    save_network(folder / "tiny.onnx")
    network = CNNFeatures(folder / "tiny.onnx", size=32, batch_size=2, n_jobs=2)
    expected = network.transform(IMAGES)
    for name in broken:
        (folder / name).write_bytes(b"no image")
    with pytest.warns(ImageSkippedWarning, match=r"left out: .*\.png"):
        rows = network.transform(ImageFolder(folder, on_error="skip"))
    kept = [i for i in range(5) if f"{i}.png" not in broken]
    np.testing.assert_array_equal(rows, expected[kept])
    with pytest.raises(ImageDecodeError, match=broken[0]):
        network.transform(ImageFolder(folder))


def test_as_many_threads_as_the_process_may_use(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    asked = []

    def spied(task, items, n_threads):
        asked.append(n_threads)
        return in_order(task, items, 1)

    monkeypatch.setattr("everlearn.images.base.in_order", spied)
    HOG(size=64).transform(IMAGES[:1])
    assert asked == [3]


def test_features_have_names(transformer):
    names = transformer.get_feature_names_out()
    width = transformer.transform(IMAGES[:1]).shape[1]
    prefix = type(transformer).__name__.lower()
    assert names.tolist() == [f"{prefix}{i}" for i in range(width)]
    frame = transformer.set_output(transform="pandas").transform(IMAGES)
    assert frame.shape == (5, width)
    assert frame.columns.tolist() == names.tolist()


def test_results_keep_their_order_and_work_stays_near(monkeypatch):
    """Later items finish first, and no more than a few are taken before results are."""
    started = []
    gate = threading.Event()

    def task(i):
        if i == 0:
            gate.wait(10)
        return i

    def items():
        for i in range(50):
            started.append(i)
            if i == 4:
                gate.set()
            yield i

    results = in_order(task, items(), 2)
    assert next(results) == 0
    assert len(started) <= 6
    assert list(results) == list(range(1, 50))


# --------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (b"no image", ImageDecodeError, r"image 2 of \w+: cannot decode 8 bytes"),
        ("missing.png", FileNotFoundError, r"image 2 of \w+ cannot be read: .*missing\.png"),
        (np.zeros((3, 4, 2)), ValueError, r"image 2 of \w+: .*shape \(3, 4, 2\)"),
        (np.full((3, 4), np.nan), ValueError, r"image 2 of \w+: .*from 0 to 1"),
        (np.full((3, 4), 7.0), ValueError, r"image 2 of \w+: .*from 0 to 1"),
        (np.zeros((0, 4)), ValueError, r"image 2 of \w+: .*at least one pixel"),
        (
            None,
            ValueError,
            r"image 2 of \w+: expected a path, bytes, pixels or a Pillow image, got NoneType",
        ),
        (
            3 + 4j,
            ValueError,
            r"image 2 of \w+: expected a path, bytes, pixels or a Pillow image, got complex",
        ),
    ],
)
def test_a_bad_image_is_named(transformer, bad, error, message):
    with pytest.raises(error, match=message):
        transformer.set_params(n_jobs=2).transform([IMAGES[0], IMAGES[1], bad, IMAGES[3]])


@pytest.mark.parametrize("given", ["one.png", b"bytes", 7, None, np.zeros((4, 4))])
def test_what_is_no_list_of_images_is_refused(transformer, given):
    with pytest.raises(ValueError, match=rf"X of {type(transformer).__name__} must be a list of"):
        transformer.transform(given)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_of_a_data_frame_a_column_is_asked_for(transformer, library, tmp_path):
    (tmp_path / "one.png").write_bytes(encoded(IMAGES[0]))
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"path": [str(tmp_path / "one.png")]})
    with pytest.raises(ValueError, match="got a data frame; give the column that holds them"):
        transformer.transform(frame)
    np.testing.assert_array_equal(
        transformer.transform(frame["path"]), transformer.transform(IMAGES[:1])
    )


def test_a_folder_is_asked_for_by_its_class(transformer, tmp_path):
    with pytest.raises(ValueError, match=r"must be a list .* a folder as ImageFolder\(path\)"):
        transformer.transform(tmp_path)


def test_no_images_are_refused(transformer):
    with pytest.raises(ValueError, match="must hold at least one image, got none"):
        transformer.transform([])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"size": 4}, "'size' parameter of HOG must be an integer at least 16"),
        ({"cell": 1}, "'cell' parameter of HOG"),
        ({"size": 20, "cell": 16}, "'size' parameter of HOG must hold a block of 2 x 2"),
        ({"orientations": 0}, "'orientations' parameter of HOG"),
        ({"n_jobs": 0}, "'n_jobs' parameter of HOG"),
        ({"verbose": -1}, "'verbose' parameter of HOG"),
    ],
)
def test_parameters_of_hog_are_checked(params, message):
    with pytest.raises(ValueError, match=message):
        HOG(**params).fit(IMAGES)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"grid": 0}, "'grid' parameter of LBP"),
        ({"size": 16, "grid": 17}, "'size' parameter of LBP must be a pixel or more"),
        ({"radius": 0}, "'radius' parameter of LBP"),
        ({"rotation_invariant": 1}, "'rotation_invariant' parameter of LBP"),
    ],
)
def test_parameters_of_lbp_are_checked(params, message):
    with pytest.raises(ValueError, match=message):
        LBP(**params).fit(IMAGES)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"output": "logits"}, r"'output' parameter .* one of \['pooled', 'maps'\]"),
        ({"std": 0.0}, "'std' parameter of CNNFeatures must be positive"),
        ({"mean": [1.0, 2.0]}, "'mean' parameter of CNNFeatures must be a finite number, or three"),
        ({"mean": "grey"}, "'mean' parameter of CNNFeatures"),
        ({"batch_size": 0}, "'batch_size' parameter of CNNFeatures"),
        ({"network": "vgg19", "output": "pooled"}, "'output' parameter .* must be None"),
    ],
)
def test_parameters_of_networks_are_checked(weights, params, message):
    with pytest.raises(ValueError, match=message):
        CNNFeatures(weights, **params).fit(IMAGES)


def test_files_that_are_no_networks_are_refused(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"'weights' parameter .* must be a file, got .*no\."
    ):
        CNNFeatures(tmp_path / "no.onnx").fit(IMAGES)
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(
        ValueError, match=r"'weights' parameter .* must be an ONNX file, got .*text"
    ):
        CNNFeatures(tmp_path / "text.onnx").fit(IMAGES)
    save_network(tmp_path / "two.onnx", inputs=2)
    with pytest.raises(ValueError, match=r"must have one input, got \['image', 'other'\]"):
        CNNFeatures(tmp_path / "two.onnx").fit(IMAGES)


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_networks_of_fixed_batches_describe_any_number_of_images(tmp_path, batch):
    save_network(tmp_path / "any.onnx")
    save_network(tmp_path / "fixed.onnx", batch=batch)
    one, other = (
        CNNFeatures(tmp_path / name, size=32, batch_size=3).transform(IMAGES)
        for name in ("any.onnx", "fixed.onnx")
    )
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_networks_of_half_precision(tmp_path):
    save_network(tmp_path / "single.onnx")
    save_network(tmp_path / "half.onnx", kind=TensorProto.FLOAT16)
    one, other = (
        CNNFeatures(tmp_path / name, size=32).transform(IMAGES)
        for name in ("single.onnx", "half.onnx")
    )
    np.testing.assert_allclose(one, other, rtol=0.02, atol=0.02)


def test_images_that_a_network_does_not_take(tmp_path):
    save_network(tmp_path / "small.onnx")
    with pytest.raises(ValueError, match=r"'size' .*CNNFeatures.* \(3, 32, 32\)\. Got .*224"):
        CNNFeatures(tmp_path / "small.onnx").transform(IMAGES)


def test_one_image_in_colour_is_no_list(transformer):
    with pytest.raises(ValueError, match=r"\(40, 60, 3\), which is one colour image"):
        transformer.transform(np.zeros((40, 60, 3), np.uint8))


def test_networks_of_torchvision(tmp_path):
    """The last linear layer is left out, and what it is given comes out."""
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("torchvision").models
    model = models.resnet18(weights=None).eval()
    torch.save(model.state_dict(), tmp_path / "resnet18.pth")
    rows = CNNFeatures(tmp_path / "resnet18.pth", network="resnet18", size=64).transform(IMAGES)
    images = np.stack([square(image, 64) for image in IMAGES]).transpose(0, 3, 1, 2)
    with torch.inference_mode():
        scores = model(torch.from_numpy(images.astype(np.float32))).numpy()
        ends = model.fc(torch.from_numpy(rows)).numpy()
    assert rows.shape == (5, 512)
    np.testing.assert_allclose(ends, scores, rtol=1e-3, atol=1e-3)


def test_a_network_is_opened_once_and_again_when_its_file_changes(tmp_path, monkeypatch):
    path = tmp_path / "tiny.onnx"
    save_network(path)
    opened = []
    session = onnxruntime.InferenceSession

    def spied(name, *options, **more):
        opened.append(name)
        return session(name, *options, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", spied)
    network = CNNFeatures(path, size=32)
    before = network.fit().transform(IMAGES)
    network.set_params(output="maps").transform(IMAGES)
    assert opened == [str(path)]
    save_network(path, seed=1)
    assert np.abs(network.transform(IMAGES) - before).max() > 1
    assert len(opened) == 2


def test_digests_are_those_of_what_the_file_holds_now(tmp_path, monkeypatch):
    path = tmp_path / "weights"
    path.write_bytes(b"one" * 1000)
    first = weights_digest(path)
    assert first == blake2b(b"one" * 1000, digest_size=16).hexdigest()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *given: pytest.fail("the file was read again"))
        assert weights_digest(path) == first
    path.write_bytes(b"two" * 1001)
    assert weights_digest(path) == blake2b(b"two" * 1001, digest_size=16).hexdigest()


@pytest.mark.data("models", "caltech101")
def test_the_shared_network_gives_the_features_that_came_with_the_images(shared_data):
    import pandas as pd

    file = shared_data / "caltech101" / "caltech101_sample.parquet"
    some = pd.read_parquet(file, columns=["jpeg"]).jpeg[::400]
    with np.load(shared_data / "caltech101" / "caltech101_sample_features.npz") as kept:
        expected = kept["X"][::400].astype(float)
    network = shared_data / "models" / "efficientnet_lite0_fp16w.onnx"
    rows = CNNFeatures(network, output="features").transform(some.tolist())
    likeness = np.corrcoef(rows, expected)[: len(rows), len(rows) :]
    assert (np.diag(likeness) > 0.97).all()  # the images were resized by another filter
    assert (likeness.argmax(axis=1) == np.arange(len(rows))).all()
