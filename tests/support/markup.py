"""Reads a page as a strict browser would: what it fetches, and whether it is well built."""

import re
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
FETCHING = {
    "action",
    "background",
    "cite",
    "data",
    "formaction",
    "href",
    "manifest",
    "ping",
    "poster",
    "src",
    "srcset",
    "xlink:href",
}
LOADING = {"base", "embed", "iframe", "link", "object"}
IN_STYLE = re.compile(r"url\s*\(|@import|image-set\s*\(", re.IGNORECASE)


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src="https://example.org/x.png" onerror="alert(2)">',
    "</script><!-- & 'quoted' \u2028 --b",
)
"""Names that must stay names wherever they are shown."""


class Page(HTMLParser):
    """The elements of a page, its text, and everything that is wrong with its structure."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.fetched: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.declaration = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        self.problems += [f"<{tag}> is never closed" for tag in self._open]

    def handle_decl(self, decl: str) -> None:
        self.declaration = decl

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            self.problems.append(f"<{tag}> repeats an attribute")
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "script":
            self.scripts.append((found, ""))
        self.fetched += [f"<{tag}>"] if tag in LOADING else []
        for name, value in found.items():
            if name in FETCHING and not (value or "").startswith(("data:", "#")):
                self.fetched.append(f'<{tag} {name}="{value}">')
            if name == "style" and IN_STYLE.search(value or ""):
                self.fetched.append(f'<{tag} style="{value}">')
            if name.startswith("on"):
                self.problems.append(f"<{tag}> runs a script in {name}")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"</{tag}> closes something else")

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            attributes, text = self.scripts.pop()
            self.scripts.append((attributes, text + data))
        elif inside == "style":
            self.fetched += IN_STYLE.findall(data)
        else:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of every element of this name."""
        return [attributes for name, attributes in self.elements if name == tag]
