"""Write docs/file_format.md from the schemas: `python tools/file_format.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from everlearn.registry import ESTIMATORS
from everlearn.store.header import FORMAT_VERSION
from everlearn.store.schema import (
    Array,
    Converted,
    Many,
    OneOf,
    Optional,
    Record,
    Scalar,
    Schema,
    Table,
    inside,
)

PAGE = Path(__file__).parents[1] / "docs" / "file_format.md"
HEAD = f"""# What is in a model file?

A file `model.evl` is an uncompressed zip of `header.json` and one `.npy` member for each array.
Any zip tool and `numpy.load` can read it. Loading a file runs no code.

`header.json` holds the format version ({FORMAT_VERSION}), the version of everlearn, and a table of
the members with dtype, shape and SHA-256. Under `model` it holds:

| Entry | Content |
|---|---|
| `estimator` | the key of the class in `everlearn/registry.py` |
| `params` | the parameters of the constructor |
| `learned` | what was learned, see the tables below |
| `feature_names` | names of columns, or null |
| `stream` | in files of `everlearn learn`: how far each source is learned, and its fields |

How to read the tables:

- Arrays are members of the zip. Everything else is in the header.
- `*` stands for the number of an entry in a list.
- Names in shapes are sizes. All axes of one name in a file are equally long.
- `load` refuses a file that breaks a table or contradicts itself.

This page is written by `python tools/file_format.py` from the schemas of the code.
"""


def rows(schema: Schema, place: str, note: str = "") -> Iterator[tuple[str, str]]:
    """Every place of a schema and what is there."""
    if isinstance(schema, Optional):
        yield from rows(schema.schema, place, f"{note}, or null")
    elif isinstance(schema, Converted):
        yield from rows(schema.schema, place, note)
    elif isinstance(schema, Many):
        yield from rows(schema.each, inside(place, "*"), note)
    elif isinstance(schema, Table):
        yield from rows(schema.keys, inside(place, "keys"), note)
        yield from rows(schema.values, inside(place, "values"), note)
    elif isinstance(schema, OneOf):
        yield inside(place, "kind"), f"one of {', '.join(schema.kinds)}{note}"
        for name, (_, record) in schema.kinds.items():
            yield from rows(record, place, f" (kind {name})")
    elif isinstance(schema, Record):
        for name, part in schema.fields.items():
            yield from rows(part, inside(place, name), note)
    elif isinstance(schema, (Scalar, Array)):
        yield place, f"{schema}{note}"
    else:
        yield place, f"{type(schema).__doc__ or ''}".partition("\n")[0] + note


def page() -> str:
    """The whole page."""
    text = HEAD
    if missing := [f"`{e.name}`" for e in ESTIMATORS if not hasattr(e.estimator(), "_schema")]:
        text += f"\nNot in the tables yet: {', '.join(missing)}.\n"
    seen: dict[int, str] = {}
    for entry in ESTIMATORS:
        schema = getattr(entry.estimator(), "_schema", None)
        if schema is None:
            continue
        text += f"\n## `{entry.name}` (`{entry.key}`)\n\n"
        if id(schema) in seen:
            text += f"As `{seen[id(schema)]}`.\n"
            continue
        seen[id(schema)] = entry.name
        text += "| place | what |\n|---|---|\n"
        text += "".join(f"| `{place}` | {what} |\n" for place, what in rows(schema, "learned"))
    return text


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
