"""Images are read as they look, folders one image at a time, and damage is named."""

import os
import subprocess
import sys
from io import BytesIO
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from everlearn.errors import ImageDecodeError, ImageSkippedWarning
from everlearn.images import files as module
from everlearn.images.descriptors import random_places
from everlearn.images.files import ImageFolder, as_pixels, as_rgb, pixels_of, read_image
from everlearn.images.pixels import pixel_points, shrunken_shape
from support.pictures import colours, encoded

SRC = Path(__file__).resolve().parents[2] / "src"
PHOTO = colours(6, 9)


@pytest.fixture
def folder(tmp_path):
    """Two labels, one of them with folders of its own, and things that are no images."""
    for name in ("cats/b.png", "cats/a.PNG", "dogs/old/a.png", "dogs/z.png", "loose.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(PHOTO))
    (tmp_path / "cats" / "notes.txt").write_text("no image")
    (tmp_path / "cats" / ".hidden.png").write_bytes(b"no image")
    return tmp_path


def test_a_file_and_its_bytes_are_read_alike(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(encoded(PHOTO))
    for source in (path, str(path), path.read_bytes()):
        np.testing.assert_array_equal(read_image(source), PHOTO)


def test_what_is_read_may_be_written_to():
    image = read_image(encoded(PHOTO))
    image[0, 0] = 255 - PHOTO[0, 0]
    np.testing.assert_array_equal(image[0, 0], 255 - PHOTO[0, 0])


def test_jpeg_is_read():
    flat = np.full((16, 16, 3), (200, 100, 50), np.uint8)
    assert np.abs(read_image(encoded(flat, "JPEG", quality=95)).astype(int) - flat).max() <= 3


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image.new("L", (1, 1), 90), (90, 90, 90)),
        (Image.new("1", (1, 1), 1), (255, 255, 255)),
        (Image.new("I;16", (1, 1), 65535), (255, 255, 255)),
        (Image.new("I;16", (1, 1), 257 * 80), (80, 80, 80)),
        (Image.new("RGBA", (1, 1), (10, 20, 30, 0)), (255, 255, 255)),
        (Image.new("RGBA", (1, 1), (10, 20, 30, 255)), (10, 20, 30)),
        (Image.new("LA", (1, 1), (0, 0)), (255, 255, 255)),
        (Image.new("P", (1, 1)), (0, 0, 0)),
    ],
)
def test_every_mode_becomes_rgb(image, expected):
    pixels = read_image(encoded(image))
    assert pixels.dtype == np.uint8
    assert pixels.shape == (1, 1, 3)
    assert tuple(pixels[0, 0].tolist()) == expected


def in_mode(mode):
    """Colours in a mode of Pillow, and what they look like."""
    image = Image.fromarray(PHOTO).convert(mode)
    return image, np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBX", "CMYK", "HSV", "YCbCr", "LAB"])
def test_images_of_pillow_are_taken_as_they_look(mode):
    image, expected = in_mode(mode)
    np.testing.assert_array_equal(pixels_of(image, "test"), expected)
    np.testing.assert_array_equal(as_pixels(image, "test"), expected)
    np.testing.assert_array_equal(as_rgb(image, "test"), expected / 255.0)


@pytest.mark.parametrize("mode", ["LA", "PA", "RGBA"])
def test_images_of_pillow_get_a_white_ground(mode):
    image = Image.new("RGBA", (4, 3), (10, 20, 30, 0)).convert(mode)
    assert (pixels_of(image, "test") == 255).all()


def test_images_of_pillow_are_turned_and_opened_ones_are_decoded():
    picture = Image.fromarray(np.zeros((4, 8, 3), np.uint8))
    exif = picture.getexif()
    exif[0x0112] = 6  # turn by a quarter
    opened = Image.open(BytesIO(encoded(picture, "JPEG", exif=exif)))
    assert pixels_of(opened, "test").shape == (8, 4, 3)
    assert pixel_points(opened).shape == (32, 5)
    assert shrunken_shape(opened, None) == (8, 4)
    assert random_places(opened, 5).y.max() > 3.0
    cut = Image.open(BytesIO(encoded(colours(40, 40))[:500]))
    with pytest.raises(ImageDecodeError, match=r"cannot decode the Pillow image: .*truncated"):
        pixels_of(cut, "test")


@pytest.mark.parametrize(("kind", "numbers"), [("TIFF", np.float32), ("PPM", np.float32)])
def test_floats_in_files_are_from_0_to_1(kind, numbers):
    grey = np.linspace(0, 1, 12, dtype=numbers).reshape(3, 4)
    expected = np.repeat(np.rint(255 * grey)[:, :, None], 3, axis=2)
    np.testing.assert_array_equal(read_image(encoded(grey, kind)), expected)
    for wrong in (255 * grey, grey - 0.5, grey * np.nan):
        with pytest.raises(ImageDecodeError, match="its floats must be from 0 to 1, got"):
            read_image(encoded(wrong.astype(numbers), kind))


def test_whole_numbers_of_32_bits_are_refused_unless_they_are_of_16():
    grey = 257 * np.arange(12, dtype=np.int32).reshape(3, 4)
    np.testing.assert_array_equal(read_image(encoded(grey, "PPM"))[:, :, 0], grey // 257)
    for image in (encoded(grey, "TIFF"), Image.fromarray(grey), encoded(70_000 + grey, "TIFF")):
        with pytest.raises(ImageDecodeError, match=r"integers of 32 bits, .* white; save"):
            pixels_of(image, "test")


@pytest.mark.parametrize("dtype", [">u2", "<u2", ">f4", ">f8", "u1"])
def test_the_order_of_bytes_does_not_matter(dtype):
    top = {"u": 2 ** (8 * np.dtype(dtype).itemsize) - 1, "f": 1.0}[np.dtype(dtype).kind]
    grey = (np.array([[0.0, 0.2, 1.0]]) * top).astype(dtype)
    assert as_pixels(grey, "test")[0, :, 0].tolist() == [0, 51, 255]


def test_photographs_are_turned_as_their_camera_noted():
    picture = Image.fromarray(np.zeros((4, 8, 3), np.uint8))
    exif = picture.getexif()
    exif[0x0112] = 6  # turn by a quarter
    assert read_image(encoded(picture, "JPEG", exif=exif)).shape == (8, 4, 3)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"no image", "unknown image format"),
        (encoded(colours(40, 40))[:500], "truncated"),
    ],
)
def test_damage_is_an_error_that_names_the_file(tmp_path, data, reason):
    path = tmp_path / "broken.png"
    path.write_bytes(data)
    with pytest.raises(
        ImageDecodeError, match=rf"cannot decode the file '.*broken\.png': .*{reason}"
    ):
        read_image(path)
    with pytest.raises(ImageDecodeError, match=rf"cannot decode {len(data)} bytes: .*{reason}"):
        read_image(data)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "missing.png")


def test_a_folder_is_read_in_order_with_its_labels(folder):
    found = [(one.path.relative_to(folder).as_posix(), one.label) for one in ImageFolder(folder)]
    assert found == [
        ("cats/a.PNG", "cats"),
        ("cats/b.png", "cats"),
        ("dogs/old/a.png", "dogs"),
        ("dogs/z.png", "dogs"),
        ("loose.png", ""),
    ]


def test_a_folder_can_be_read_again_and_named_by_a_string(folder):
    images = ImageFolder(str(folder))
    assert len(list(images)) == len(list(images)) == 5
    assert [one.path for one in images] == list(images.files())
    for one in images:
        np.testing.assert_array_equal(one.pixels, PHOTO)


def test_images_are_decoded_only_when_asked_for(folder, monkeypatch):
    decoded = []

    def watched(path):
        decoded.append(path)
        return PHOTO

    monkeypatch.setattr(module, "read_image", watched)
    list(islice(ImageFolder(folder), 2))
    assert len(decoded) == 2


def test_links_to_folders_are_not_followed(folder):
    os.symlink(folder, folder / "cats" / "circle")
    assert len(list(ImageFolder(folder).files())) == 5


def test_damage_in_a_folder_is_raised_or_skipped(folder):
    (folder / "cats" / "aa.jpg").write_bytes(b"no image")
    with pytest.raises(ImageDecodeError, match=r"aa\.jpg"):
        list(ImageFolder(folder))
    with pytest.warns(ImageSkippedWarning, match=r"left out: .*aa\.jpg"):
        assert len(list(ImageFolder(folder, on_error="skip"))) == 5


def test_a_folder_tells_which_files_it_kept(folder):
    whole, bad = ImageFolder(folder), folder / "cats" / "aa.jpg"
    assert whole.kept() == list(whole.files())
    bad.write_bytes(b"no image")
    images = ImageFolder(folder, on_error="skip")
    with pytest.warns(ImageSkippedWarning):
        kept = [one.path for one in images]
    assert images.kept() == kept
    assert images.left_out == {bad}
    assert images == ImageFolder(folder, on_error="skip")
    bad.write_bytes(encoded(PHOTO))  # repaired, and read again
    assert [one.path for one in images] == images.kept() == list(images.files())


def test_an_empty_folder_has_no_images(tmp_path):
    assert list(ImageFolder(tmp_path)) == []


def test_wrong_settings_are_refused(tmp_path):
    with pytest.raises(ValueError, match="'path' of ImageFolder must be a folder"):
        ImageFolder(tmp_path / "missing")
    with pytest.raises(ValueError, match="'on_error' of ImageFolder"):
        ImageFolder(tmp_path, on_error="ignore")


@pytest.mark.parametrize(
    "form",
    [
        lambda p: p,
        lambda p: p.astype(np.uint16) * 257,
        lambda p: p / 255.0,
        lambda p: (p / 255.0).astype(np.float32),
        lambda p: np.dstack([p, np.full(p.shape[:2], 255, np.uint8)]),
    ],
)
def test_all_forms_of_an_image_mean_the_same(form):
    np.testing.assert_allclose(as_rgb(form(PHOTO), "test"), PHOTO / 255.0, atol=1e-6)
    np.testing.assert_array_equal(as_pixels(form(PHOTO), "test"), PHOTO)


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1)])
def test_grey_has_three_equal_channels(shape):
    grey = np.linspace(0, 1, 20).reshape(shape)
    expected = np.broadcast_to(grey.reshape(4, 5, 1), (4, 5, 3))
    np.testing.assert_array_equal(as_rgb(grey, "test"), expected)


def test_transparency_lets_white_through():
    image = np.array([[[0.0, 0.5, 1.0, 0.5]]])
    np.testing.assert_allclose(as_rgb(image, "test")[0, 0], [0.5, 0.75, 1.0])


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros(5), "must have the shape"),
        (np.zeros((2, 2, 2)), "with 1, 3 or 4 channels"),
        (np.zeros((0, 4)), "at least one pixel"),
        (np.full((2, 2), 255.0), "floats from 0 to 1, got 255 to 255; divide"),
        (np.array([[0.0, np.nan]]), "from 0 to 1"),
        (np.zeros((2, 2), np.int64), "uint8, uint16, bool or float, got int64"),
        (np.array([["a"]]), "got <U1"),
    ],
)
def test_what_is_no_image_is_refused(image, message):
    with pytest.raises(ValueError, match=rf"'image' of test .*{message}"):
        as_rgb(image, "test")


@pytest.mark.parametrize(
    ("missing", "module"), [("PIL", "files"), ("skimage", "pixels"), ("skimage", "descriptors")]
)
def test_without_the_libraries_the_way_out_is_named(missing, module):
    code = f"import sys; sys.modules['{missing}'] = None; import everlearn.images.{module}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert "pip install 'everlearn[images]'" in done.stderr.splitlines()[-1]
