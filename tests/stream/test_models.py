"""The registry says truly what each estimator can tell, and names functions that exist."""

import inspect

import pytest

from everlearn.registry import ESTIMATORS, imported

ATTRIBUTES = {
    "components": {"component_ids_", "n_components_"},
    "bound": {"bound_", "history_"},
    "tree": {"tree_"},
    "tokens": {"n_tokens_seen_"},
    "points": {"n_points_seen_"},
    "memory": {"memory_report"},
    "levels": {"levels_", "cut"},
    "row_by_row": {"learns_row_by_row"},
    "batch_by_batch": {"partial_fit_each"},
    "class_topics": {"classes_", "component_ids_"},
    "scores": {"coef_", "coef_variance_"},
}
LEARNED_BY_STREAMS = [entry for entry in ESTIMATORS if entry.kind is not None]
every_entry = pytest.mark.parametrize(
    "entry", [*LEARNED_BY_STREAMS, *(e for e in ESTIMATORS if e.key == "medhdp-classifier")],
    ids=lambda entry: entry.name,
)  # fmt: skip


@every_entry
def test_an_estimator_has_a_trait_if_it_has_its_attributes(entry):
    kind = entry.estimator()
    has = {trait for trait, names in ATTRIBUTES.items() if all(hasattr(kind, n) for n in names)}
    assert has == set(entry.traits)


@every_entry
def test_parts_and_answers_are_functions_of_a_model(entry):
    assert list(inspect.signature(imported(entry.parts)).parameters) == ["model", "columns"]
    assert list(inspect.signature(imported(entry.answers)).parameters) == ["model", "X"]
