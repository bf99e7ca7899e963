"""Images in reports: photographs, and images coloured by topic.

It needs Pillow and scikit-image: ``pip install 'everlearn[images]'``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from colorsys import hls_to_rgb
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from everlearn.errors import ImageDecodeError
from everlearn.images.files import SUFFIXES, AnyImage, Pixels, as_pixels, pixels_of, read_image
from everlearn.images.pixels import enlarged, labels_as_image, pixel_points
from everlearn.report.page import page, paragraph, section
from everlearn.report.pictures import embedded
from everlearn.stream.models import has_points
from everlearn.stream.session import Session

LONGEST_SIDE: Final = 256
"""Larger images are shrunk to this many pixels."""
_JPEG_QUALITY: Final = 85
_MAX_LEGEND: Final = 24
"""Topics in the legend of a sheet."""
_MAX_IMAGES: Final = 8
"""Images that `images_by_topic` shows."""
_HALF_WHITE: Final = np.uint8(128)
Colour: TypeAlias = tuple[int, int, int]
"""Red, green and blue, each from 0 to 255."""
Colours: TypeAlias = Literal["mean", "palette"] | Mapping[int, Colour]
"""Mean colours of topics, a palette with a fixed colour for each id, or colours by id."""
NO_TOPIC: Final[Colour] = (128, 128, 128)
"""The colour of negative ids."""
# Found by random search for colours that differ: by CIEDE2000, any two of the first 24 by at least
# 9, and neighbours among these by at least 29.
_HUE_STEP: Final = 0.27704
_TONES: Final = ((0.36, 0.62), (0.71, 0.36), (0.3, 0.49), (0.49, 0.46), (0.6, 0.74))
"""Lightness and saturation, in turn."""


def photograph(
    image: AnyImage, alt: str, kind: str = "photo", title: str = "", longest: int = LONGEST_SIDE
) -> str:
    """An `img` element with a photograph, given as array, path or the bytes of a file.

    Its longer side gets at most `longest` pixels.
    """
    picture = Image.fromarray(pixels_of(image, "photograph"))
    picture.thumbnail((longest, longest))
    shape = (picture.height, picture.width)
    file = BytesIO()
    picture.save(file, "JPEG", quality=_JPEG_QUALITY, optimize=True)
    return embedded(file.getvalue(), "image/jpeg", shape, alt, kind, title)


def drawing(pixels: Pixels, alt: str, kind: str = "photo", title: str = "") -> str:
    """An `img` element with a picture of few colours, without loss.

    A large picture is shrunk by leaving pixels out, so that no colour is added.
    """
    picture = Image.fromarray(pixels)
    factor = LONGEST_SIDE / max(picture.size)
    if factor < 1:
        width, height = (max(1, round(factor * side)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.NEAREST)
    kept = np.asarray(picture)
    return embedded(png_file(kept), "image/png", kept.shape, alt, kind, title)


def png_file(pixels: Pixels) -> bytes:
    """The bytes of a PNG file. It has a palette, and is small, with at most 256 colours."""
    picture = Image.fromarray(pixels)
    if picture.getcolors() is not None:  # None: more than 256
        picture = picture.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        if not np.array_equal(np.asarray(picture.convert("RGB")), pixels):
            picture = Image.fromarray(pixels)
    file = BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()


def write_png(pixels: Pixels, path: Path) -> None:
    """Write a picture to a PNG file."""
    path.write_bytes(png_file(pixels))


def topic_colour(topic: int) -> Colour:
    """The colour of a topic in the palette. It depends on the id only; neighbours differ clearly.

    Examples
    --------
    >>> topic_colour(0) == topic_colour(0), topic_colour(0) == topic_colour(1)
    (True, False)
    """
    if topic < 0:
        return NO_TOPIC
    lightness, saturation = _TONES[topic % len(_TONES)]
    channels = hls_to_rgb(topic * _HUE_STEP % 1.0, lightness, saturation)
    red, green, blue = (round(255 * c) for c in channels)
    return red, green, blue


def segmentation_picture(
    image: ArrayLike, labels: ArrayLike, *, colours: Colours = "mean", boundaries: bool = True
) -> Pixels:
    """An image coloured by topic.

    Parameters
    ----------
    image : array-like, shape (height, width) or (height, width, 1, 3 or 4)
        Grey, RGB or RGBA, of 8 or 16 bits, or floats from 0 to 1.
    labels : array-like of int, shape (height, width), (height * width,) or smaller with two axes
        Topic ids. Labels of a smaller image are enlarged.
    colours : {"mean", "palette"} or mapping of ids to (red, green, blue), default="mean"
        "mean" gives each topic the mean colour of its pixels in this image. "palette" gives it a
        colour by its id, the same in all images.
    boundaries : bool, default=True
        Whether to draw light lines between topics.

    Returns
    -------
    picture : ndarray of uint8, shape (height, width, 3)

    Examples
    --------
    >>> image = np.array([[0, 100, 200]], np.uint8)
    >>> segmentation_picture(image, [[7, 7, 9]], boundaries=False)[0, :, 0]
    array([ 50,  50, 200], dtype=uint8)
    """
    pixels = as_pixels(image, "segmentation_picture")
    ids = _label_image(labels, pixels.shape[:2])
    named = _named_colours(colours, [pixels], [ids])
    found, place = np.unique(ids, return_inverse=True)
    unknown = [i for i in found.tolist() if i not in named]
    if unknown:
        raise ValueError(
            f"'colours' of segmentation_picture must have a colour for each topic, got none for "
            f"{unknown[:5]}"
        )
    table = np.array([named[i] for i in found.tolist()], dtype=np.uint8)
    picture = table[place.reshape(ids.shape)]
    if boundaries:
        edge = _on_boundary(ids)
        picture[edge] = picture[edge] // 2 + _HALF_WHITE  # half: small topics stay visible
    return picture


def mean_colours(images: Sequence[ArrayLike], labels: Sequence[ArrayLike]) -> dict[int, Colour]:
    """The mean colour of each topic's pixels over several images.

    Examples
    --------
    >>> mean_colours([np.zeros((1, 2)), np.ones((1, 2))], [[[4, 5]], [[4, 4]]])
    {4: (170, 170, 170), 5: (0, 0, 0)}
    """
    counts: dict[int, int] = {}
    sums: dict[int, NDArray[np.float64]] = {}
    for image, given in zip(images, labels, strict=True):
        pixels = as_pixels(image, "mean_colours")
        ids = _label_image(given, pixels.shape[:2])
        found, place = np.unique(ids, return_inverse=True)
        n = np.bincount(place.ravel())
        channels = pixels.reshape(-1, 3).T
        totals = np.stack([np.bincount(place.ravel(), weights=c) for c in channels], axis=1)
        for i, count, total in zip(found.tolist(), n.tolist(), totals, strict=True):
            counts[i] = counts.get(i, 0) + count
            sums[i] = sums.get(i, np.zeros(3)) + total
    return {i: _colour(sums[i] / counts[i]) for i in sorted(counts)}


def write_segmentations(
    folder: str | Path,
    images: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    names: Sequence[str] | None = None,
    *,
    colours: Colours = "mean",
    boundaries: bool = True,
) -> list[Path]:
    """Write each image, coloured by topic, to a PNG file in a folder, which is made if needed.

    With `colours="mean"`, a topic gets its mean colour over all images. Files are named after
    `names`, without the endings of image files; unusual characters become underscores. Without
    names, they are 0001.png, 0002.png and so on.
    """
    _check_lengths("write_segmentations", images, labels, names)
    stems = (
        [f"{k + 1:04d}" for k in range(len(images))] if names is None else list(map(_stem, names))
    )
    if len({stem.lower() for stem in stems}) < len(stems):
        raise ValueError(
            "'names' of write_segmentations must give each image a file name of its own, got "
            f"{stems}"
        )
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    shared = mean_colours(images, labels) if colours == "mean" else colours
    paths = [home / f"{stem}.png" for stem in stems]
    for image, ids, path in zip(images, labels, paths, strict=True):
        write_png(segmentation_picture(image, ids, colours=shared, boundaries=boundaries), path)
    return paths


def contact_sheet(
    images: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    names: Sequence[str] | None = None,
    *,
    colours: Colours = "mean",
    boundaries: bool = True,
) -> str:
    """Images beside their segmentations, and a legend of the largest topics, as HTML.

    Parameters are those of `write_segmentations`.
    """
    _check_lengths("contact_sheet", images, labels, names)
    shared = _named_colours(colours, images, labels)
    pairs, counts = [], dict.fromkeys(shared, 0)
    for k, (image, given) in enumerate(zip(images, labels, strict=True)):
        name = names[k] if names is not None else f"image {k + 1}"
        picture = segmentation_picture(image, given, colours=shared, boundaries=boundaries)
        found, n = np.unique(_label_image(given, picture.shape[:2]), return_counts=True)
        for i, count in zip(found.tolist(), n.tolist(), strict=True):
            counts[i] += count
        topics = f"{len(found)} topic{'' if len(found) == 1 else 's'}"
        pairs.append(
            f'<li class="pair"><figure><div>{photograph(image, name)}'
            f"{drawing(picture, f'{name}, coloured by topic')}</div>"
            f"<figcaption>{escape(name)} <span>{topics}</span></figcaption></figure></li>"
        )
    listed = "\n".join(pairs)
    return f'<ul class="sheet">\n{listed}\n</ul>\n{_legend(shared, counts)}'


def segmentation_page(
    images: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    names: Sequence[str] | None = None,
    *,
    title: str = "Images by topic",
    lead: str = "Each image, and beside it the same image coloured by topic.",
    colours: Colours = "mean",
    boundaries: bool = True,
) -> str:
    """A page with the sheet of `contact_sheet`, in one file that needs no network."""
    sheet = contact_sheet(images, labels, names, colours=colours, boundaries=boundaries)
    used = [len(np.unique(np.asarray(ids))) for ids in labels]
    key_numbers = [("images", f"{len(images):,}")]
    if used:
        topics = set().union(*(np.unique(np.asarray(ids)).tolist() for ids in labels))
        key_numbers += [
            ("topics in them", f"{len(topics):,}"),
            ("topics per image", f"{np.mean(used):.1f}"),
        ]
    how = "A topic has the same colour in all images."
    return page(title, lead, key_numbers, [section("sheet", "Images", paragraph(how), sheet)])


def _named_colours(
    colours: Colours, images: Sequence[ArrayLike], labels: Sequence[ArrayLike]
) -> Mapping[int, Colour]:
    if isinstance(colours, Mapping):
        return colours
    if colours == "mean":
        return mean_colours(images, labels)
    if colours == "palette":
        ids = set().union(*(np.unique(_topic_ids(one)).tolist() for one in labels))
        return {i: topic_colour(i) for i in sorted(ids)}
    raise ValueError(f"'colours' must be 'mean', 'palette' or a mapping of ids, got {colours!r}")


def _label_image(labels: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Labels with two axes, of the shape of the image."""
    ids = _topic_ids(labels)
    if ids.shape == (shape[0] * shape[1],):
        return ids.reshape(shape)
    if ids.ndim != 2 or not ids.size or ids.shape[0] > shape[0] or ids.shape[1] > shape[1]:
        raise ValueError(
            f"'labels' must be {shape[0]} x {shape[1]} topic ids, one for each pixel, or those of "
            f"a smaller image, got the shape {ids.shape}; labels_as_image makes such an image"
        )
    return enlarged(ids, shape)


def _topic_ids(labels: ArrayLike) -> NDArray[Any]:
    ids = np.asarray(labels)
    if ids.dtype.kind not in "iu":
        raise ValueError(f"'labels' must be topic ids, which are integers, got {ids.dtype}")
    return ids


def _on_boundary(ids: NDArray[Any]) -> NDArray[np.bool_]:
    """Pixels whose right or lower neighbour has another topic."""
    edge = np.zeros(ids.shape, dtype=np.bool_)
    edge[:, :-1] = ids[:, :-1] != ids[:, 1:]
    edge[:-1] |= ids[:-1] != ids[1:]
    return edge


def _legend(colours: Mapping[int, Colour], counts: Mapping[int, int]) -> str:
    """The largest topics with their colours and their shares of all pixels."""
    whole = max(1, sum(counts.values()))
    order = sorted((i for i in counts if counts[i]), key=lambda i: (-counts[i], i))
    items = [
        f'<li><span class="swatch" style="background:rgb{tuple(colours[i])}"></span>'
        f"#{i} <span>{counts[i] / whole:.1%}</span></li>"
        for i in order[:_MAX_LEGEND]
    ]
    rest = len(order) - _MAX_LEGEND
    more = f"<li>and {rest:,} more</li>" if rest > 0 else ""
    return f'<ul class="legend" aria-label="Topics, largest first">{"".join(items)}{more}</ul>'


def _colour(channels: NDArray[np.float64]) -> Colour:
    red, green, blue = np.rint(channels).astype(int).tolist()
    return red, green, blue


def _check_lengths(
    owner: str,
    images: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    names: Sequence[str] | None,
) -> None:
    for what, given in (("labels", labels), ("names", names)):
        if given is not None and len(given) != len(images):
            raise ValueError(
                f"'{what}' of {owner} must have one entry for each of the {len(images)} images, "
                f"got {len(given)}"
            )


def _stem(name: str) -> str:
    """A name that is safe for a file, without the ending of an image."""
    stem, dot, suffix = name.rpartition(".")
    kept = stem if f"{dot}{suffix}".lower() in SUFFIXES else name
    return re.sub(r"[^\w.-]", "_", kept).lstrip(".") or "_"


def images_by_topic(session: Session, paths: Sequence[str]) -> str:
    """A section with some of the images of a model, each beside the same image by topic."""
    side, model = session.layout.image_side, session.model
    if not has_points(model):
        return ""
    images, labels, names = [], [], []
    for path in paths[:: -(-len(paths) // _MAX_IMAGES)]:
        try:
            image = read_image(path)
        except (ImageDecodeError, OSError):  # it has changed since
            continue
        topics = model.assign(pixel_points(image, side))
        images.append(image)
        labels.append(labels_as_image(topics, image, side))
        names.append(os.path.basename(path))
    if not images:
        return ""
    how = (
        f"{len(images)} of {len(paths)} images. Beside each, the pixels of a topic have the mean "
        "colour of the topic, which is the same in all images."
    )
    return section(
        "images", "Images by topic", paragraph(how), contact_sheet(images, labels, names)
    )
