"""What sets components of a table apart, column by column."""

import re

import numpy as np
import pandas as pd
import pytest

from everlearn import DPMixture, OnlinePPCA
from everlearn.report import tables
from everlearn.report.tables import columns_section

RNG = np.random.default_rng(0)
KIND = RNG.integers(2, size=300)
FRAME = pd.DataFrame(
    {
        "<plan>": np.array(["free", "pro"])[KIND],
        "spend": np.where(KIND == 0, 5.0, 60.0) + RNG.normal(size=300),
        "noise": RNG.normal(size=300),
    }
)


@pytest.fixture(scope="module")
def model():
    model = DPMixture(random_state=0).fit(FRAME)
    assert model.n_components_ == 2
    return model


def cells_of(html):
    lines = html.split("<tbody>")[1].split("</tr>")[:-1]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]


def test_every_cell_is_a_profile_of_the_model(model):
    html = columns_section(model)
    largest = model.component_ids_[np.argsort(-model.weights_)].tolist()
    heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', html)
    assert heads == ["column", "learned as", "all rows", *(f"#{k}" for k in largest)]
    known = {(one.component, one.column): one for one in model.profiles()}
    for (column, kind, overall, *cells), name in zip(cells_of(html), FRAME, strict=True):
        assert column == name.replace("<", "&lt;").replace(">", "&gt;")
        assert kind.startswith("categories" if name == "<plan>" else "numbers")
        for component, cell in zip(largest, cells, strict=True):
            one = known[component, name]
            if name == "noise":
                assert cell == ""  # where a component is like all rows
            elif name == "spend":
                assert float(cell) == pytest.approx(one.level, rel=0.01)
                assert float(overall) == pytest.approx(FRAME["spend"].mean(), rel=0.01)
            else:
                assert cell == f"{one.value} {one.level:.0%} (all: {one.overall:.0%})"
                assert overall == ""


def test_only_the_largest_components_are_shown(model, monkeypatch):
    monkeypatch.setattr(tables, "_MOST_COMPONENTS", 1)
    html = columns_section(model)
    largest = model.component_ids_[model.weights_.argmax()]
    assert re.findall(r">#(\d+)<", html) == [str(largest)]


def test_models_of_other_records_have_no_such_table():
    X = FRAME[["spend", "noise"]].to_numpy()
    assert columns_section(DPMixture(random_state=0).fit(X)) == ""
    assert columns_section(OnlinePPCA(1).fit(X)) == ""
