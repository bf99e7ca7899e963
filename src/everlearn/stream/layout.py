"""How records are read for a model: which fields are columns, texts and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from everlearn.errors import CheckpointError, UsageError
from everlearn.io.dialects import Writing, checked_decimal
from everlearn.io.encodings import UTF8, checked_encoding
from everlearn.registry import Form
from everlearn.stream.kinds import KINDS, Kind, check_kind


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
    texts : names of the columns with text; None until they are known
    classes : all labels that records may have, in order; None for models without classes
    multilabel : whether a label is a list of classes
    image_side : largest side of an image in pixels; larger images are shrunk
    encoding : encoding of texts in files that are new
    decimal : decimal mark of numbers in texts; None if the first records of each file show it
    """

    kind: str
    batch: int = 256
    text: str = "text"
    label: str = "label"
    form: Form | None = None
    columns: tuple[str, ...] | None = None
    texts: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    multilabel: bool = False
    image_side: int = 64
    encoding: str = UTF8
    decimal: str | None = None

    @property
    def kind_of_model(self) -> Kind:
        """The kind of model itself."""
        return KINDS[self.kind]

    @property
    def writing(self) -> Writing:
        """How texts in new files are written."""
        return Writing(self.encoding, self.decimal)

    @property
    def supervised(self) -> bool:
        """Whether records need labels."""
        return self.kind_of_model.target is not None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        plain = asdict(self)
        for key in _LISTS:
            plain[key] = None if plain[key] is None else list(plain[key])
        return plain

    @classmethod
    def from_json(cls, data: Any) -> Layout:
        """Inverse of `to_json`; a CheckpointError if `data` is no layout."""
        if not isinstance(data, Mapping) or set(data) != set(cls.__dataclass_fields__):
            raise CheckpointError("the header's 'layout' must say how records are read")
        kind, form = data["kind"], data["form"]
        words = [data[key] for key in ("text", "label")]
        lists = {key: data[key] for key in _LISTS}
        sizes = [data[key] for key in ("batch", "image_side")]
        is_layout = (
            isinstance(kind, str)
            and kind in KINDS
            and (form is None or form in KINDS[kind].estimators)
            and all(isinstance(word, str) for word in words)
            and all(type(size) is int and size >= 1 for size in sizes)
            and type(data["multilabel"]) is bool
            and _is_encoding(data["encoding"])
            and data["decimal"] in (None, ".", ",")
            and all(
                names is None
                or (isinstance(names, list) and all(isinstance(n, str) for n in names))
                for names in lists.values()
            )
        )
        if not is_layout:
            raise CheckpointError("the header's 'layout' does not say how records are read")
        tuples = {key: None if names is None else tuple(names) for key, names in lists.items()}
        return cls(**{**data, **tuples})


_LISTS: Final = ("columns", "texts", "classes")
CHANGEABLE: Final = frozenset({"text", "encoding", "decimal"})
"""Options that may change from run to run, because sources differ in them."""
_OPTIONS: Final = (
    *("kind", "batch", "text", "label", "columns", "classes", "image_side"),
    *("encoding", "decimal"),
)
"""Fields of a layout that users may set; records show the others."""


def _is_encoding(name: Any) -> bool:
    try:
        return isinstance(name, str) and bool(checked_encoding(name))
    except UsageError:
        return False


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a layout as users give them; a UsageError names one that cannot be."""
    checked: dict[str, Any] = {}
    for name, value in options.items():
        option = name.replace("_", "-")
        if name not in _OPTIONS:
            raise UsageError(f"there is no option {option!r}; choose from {', '.join(_OPTIONS)}")
        if name in ("batch", "image_side"):
            if type(value) is not int or value < 1:
                raise UsageError(
                    f"option {option!r} must be an integer of at least 1, got {value!r}"
                )
        elif name in ("columns", "classes"):
            is_list = isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)
            if not is_list or not all(value) or len(set(value)) < len(value) or not value:
                raise UsageError(
                    f"option {option!r} must be a list of different names, got {value!r}"
                )
            value = tuple(value)
        elif not isinstance(value, str):
            raise UsageError(f"option {option!r} must be a text, got {value!r}")
        elif name == "kind":
            check_kind(value)
        elif name == "encoding":
            value = checked_encoding(value)
        elif name == "decimal":
            value = checked_decimal(value)
        checked[name] = value
    return checked
