"""The reader of pages finds what the other tests rely on it to find."""

import pytest

from support.markup import Page


@pytest.mark.parametrize(
    "source",
    [
        '<script src="https://example.org/x.js"></script>',
        '<img src="//example.org/x.png">',
        '<img srcset="x.png 2x">',
        '<link rel="stylesheet" href="style.css">',
        "<style>@import 'x.css';</style>",
        "<style>p { background: url(x.png) }</style>",
        '<p style="background: URL (x.png)"></p>',
        "<iframe></iframe>",
        '<a href="https://example.org">x</a>',
    ],
)
def test_fetching_is_noticed(source):
    assert Page(source).fetched


@pytest.mark.parametrize(
    "source", ["<p>", "<p></div>", "<b><i></b></i>", "</p>", '<p id="a" id="b"></p>']
)
def test_bad_structure_is_noticed(source):
    assert Page(source).problems


def test_good_page_passes():
    page = Page('<!DOCTYPE html><p>a &lt; b<br><img src="data:image/png;base64,AA" alt=""></p>')
    assert page.problems == []
    assert page.fetched == []
    assert page.text == "a < b"
    assert page.declaration == "DOCTYPE html"
