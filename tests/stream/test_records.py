"""Records become what an estimator takes, or are set aside with a reason."""

import json
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image
from scipy import sparse

from everlearn.errors import UsageError
from everlearn.io.batches import Chunk, ImageFile
from everlearn.stream.layout import Layout
from everlearn.stream.prepared import PreparedBatch
from everlearn.stream.records import RecordPreparer


def prepared(rows: Any, layout: Layout, names: Any = None, **options: Any) -> PreparedBatch:
    n = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    preparer = RecordPreparer(layout, lambda _: False, **options)
    return preparer.join([preparer.read(Chunk(0, rows, range(1, n + 1), names))])


def reasons(batch: PreparedBatch) -> dict[int, str]:
    return {origin.place: bad.reason for origin, bad in batch.bad}


class TestDocuments:
    LAYOUT = Layout("topics")

    @pytest.mark.parametrize(
        ("row", "names", "document"),
        [
            ("sea ship", None, "sea ship"),
            (["sea", "ship"], None, ["sea", "ship"]),
            ({"text": "sea", "more": 1}, None, "sea"),
            ({"tokens": ["sea"]}, None, ["sea"]),
            ({"text": "sea", "tokens": ["ship"]}, None, "sea"),
            ({"text": "", "more": 1}, None, ""),
            (["3", "sea"], ("id", "text"), "sea"),
        ],
    )
    def test_texts_and_lists_of_words(self, row: Any, names: Any, document: Any) -> None:
        found = prepared([row, row], self.LAYOUT, names)
        assert [document, document] == found.X
        assert found.layout.form == "documents"
        assert found.y is None

    @pytest.mark.parametrize("row", [{"title": "x"}, {"text": 3}, {"tokens": ["a", 1]}, 7, None])
    def test_others_are_set_aside(self, row: Any) -> None:
        found = prepared(["sea", row, "ship"], self.LAYOUT)
        assert found.X == ["sea", "ship"]
        assert list(reasons(found)) == [2]
        assert "no text in the field 'text' and no list of words in 'tokens'" in reasons(found)[2]

    def test_the_reason_names_the_fields_that_there_are(self) -> None:
        found = prepared(["sea", {"title": "x", "body": "y"}], self.LAYOUT)
        assert reasons(found)[2].endswith("choose it with option 'text': title, body")

    def test_another_field(self) -> None:
        found = prepared([{"body": "sea"}], Layout("topics", text="body"))
        assert found.X == ["sea"]

    def test_tables_of_counts_stay_sparse(self) -> None:
        counts = sparse.csr_array(np.eye(3))
        found = prepared(counts, self.LAYOUT)
        assert sparse.issparse(found.X)
        assert (counts != found.X).nnz == 0


class TestPoints:
    LAYOUT = Layout("clumped")

    def test_lists_of_points(self) -> None:
        found = prepared([[[1, 2], [3, 4]], {"points": [[5, 6]]}], self.LAYOUT)
        assert [points.tolist() for points in found.X] == [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]

    @pytest.mark.parametrize(
        "row",
        [{"points": []}, {"points": [1, 2]}, {"points": [[1], [2, 3]]}, {"points": "x"},
         {"points": [["a", "b"]]}, {"points": [[{}]]},
         {"points": [[float("nan"), 1.0]]}, {"points": [[1.0, None]]}, {"other": 1}],
        ids=json.dumps,
    )  # fmt: skip
    def test_others_are_set_aside(self, row: Any) -> None:
        found = prepared([{"points": [[1.0, 2.0]]}, row], self.LAYOUT)
        assert len(found) == 1
        assert "points" in reasons(found)[2]

    def test_images_are_points_and_broken_ones_are_bad(self, tmp_path: Any) -> None:
        Image.fromarray(np.full((8, 6, 3), 200, np.uint8)).save(tmp_path / "a.png")
        (tmp_path / "b.png").write_bytes(b"no image")
        files = [ImageFile(str(tmp_path / name)) for name in ("a.png", "b.png", "none.png")]
        found = prepared(files, Layout("clumped", image_side=4))
        (points,) = found.X
        assert len(points) == 4 * 3
        assert sorted(reasons(found)) == [2, 3]
        assert all("the image cannot be read" in text for text in reasons(found).values())

    @pytest.mark.parametrize(
        ("rows", "names"), [(np.eye(3), None), ([["1", "2"], ["3", "4"]], ("a", "b"))]
    )
    def test_rows_of_numbers_are_another_kind(self, rows: Any, names: Any) -> None:
        with pytest.raises(UsageError, match="For rows, use kind 'mixture'"):
            prepared(rows, self.LAYOUT, names)


class TestLabels:
    LAYOUT = Layout("classifier", classes=("p", "q"))
    ROWS: ClassVar = [
        {"text": "sea", "label": "p"},
        {"text": "ship"},
        {"text": "star", "label": "z"},
        {"text": "sky", "label": "q"},
        {"label": "p"},
    ]

    def test_a_record_without_one_or_with_another_is_set_aside(self) -> None:
        found = prepared(self.ROWS, self.LAYOUT)
        assert found.X == ["sea", "sky"]
        assert found.y is not None
        assert found.y.tolist() == ["p", "q"]
        assert sorted(reasons(found)) == [2, 3, 5]
        assert "unknown label 'z'" in reasons(found)[3]

    def test_predictions_need_none(self) -> None:
        found = prepared(self.ROWS, self.LAYOUT, labelled=False)
        assert found.y is None
        assert sorted(reasons(found)) == [5]


class TestOrder:
    def test_good_and_bad_records_together_are_the_stream(self) -> None:
        preparer = RecordPreparer(Layout("topics"), lambda _: False)
        chunks = [
            Chunk(1, ["a", None, "b"], [3, 4, 5]),
            Chunk(0, [None], [9]),
            Chunk(1, ["c"], [6]),
        ]
        found = preparer.join([preparer.read(chunk) for chunk in chunks])
        assert found.X == ["a", "b", "c"]
        assert list(found.origins) == [(1, 3), (1, 5), (1, 6)]
        assert [origin for origin, _ in found.bad] == [(1, 4), (0, 9)]
        assert list(found.order) == [(1, 3), (1, 4), (1, 5), (0, 9), (1, 6)]

    def test_only_bad_records_are_an_empty_batch(self) -> None:
        found = prepared([None, 3], Layout("topics"))
        assert len(found) == 0
        assert sorted(reasons(found)) == [1, 2]
