"""A page that shows queries with the images found for them, right or wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.core.arrays import IntVec, Mat
from everlearn.estimator.params import Interval, check_params
from everlearn.images.files import AnyImage, ImageFolder
from everlearn.report.images import photograph
from everlearn.report.page import details, minus, page, paragraph, section, table

Verdicts = NDArray[np.bool_]
"""Whether each neighbour of each query has the query's label, (n_queries, n_neighbours)."""
_AT_LEAST_ONE = Interval(1, integer=True)
_MARKS = {None: ("", ""), True: ("right", "✓"), False: ("wrong", "✗")}


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """Images with what is known of them.

    Attributes
    ----------
    images : sequence of paths, bytes of files or arrays, of which `images[i]` is read only if it is
        shown; an `ImageFolder` stands for the files that it kept when it was last gone through
    labels : one for each image, or None
    names : one for each image, such as the names of files, or None
    """

    images: Sequence[AnyImage] | ImageFolder
    labels: Sequence[str] | None = None
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.images, ImageFolder):
            object.__setattr__(self, "images", self.images.kept())
        for what, given in (("labels", self.labels), ("names", self.names)):
            if given is not None and len(given) != len(self.images):
                raise ValueError(
                    f"'{what}' of Collection must be as many as the {len(self.images)} images, "
                    f"got {len(given)}"
                )

    def __len__(self) -> int:
        return len(self.images)

    def image(self, i: int) -> AnyImage:
        """The image at a position, as it was given."""
        return cast("Sequence[AnyImage]", self.images)[i]  # folders have become lists of files

    def name(self, i: int) -> str:
        """The name of an image, or its number."""
        return str(self.names[i]) if self.names is not None else f"image {i + 1}"


def retrieval_page(
    queries: Collection,
    searched: Collection,
    neighbours: ArrayLike,
    scores: ArrayLike,
    *,
    title: str = "Images found",
    lead: str = "",
    score_name: str = "score",
    max_shown: int = 40,
) -> str:
    """A page of queries and their neighbours, in one file that needs no network.

    Shares of right ones count all queries, whether they are shown or not. An image is right if its
    label equals that of the query.

    Parameters
    ----------
    queries, searched : Collection
        The images asked with, and those among which others were looked for. Labels are compared if
        both have them.
    neighbours : array-like of int, shape (n_queries, n_neighbours)
        Positions in `searched`, the best first.
    scores : array-like of float, shape (n_queries, n_neighbours)
        How good each neighbour is.
    title, lead : str
        What this is, in a line and in a sentence or two.
    score_name : str, default="score"
        What the score is called.
    max_shown : int, default=40
        Number of queries shown; if there are more, they are taken evenly from first to last.

    Returns
    -------
    html : str

    Examples
    --------
    >>> grey = Collection([np.full((4, 4), v) for v in (0.0, 0.1, 1.0)], ["dark", "dark", "light"])
    >>> html = retrieval_page(grey, grey, [[1], [0], [1]], [[0.9], [0.9], [0.1]])
    >>> "66.7%" in html
    True
    """
    check_params("retrieval_page", {"max_shown": max_shown}, {"max_shown": (_AT_LEAST_ONE,)})
    found, values = _checked(queries, searched, neighbours, scores)
    verdicts = _verdicts(queries, searched, found)
    n = len(queries)
    shown = np.unique(np.linspace(0, n - 1, min(n, max_shown)).round().astype(int)).tolist()
    items = "\n".join(
        _query(queries, searched, q, found[q], values[q], verdicts, score_name) for q in shown
    )
    sections = (
        section(
            "queries",
            "Queries",
            paragraph(_how_to_read(len(shown), n, score_name, verdicts is not None)),
            f'<ul class="queries">\n{items}\n</ul>',
        ),
        "" if verdicts is None else _by_label(queries, verdicts),
    )
    return page(title, lead, _key_numbers(searched, found, verdicts), sections)


def _how_to_read(n_shown: int, n: int, score_name: str, judged: bool) -> str:
    note = f"{n_shown:,} of {n:,} queries, taken evenly. " if n_shown < n else ""
    marks = " A tick marks those that have the label of the query, a cross those that do not."
    return f"{note}Neighbours follow from the best to the worst {score_name}.{marks * judged}"


def _checked(
    queries: Collection, searched: Collection, neighbours: ArrayLike, scores: ArrayLike
) -> tuple[IntVec, Mat]:
    found, values = np.asarray(neighbours), np.asarray(scores, dtype=np.float64)
    if found.ndim != 2 or found.shape[0] != len(queries) or not found.size:
        raise ValueError(
            f"'neighbours' of retrieval_page must have the shape ({len(queries)}, n) with n of at "
            f"least 1, a row for each query, got the shape {found.shape}"
        )
    if found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= len(searched):
        raise ValueError(
            "'neighbours' of retrieval_page must be positions among the "
            f"{len(searched)} images searched, got {found.dtype} from {found.min()} to "
            f"{found.max()}"
        )
    if values.shape != found.shape:
        raise ValueError(
            f"'scores' of retrieval_page must have the shape of 'neighbours', {found.shape}, got "
            f"{values.shape}"
        )
    return found.astype(np.int64), values


def _verdicts(queries: Collection, searched: Collection, found: IntVec) -> Verdicts | None:
    if queries.labels is None or searched.labels is None:
        return None
    own = np.array([str(label) for label in queries.labels])
    others = np.array([str(label) for label in searched.labels])
    return np.asarray(others[found] == own[:, np.newaxis])


def _key_numbers(
    searched: Collection, found: IntVec, verdicts: Verdicts | None
) -> list[tuple[str, str]]:
    pairs = [
        ("queries", f"{len(found):,}"),
        ("images searched", f"{len(searched):,}"),
    ]
    if verdicts is not None:
        pairs.append(("first one right", f"{verdicts[:, 0].mean():.1%}"))
        if found.shape[1] > 1:
            pairs += [
                (f"right of all {found.shape[1]}", f"{verdicts.mean():.1%}"),
                (f"any of {found.shape[1]} right", f"{verdicts.any(axis=1).mean():.1%}"),
            ]
    return pairs


def _query(
    queries: Collection,
    searched: Collection,
    q: int,
    found: IntVec,
    scores: Mat,
    verdicts: Verdicts | None,
    score_name: str,
) -> str:
    name = queries.name(q)
    heading = name if queries.labels is None else str(queries.labels[q])
    below = (
        ""
        if queries.labels is None
        else f"<figcaption><span>{_breakable(name)}</span></figcaption>"
    )
    tiles = []
    for k, (i, score) in enumerate(zip(found.tolist(), scores.tolist(), strict=True)):
        verdict = None if verdicts is None else bool(verdicts[q, k])
        tiles.append(_tile(searched, i, f"{score_name} {_number(score)}", verdict))
    return (
        f'<li class="query"><figure><div class="tile">{photograph(queries.image(q), name)}</div>'
        f"<div><h3>{escape(heading)}</h3>{below}</div></figure>"
        f'<ol class="neighbours">{"".join(tiles)}</ol></li>'
    )


def _tile(searched: Collection, i: int, number: str, verdict: bool | None) -> str:
    """A neighbour with its label, or its name if there are no labels, and its score."""
    name = searched.name(i)
    label = name if searched.labels is None else str(searched.labels[i])
    kind, mark = _MARKS[verdict]
    alt = ", ".join(part for part in (name, label if label != name else "", kind) if part)
    sign = f'<b aria-hidden="true">{mark}</b> ' if mark else ""
    picture = photograph(searched.image(i), alt, title=name)
    return (
        f'<li class="{kind}"><figure><div class="tile">{picture}</div>'
        f"<figcaption>{sign}{escape(label)}<span>{escape(number)}</span></figcaption></figure></li>"
    )


def _breakable(path: str) -> str:
    """A path, escaped, which may go on in the next line after a slash."""
    return escape(path).replace("/", "/<wbr>")


def _number(score: float) -> str:
    """A score with as many digits as are worth reading."""
    size = abs(score)
    if 0.0 < size < 0.01:
        return minus(f"{score:.2g}")
    return minus(f"{score:,.{3 if size < 10 else 1 if size < 1000 else 0}f}")


def _by_label(queries: Collection, verdicts: Verdicts) -> str:
    """How often the first neighbour is right, and how many are, for each label."""
    labels = np.array([str(label) for label in queries.labels or ()])
    lines = []
    for label in np.unique(labels):
        rows = verdicts[labels == label]
        lines.append(
            (str(label), f"{len(rows):,}", f"{rows[:, 0].mean():.1%}", f"{rows.mean():.1%}")
        )
    lines.sort(key=lambda line: line[0].lower())
    head = ("label", "queries", "first one right", f"right of all {verdicts.shape[1]}")
    content = table("Shares of right ones, by the label of the query", head, lines)
    return section("labels", "By label", details(f"All {len(lines)} labels", content))
