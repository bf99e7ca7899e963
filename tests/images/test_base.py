"""Images become rows: the right ones, whatever form and however many threads."""

import threading

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone

from everlearn.engine.progress import ImageProgress
from everlearn.errors import ImageDecodeError, ImageSkippedWarning
from everlearn.images import HOG, LBP, CNNFeatures
from everlearn.images.base import in_order, square
from everlearn.images.files import ImageFolder, read_image
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


def test_square_is_cut_from_the_middle():
    image = np.zeros((30, 50, 3), np.uint8)
    image[:, 10:40] = np.arange(1, 31, dtype=np.uint8)[:, None]
    np.testing.assert_array_equal(square(image, 30), image[:, 10:40])
    tall = image.transpose(1, 0, 2)
    np.testing.assert_array_equal(square(tall, 30), tall[10:40])


def test_only_networks_see_colours(tmp_path):
    """HOG sees shades of grey only; a network sees colours."""
    image = colours(64, 64)
    turned = image[:, :, ::-1].copy()
    save_network(tmp_path / "tiny.onnx")
    network = CNNFeatures(tmp_path / "tiny.onnx", size=32).transform([image, turned])
    assert np.abs(network[0] - network[1]).max() > 1
    grey = np.asarray(Image.fromarray(image).convert("L"))
    one, two = HOG(size=64).transform([image, np.repeat(grey[:, :, None], 3, axis=2)])
    np.testing.assert_array_equal(one, two)


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
def test_the_error_for_a_data_frame_asks_for_a_column(transformer, library, tmp_path):
    (tmp_path / "one.png").write_bytes(encoded(IMAGES[0]))
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"path": [str(tmp_path / "one.png")]})
    with pytest.raises(ValueError, match="got a data frame; give the column that holds them"):
        transformer.transform(frame)
    np.testing.assert_array_equal(
        transformer.transform(frame["path"]), transformer.transform(IMAGES[:1])
    )


def test_the_error_for_a_folder_names_image_folder(transformer, tmp_path):
    with pytest.raises(ValueError, match=r"must be a list .* a folder as ImageFolder\(path\)"):
        transformer.transform(tmp_path)


def test_no_images_are_refused(transformer):
    with pytest.raises(ValueError, match="must hold at least one image, got none"):
        transformer.transform([])


def test_one_image_in_colour_is_no_list(transformer):
    with pytest.raises(ValueError, match=r"\(40, 60, 3\), which is one colour image"):
        transformer.transform(np.zeros((40, 60, 3), np.uint8))
