"""The page of clusters shows the right images, and needs no network."""

import re
from base64 import b64decode

import numpy as np
import pytest
from examples.contact_sheets import contact_sheets

from everlearn.images.files import read_image
from everlearn.mixture.estimator import DPMixture
from everlearn.report.study import Study, Truth
from support.browser import needs_browser, opened, widths
from support.markup import HOSTILE, Page
from support.pictures import colours, encoded

N = 40
IMAGES = [colours(20, 30, seed) for seed in range(N)]
GROWTH = {"diagonal": [(0.1, 1), (0.2, 3), (0.4, 2)], "full": [(0.5, 1), (2.0, 4)]}


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], N // 2)
    rows = rng.normal(size=(N, 2)) + 12.0 * truth[:, None]
    model = DPMixture(random_state=0).fit(rows)
    assert model.n_components_ == 2
    return Study(
        model=model, rows=rows, title="T", lead="L", noun="image",
        truth=Truth("scene", truth, ("beach", "wood")),
    )  # fmt: skip


NAMES = [f"file {i}" for i in range(N)]


def shown(html):
    """Positions of the images of the page, in its order."""
    found = []
    for data in re.findall(r'base64,([^"]+)"', html):
        pixels = read_image(b64decode(data)).astype(int)
        found.append(int(np.argmin([np.abs(pixels - image).mean() for image in IMAGES])))
    return found


def test_nearest_come_first_then_the_least_certain(study):
    html = contact_sheets(study, IMAGES, NAMES, n_examples=4)
    labels = study.model.predict(study.rows)
    expected = []
    probabilities = study.model.predict_proba(study.rows).max(axis=1)
    for k in np.argsort(-study.model.weights_, kind="stable"):
        members = np.flatnonzero(labels == k)
        distance = np.linalg.norm(study.rows[members] - study.model.means_[k], axis=1)
        nearest = members[np.argsort(distance, kind="stable")[:4]].tolist()
        doubtful = members[np.argsort(probabilities[members], kind="stable")[:4]]
        expected += nearest + [i for i in doubtful.tolist() if i not in nearest][:2]
    assert shown(html) == expected


def test_the_page_has_the_key_numbers(study):
    page = Page(contact_sheets(study, IMAGES, NAMES))
    for words in ("images40", "clusters2", "known classes2", "purity100.0%", "100% beach"):
        assert words in page.text
    alts = [a["alt"] for a in page.all("img")]
    assert all(re.fullmatch(r"file \d+, (beach|wood), certainty [01]\.\d\d", alt) for alt in alts)


def test_the_largest_are_shown_if_there_are_many(study):
    html = contact_sheets(study, IMAGES, NAMES, max_shown=1, n_examples=3)
    assert "The 1 largest of 2 clusters." in Page(html).text
    assert 3 <= len(shown(html)) <= 4


def test_names_and_classes_may_be_missing(study):
    alone = Study(model=study.model, rows=study.rows, title="T", lead="L", noun="image")
    page = Page(contact_sheets(alone, IMAGES))
    assert "purity" not in page.text
    assert page.all("img")[0]["alt"].startswith("image ")


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_names_stay_text(study, words):
    html = contact_sheets(study, IMAGES, [words] * N, n_examples=1)
    assert words not in html
    assert words in Page(html).all("img")[0]["alt"]


@pytest.mark.parametrize("form", ["path", "text", "bytes"])
def test_images_may_be_files_of_which_those_shown_are_read(study, tmp_path, form):
    expected = shown(contact_sheets(study, IMAGES, NAMES, n_examples=2))
    for i in expected:  # the others are not there
        (tmp_path / f"{i}.png").write_bytes(encoded(IMAGES[i]))
    paths = [tmp_path / f"{i}.png" for i in range(N)]
    if form == "path":
        files = paths
    elif form == "text":
        files = [str(path) for path in paths]
    else:
        files = [path.read_bytes() if path.exists() else b"" for path in paths]
    assert shown(contact_sheets(study, files, n_examples=2)) == expected


def test_growth_has_a_curve_for_each_model(study):
    html = contact_sheets(study, IMAGES, NAMES, growth=GROWTH)
    chart = html[html.index('class="chart"') :]
    assert chart.count('class="line"') == 2
    for name, trace in GROWTH.items():
        assert name in chart
        assert f"{name} {trace[-1][1]}" in chart
    assert 'class="chart"' not in contact_sheets(study, IMAGES, NAMES)


def test_as_many_images_as_rows(study):
    with pytest.raises(ValueError, match="'images' must have one entry for each of the 40 rows"):
        contact_sheets(study, IMAGES[:3])


@needs_browser
def test_it_opens_without_a_network_and_fits_a_phone(study, tmp_path):
    path = tmp_path / "clusters.html"
    path.write_text(contact_sheets(study, IMAGES, growth=GROWTH), encoding="utf-8")
    dom, said = opened(path, tmp_path)
    assert not said
    assert dom.count("<img") > 16
    assert 'class="chart"' in dom
    needed, given = widths(path, tmp_path)
    assert needed <= given
