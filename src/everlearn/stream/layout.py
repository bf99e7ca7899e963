"""How records are read for a model: which fields are columns, texts and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from everlearn.errors import CheckpointError
from everlearn.registry import Form
from everlearn.stream.kinds import KINDS, Kind


@dataclass(frozen=True, slots=True)
class Layout:
    """How records are read for one model.

    Attributes
    ----------
    kind : name of the kind of model, one of `KINDS`
    batch : records of a batch
    text, label : names of the fields with the text and the label
    form : what a record is; None until the first record shows it
    columns : names of the columns of rows, in order; None until the first record shows them
    classes : all labels that records may have, in order; None for models without classes
    multilabel : whether a label is a list of classes
    image_side : largest side of an image in pixels; larger images are shrunk
    """

    kind: str
    batch: int = 256
    text: str = "text"
    label: str = "label"
    form: Form | None = None
    columns: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    multilabel: bool = False
    image_side: int = 64

    @property
    def kind_of_model(self) -> Kind:
        """The kind of model itself."""
        return KINDS[self.kind]

    @property
    def supervised(self) -> bool:
        """Whether records need labels."""
        return self.kind_of_model.target is not None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        plain = asdict(self)
        for key in ("columns", "classes"):
            plain[key] = None if plain[key] is None else list(plain[key])
        return plain

    @classmethod
    def from_json(cls, data: Any) -> Layout:
        """Inverse of `to_json`; a CheckpointError if `data` is no layout."""
        if not isinstance(data, Mapping) or set(data) != set(cls.__dataclass_fields__):
            raise CheckpointError("the header's 'layout' must say how records are read")
        kind, form = data["kind"], data["form"]
        words = [data[key] for key in ("text", "label")]
        lists = [data[key] for key in ("columns", "classes")]
        sizes = [data[key] for key in ("batch", "image_side")]
        is_layout = (
            isinstance(kind, str)
            and kind in KINDS
            and (form is None or form in KINDS[kind].estimators)
            and all(isinstance(word, str) for word in words)
            and all(type(size) is int and size >= 1 for size in sizes)
            and type(data["multilabel"]) is bool
            and all(
                names is None
                or (isinstance(names, list) and all(isinstance(n, str) for n in names))
                for names in lists
            )
        )
        if not is_layout:
            raise CheckpointError("the header's 'layout' does not say how records are read")
        columns, classes = (None if names is None else tuple(names) for names in lists)
        return cls(**{**data, "columns": columns, "classes": classes})
