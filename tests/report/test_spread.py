"""Strips show where components lie."""

import re

import numpy as np
import pandas as pd
import pytest

from everlearn.mixture.estimator import DPMixture
from everlearn.report.spread import density_strips, mean_and_spread, standard_deviations


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 6))
    rows[150:, 4] += 20.0
    return rows


@pytest.mark.parametrize("family", ["diagonal", "full", "zero-mean"])
def test_spreads_are_standard_deviations(rows, family):
    model = DPMixture(family=family, random_state=0).fit(rows)
    wanted = [c if c.ndim == 1 else np.diag(c) for c in model.covariances_]
    np.testing.assert_allclose(standard_deviations(model) ** 2, wanted)


def test_counts_have_no_spread():
    counts = np.random.default_rng(0).poisson(2.0, (60, 5)).astype(float)
    model = DPMixture(family="multinomial", random_state=0).fit(counts)
    assert standard_deviations(model) is None
    assert density_strips(model, list("abcde")) == {}


def test_the_columns_that_set_a_component_apart_come_first(rows):
    model = DPMixture(random_state=0).fit(rows)
    assert model.n_components_ == 2
    for strips in density_strips(model, list("abcdef")).values():
        names = re.findall(r"<span>([a-f])</span>", strips)
        assert len(names) == 4
        assert names[0] == "e"


@pytest.mark.parametrize("spend", [True, False])
def test_only_numbers_of_a_table_have_strips(spend):
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], 100)
    table = pd.DataFrame(
        {"channel": np.array(["web", "shop"])[kind], "visits": rng.poisson(3, 200)}
    )
    if spend:
        table["spend"] = rng.normal(20.0 * kind, 1.0)
    model = DPMixture(random_state=0).fit(table)
    names = [
        re.findall(r"<span>(\w+)</span>", s) for s in density_strips(model, list(table)).values()
    ]
    assert names == ([["spend"]] * model.n_components_ if spend else [])


def test_the_largest_components_have_strips():
    """A page mean_and_spread thousands of components stays small."""

    class Many:
        means_ = np.random.default_rng(0).normal(size=(300, 40))
        covariances_ = np.ones((300, 40))
        weights_ = np.arange(300, dtype=float)
        component_ids_ = np.arange(1000, 1300)

    found = density_strips(Many(), [f"x{j}" for j in range(40)])
    assert sorted(found) == list(range(1240, 1300))
    assert sum(map(len, found.values())) < 300_000


def test_a_narrow_table_keeps_its_order(rows):
    model = DPMixture(random_state=0).fit(rows[:, 2:])
    for strips in density_strips(model, list("abcd")).values():
        assert re.findall(r"<span>([a-d])</span>", strips) == list("abcd")


@pytest.mark.parametrize(
    ("mean", "sd", "text"),
    [
        (-0.0001, 0.25, "0.00 ± 0.25"),
        (12.345, 1.25, "12.3 ± 1.2"),
        (98765.4, 1234.0, "98,800 ± 1,200"),
        (3.0, 0.0, "3 ± 0"),
        (1e-9, 2e-9, "1e−09 ± 2e−09"),
        (-5.5, 0.051, "−5.500 ± 0.051"),
    ],
)
def test_means_have_the_digits_of_their_spread(mean, sd, text):
    assert mean_and_spread(mean, sd) == text
