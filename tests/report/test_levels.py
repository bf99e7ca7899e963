"""The section on levels of a clustering."""

from everlearn import DPMixture
from everlearn.report.levels import levels_section
from support.cluster_data import model_of, rows_of


def test_every_level_is_listed_and_the_default_is_marked() -> None:
    model = model_of().fit(rows_of(400))
    html = levels_section(model)
    assert html.count("<tr>") == len(model.levels_) + 1
    assert html.count(">default<") == 1
    assert model.levels_.why in html


def test_joins_are_counted() -> None:
    model = model_of(n_clusters=4).fit(rows_of(400))
    assert f"were joined: {len(model.levels_.joins)}." in levels_section(model)


def test_other_models_have_none() -> None:
    assert levels_section(DPMixture(random_state=0).fit(rows_of(60))) == ""
