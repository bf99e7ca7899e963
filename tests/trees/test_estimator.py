"""`TopicTree`: planted trees found again, streams, words that grow, answers, files, refusals."""

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from conftest import REPOSITORY
from everlearn import load
from everlearn.testing.data import PlantedTree, planted_tree
from everlearn.trees.estimator import TopicTree
from everlearn.trees.settings import TreeOptions
from everlearn.trees.stream import PAST

OPTIONS = {field.name for field in fields(TreeOptions)}
TEXTS = ["the cat and the dog sleep", "the stock and the bond fall"] * 20
GO_ON = """
import sys
from everlearn import load
from trees.test_estimator import PLANTED

for path in sys.argv[1:]:
    load(path).partial_fit(PLANTED.counts[80:120]).save(path + ".end")
"""
PLANTED = planted_tree(0, n_documents=120, n_tokens=40)


def small(**params: Any) -> TopicTree:
    """A quick tree; parameters may also be options."""
    options = {"n_passes": 4} | {name: params.pop(name) for name in OPTIONS & params.keys()}
    return TopicTree(**{"n_sweeps": 10, "options": options, "random_state": 0} | params)


def content(model: TopicTree) -> tuple[Any, dict[str, bytes]]:
    header, arrays = model.to_checkpoint()
    return header, {key: array.tobytes() for key, array in arrays.items()}


def recovered(model: TopicTree, planted: PlantedTree) -> tuple[float, float]:
    """How well leaves and branches are found again."""
    labels = model.predict(planted.counts)
    branches = [[node.id for node in model.tree_.path(i)][:2][-1] for i in labels]
    return (
        adjusted_rand_score(planted.leaves, labels),
        adjusted_rand_score(planted.branches(1), branches),
    )


# ------------------------------------------------------------------ planted trees


@pytest.mark.parametrize("learning", ["batch", "stream"])
def test_a_planted_tree_is_found(learning: str) -> None:
    planted = planted_tree(1, n_documents=400)
    model = TopicTree(random_state=1, learning=learning).fit(planted.counts)
    leaves, branches = recovered(model, planted)
    assert leaves > 0.9
    assert branches > 0.9
    assert model.n_nodes_ <= 20


@pytest.mark.slow
@pytest.mark.parametrize("branching", [3, 4])
@pytest.mark.parametrize("learning", ["batch", "stream"])
def test_planted_trees_are_found_on_most_seeds(branching: int, learning: str) -> None:
    good = 0
    for seed in range(10):
        planted = planted_tree(
            seed, branching=branching, n_documents=400 if branching == 3 else 640
        )
        model = TopicTree(random_state=seed, learning=learning).fit(planted.counts)
        good += min(recovered(model, planted)) > 0.8
    assert good >= 8


def test_a_late_branch_is_grown_and_old_ones_keep_their_words() -> None:
    planted = planted_tree(3, n_documents=600)
    late = planted.branches(1) == planted.branches(1).max()
    model = TopicTree(random_state=0)
    for start in range(0, 400, 50):
        model.partial_fit(planted.counts[~late][start : start + 50])
    before = {node.id: set(node.words[:3]) for node in model.tree_ if node.mass > 20}
    known = model.n_nodes_
    old = model.score(planted.counts[~late][400:])
    model.partial_fit(planted.counts[late][:150])
    assert model.n_nodes_ > known
    new = model.predict(planted.counts[late][150:])
    assert not set(new.tolist()) & set(model.predict(planted.counts[~late]).tolist())
    assert model.score(planted.counts[~late][400:]) > old - 0.05
    kept = [before[node.id] == set(node.words[:3]) for node in model.tree_ if node.id in before]
    assert np.mean(kept) > 0.7


# ------------------------------------------------------------------ ways to learn


def test_memoized_with_one_batch_is_batch_learning() -> None:
    batch = small().fit(PLANTED.counts)
    memoized = small(learning="memoized", batch_size=120).fit(PLANTED.counts)
    assert content(batch)[1] == content(memoized)[1]


@pytest.mark.parametrize("how", [{}, {"learning": "stream"}])
def test_engines_give_the_same_bits(how: dict[str, Any]) -> None:
    found = [small(engine=e, **how).fit(PLANTED.counts) for e in (None, "serial", "threads")]
    assert content(found[0])[1] == content(found[1])[1] == content(found[2])[1]
    assert_array_equal(found[1].transform(PLANTED.counts), found[2].transform(PLANTED.counts))


@pytest.mark.parametrize(
    "how",
    [
        {"n_sweeps": 0},
        {"n_passes": 8},
        {"merge": False},
        {"level_prior": (5, 3, 2)},
        {"n_passes": 0},
        {"depth": 2},
        {"depth": 4},
        {"learning": "memoized", "batch_size": 50},
        {"n_candidates": 1},
    ],
    ids=str,
)
def test_every_way_learns(how: dict[str, Any]) -> None:
    model = small(**how).fit(PLANTED.counts)
    flat = np.log((PLANTED.counts.sum(axis=0) + 1) / (PLANTED.counts.sum() + 130))
    assert model.score(PLANTED.counts) > (PLANTED.counts @ flat).sum() / PLANTED.counts.sum()
    assert model.tree_.root.mass == pytest.approx(120)
    assert len(model.bound_history_) == model.options["n_passes"]
    if "level_prior" in how:
        assert_array_equal(model.level_prior_, how["level_prior"])


def test_counts_in_any_form_learn_the_same() -> None:
    dense = small().fit(PLANTED.counts)
    csr = small().fit(sparse.csr_array(PLANTED.counts))
    numbers = small().fit([np.repeat(np.arange(130), row) for row in PLANTED.counts])
    assert content(dense)[1] == content(csr)[1] == content(numbers)[1]


def test_words_may_come_later() -> None:
    model = small(batch_size=20).partial_fit(TEXTS)
    known = len(model.vocabulary_)
    model.partial_fit(["a violin and a cello play"] * 20)
    assert len(model.vocabulary_) == known + 3
    assert model.components_.shape[1] == known + 3
    assert any("violin" in node.words for node in model.tree_)


def test_fit_goes_on_as_a_stream() -> None:
    model = small().fit(PLANTED.counts[:80])
    model.partial_fit(PLANTED.counts[80:])
    assert model.n_samples_seen_ == 120
    assert model.n_tokens_seen_ == PLANTED.counts.sum()
    assert model.tree_.root.mass == pytest.approx(120)


# ------------------------------------------------------------------------ answers


def test_answers_fit_together() -> None:
    model = small().fit(PLANTED.counts)
    posterior = model.transform(PLANTED.counts[:20])
    n = model.n_nodes_
    assert posterior.shape == (20, n + 3) == (20, len(model.get_feature_names_out()))
    assert_allclose(posterior[:, :n].sum(axis=1), 1.0)
    assert_allclose(posterior[:, n:].sum(axis=1), 1.0)
    best = model.component_ids_[posterior[:, :n].argmax(axis=1)]
    assert_array_equal(model.predict(PLANTED.counts[:20]), best)
    scores = model.score_samples(PLANTED.counts[:20])
    assert model.score(PLANTED.counts[:20]) == pytest.approx(scores.mean(), abs=1e-9)
    assert model.score(PLANTED.counts, method="paper") > model.score(PLANTED.counts)
    assert model.score_samples(np.zeros((1, 130), int)) == 0.0


def test_the_tree_can_be_walked_and_drawn() -> None:
    networkx = pytest.importorskip("networkx")
    model = small(depth=2).fit(TEXTS)
    tree = model.tree_
    assert tree.root.words[0] == "the"
    assert len(tree) == model.n_nodes_ == model.n_components_
    assert_allclose(sum(node.mass for node in tree.children(tree.root.id)), 40, rtol=0.05)
    assert "the" in str(tree)
    graph = model.to_networkx()
    assert networkx.is_arborescence(graph)
    assert set(graph) == set(model.component_ids_.tolist())


def test_attributes_are_copies() -> None:
    model = small().fit(PLANTED.counts)
    before = content(model)
    model.component_ids_[:] = -1
    model.components_[:] = -1
    model.level_prior_[:] = -1
    assert content(model) == before


# -------------------------------------------------------------------------- files


def test_load_in_a_new_process_and_go_on(tmp_path: Path) -> None:
    models = {}
    for how in ({}, {"learning": "stream", "reservoir": 30, "batch_size": 20}):
        path = str(tmp_path / f"{len(models)}.evl")
        models[path] = small(**how).fit(PLANTED.counts[:80])
        models[path].save(path)
    paths = os.pathsep.join(str(REPOSITORY / name) for name in ("src", "tests"))
    subprocess.run(
        [sys.executable, "-c", GO_ON, *models],
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
    )
    for path, model in models.items():
        model.partial_fit(PLANTED.counts[80:120])
        assert content(load(path + ".end")) == content(model)


def test_all_kinds_of_words_are_kept(tmp_path: Path) -> None:
    for X in (TEXTS, [text.split() for text in TEXTS], PLANTED.counts):
        model = small().fit(X)
        model.save(tmp_path / "model.evl")
        again = load(tmp_path / "model.evl")
        assert content(again) == content(model)
        assert str(again.tree_) == str(model.tree_)


@pytest.mark.parametrize(
    "how",
    [
        {"n_sweeps": 0, "n_passes": 2, "topic_word_prior": 0.01, "min_mass": 0.0},
        {"min_mass": 0.0, "topic_word_prior": 0.001, "n_candidates": 1},
        {"level_prior": (1e-3, 1e-3, 1e-3)},
    ],
    ids=str,
)
def test_whatever_was_learned_can_be_loaded(how: dict[str, Any], tmp_path: Path) -> None:
    model = small(**how).fit(PLANTED.counts)
    assert min(node.mass for node in model.tree_) > 0.0
    model.save(tmp_path / "model.evl")
    again = load(tmp_path / "model.evl")
    assert content(again.partial_fit(PLANTED.counts)) == content(model.partial_fit(PLANTED.counts))


def test_a_level_prior_may_be_an_array(tmp_path: Path) -> None:
    given = np.array([5, 3, 2])
    model, same = (small(level_prior=p).partial_fit(TEXTS) for p in (given, [5.0, 3.0, 2.0]))
    assert content(model) == content(same)
    model.save(tmp_path / "model.evl")
    assert load(tmp_path / "model.evl").level_prior == [5, 3, 2]


def test_a_large_corpus_leaves_levels_of_some_documents_for_the_stream() -> None:
    X = np.random.default_rng(0).multinomial(4, np.full(12, 1 / 12), PAST + 50)
    model = small(n_sweeps=1, n_passes=1, depth=2).fit(X)
    past = model._learned.state.past
    assert past.shape == (PAST, 2)
    assert_allclose(past.sum(axis=1), 4.0)
    assert model.partial_fit(X[:20]).n_samples_seen_ == PAST + 70


@pytest.mark.parametrize("n_passes", [1, 2, 3, 6])
def test_small_branches_go_however_short_the_fit(n_passes: int) -> None:
    model = small(n_passes=n_passes, min_mass=1e6).fit(PLANTED.counts)
    assert len(model.tree_) == 1
    assert model.tree_.root.mass == pytest.approx(120)


# ------------------------------------------------------------------------ refusals

BAD_PARAMS = [
    ({"depth": 1}, "depth"),
    ({"concentration": 0.0}, "concentration"),
    ({"topic_word_prior": -1}, "topic_word_prior"),
    ({"level_prior": (1, 2)}, "level_prior"),
    ({"level_prior": (1, 2, 0)}, "level_prior"),
    ({"level_prior": "deep"}, "level_prior"),
    ({"level_prior": (1e-300, 1e-300, 1e-300)}, "level_prior"),
    ({"level_prior": None}, "level_prior"),
    ({"max_nodes": 2}, "max_nodes"),
    ({"learning": "online"}, "learning"),
    ({"n_sweeps": -1}, "n_sweeps"),
    ({"batch_size": 0}, "batch_size"),
    ({"reservoir": -1}, "reservoir"),
    ({"shuffle": None}, "shuffle"),
]


@pytest.mark.parametrize(("params", "name"), BAD_PARAMS, ids=str)
def test_bad_parameters_are_named(params: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' parameter of TopicTree"):
        small(**params).fit(TEXTS)


BAD_OPTIONS = [
    ({"n_passes": 1.5}, "n_passes"),
    ({"n_candidates": 0}, "n_candidates"),
    ({"merge": "split"}, "merge"),
    ({"min_mass": np.nan}, "min_mass"),
    ({"stream_sweeps": 0}, "stream_sweeps"),
]


@pytest.mark.parametrize(("options", "name"), BAD_OPTIONS, ids=str)
def test_bad_options_are_named(options: dict[str, Any], name: str) -> None:
    for given in (options, TreeOptions(**options)):
        with pytest.raises(ValueError, match=f"'{name}' parameter of TreeOptions of TopicTree"):
            TopicTree(options=given).fit(TEXTS)


@pytest.mark.parametrize(
    ("options", "words"),
    [(3, "must be TreeOptions, a mapping or None"), ({"sweeps": 2}, "has no entry 'sweeps'")],
    ids=str,
)
def test_options_must_be_options(options: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        TopicTree(options=options).fit(TEXTS)


def test_a_mapping_of_options_is_the_same(tmp_path: Path) -> None:
    models = [small(options=o) for o in ({"n_passes": 2}, TreeOptions(n_passes=2))]
    arrays = [content(model.fit(PLANTED.counts))[1] for model in models]
    assert arrays[0] == arrays[1] != content(small().fit(PLANTED.counts))[1]
    models[0].save(tmp_path / "model.evl")
    assert load(tmp_path / "model.evl").options == models[1].options


BAD_DOCUMENTS = [
    (np.array([[1.5] + [0.0] * 129]), "whole numbers"),
    (np.array([[-1.0] + [0.0] * 129]), "Negative values"),
    (np.array([[np.nan] + [0.0] * 129]), "NaN"),
    (None, "TopicTree"),
]


@pytest.mark.parametrize(("X", "words"), BAD_DOCUMENTS, ids=lambda v: str(v)[:20])
def test_a_refused_fit_or_prediction_changes_nothing(X: Any, words: str) -> None:
    model = small(batch_size=30, reservoir=20).partial_fit(PLANTED.counts[:60])
    before = content(model)
    for method in (model.fit, model.transform, model.predict, model.score):
        with pytest.raises((TypeError, ValueError), match=words):
            method(X)
        assert content(model) == before


@pytest.mark.parametrize(
    ("X", "other", "words"),
    [
        (PLANTED.counts, TEXTS, "was a table of counts in learning"),
        (TEXTS, PLANTED.counts, "was strings or lists of strings in learning"),
        ([np.array([0, 1]), np.array([2])], TEXTS, "was arrays of word numbers in learning"),
    ],
    ids=["counts", "texts", "numbers"],
)
def test_another_kind_of_documents_is_refused(X: Any, other: Any, words: str) -> None:
    model = small().partial_fit(X)
    before = content(model)
    for method in (model.partial_fit, model.transform, model.score):
        with pytest.raises(ValueError, match=words):
            method(other)
        assert content(model) == before


def test_answers_name_parameters_that_were_spoilt() -> None:
    model = small().fit(TEXTS).set_params(concentration="many")
    for answer in (model.predict, model.transform, model.score):
        with pytest.raises(ValueError, match="'concentration' parameter of TopicTree"):
            answer(TEXTS)


def test_depth_cannot_change_while_learning() -> None:
    model = small().fit(TEXTS).set_params(depth=4)
    with pytest.raises(ValueError, match="'depth' parameter of TopicTree was 3"):
        model.partial_fit(TEXTS)
    with pytest.raises(ValueError, match="'method' parameter of"):
        small().fit(TEXTS).score(TEXTS, method="half")


def test_words_of_all_nodes_describe_none() -> None:
    texts = ["sea ship ship", "sea fish fish", "sea wave wave"] * 60
    model = TopicTree(depth=2, level_prior=(1.0, 20.0), n_sweeps=10, random_state=0).fit(texts)
    counts = model.components_ - model.topic_word_prior
    distinct, likely = model.top_words(1), model.top_words(1, by="probability")
    names = model.vocabulary_.tolist()
    for node, (one, other) in enumerate(zip(distinct, likely, strict=True)):
        assert counts[node, names.index(other[0])] == counts[node].max()
        assert model.tree_.nodes[node].words[0] == one[0]
    assert {words[0] for words in distinct[1:]} <= {"ship", "fish", "wave"}
    with pytest.raises(ValueError, match=r"'by' parameter of TopicTree.top_words"):
        model.top_words(by="size")


# -------------------------------------------------------------------------- labels


@pytest.mark.parametrize("learning", ["batch", "memoized", "stream"])
def test_fit_numbers_nodes_from_zero_and_later_nodes_go_on(learning: str) -> None:
    model = small(learning=learning).fit(PLANTED.counts)
    tree, n = model.tree_, model.n_nodes_
    assert [node.id for node in tree] == model.component_ids_.tolist() == list(range(n))
    for node in tree:
        masses = [child.mass for child in tree.children(node.id)]
        assert masses == sorted(masses, reverse=True)
    before = {node.id: (node.parent, node.level) for node in tree}
    for seed in range(3):
        model.partial_fit(planted_tree(seed, n_documents=80, branching=3).counts)
        ids = model.component_ids_
        assert (np.diff(ids) > 0).all()
        fresh = {node.id: (node.parent, node.level) for node in model.tree_}
        assert all(fresh[i][1] == before[i][1] for i in before.keys() & fresh.keys())
        assert all(i > max(before) for i in fresh.keys() - before.keys())
        before |= fresh


def test_columns_keep_the_order_of_ids_when_masses_change() -> None:
    pets = ["the cat and the dog sleep", "the dog and the cat bark"]
    money = ["the stock and the bond fall", "the bond and the stock rise"]
    model = TopicTree(depth=2, n_sweeps=20, random_state=0).fit(pets * 30 + money * 20)
    old = model.predict(["cat dog", "bond stock"])
    assert old.tolist() == [1, 2]
    model.partial_fit(money * 60)  # the smaller branch is now the larger one
    assert model.predict(["cat dog", "bond stock"]).tolist() == [1, 2]
    ids, names = model.component_ids_.tolist(), model.get_feature_names_out().tolist()
    assert ids == sorted(ids)
    assert names[: len(ids)] == [f"path{i}" for i in ids]
    best = model.transform(["cat dog", "bond stock"])[:, : len(ids)].argmax(axis=1)
    assert [ids[k] for k in best] == old.tolist()
    for node in model.tree_:
        k = ids.index(node.id)
        assert list(node.words) == [str(word) for word in model.top_words(8)[k]]
        counts = model.components_[k] - model.topic_word_prior
        if node.words:
            assert counts[model.vocabulary_.tolist().index(node.words[0])] > 0
    masses = [model.tree_[i].mass for i in old]
    assert masses[1] > masses[0]
