"""What a model has found, in a few words: parts, columns, numbers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from everlearn import (
    BayesianPassiveAggressiveClassifier,
    BayesianPassiveAggressiveRegressor,
    ComponentTree,
    DPMixture,
    OnlinePPCA,
    TopicModel,
)
from everlearn.estimator.tree_view import FittedTree, TreeNode
from everlearn.stream.summary import (
    Part,
    axis_parts,
    column_names,
    columns_of,
    facts_of,
    gaussian_parts,
    has_permanent_ids,
    memory_of,
    parts_of,
    scores_of,
    told_size,
    topic_parts,
    tree_of,
    tree_parts,
)

X = np.random.default_rng(0).normal(size=(60, 3)) * [9.0, 1.0, 0.1]


def model_of(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


class TestColumnNames:
    @pytest.mark.parametrize(
        ("own", "given", "names"),
        [
            (["a", "b"], ["c", "d"], ["a", "b"]),
            (None, ["c", "d"], ["c", "d"]),
            (None, None, ["x0", "x1"]),
            (None, ["c"], ["x0", "x1"]),  # names of other columns
            (None, ["7", "9"], ["x7", "x9"]),
            (None, ["7", "b"], ["7", "b"]),
        ],
    )
    def test_those_that_the_model_knows_come_first(self, own: Any, given: Any, names: Any) -> None:
        model = model_of() if own is None else model_of(feature_names_in_=np.array(own))
        assert column_names(model, given, 2) == names


class TestParts:
    def test_components_are_told_by_where_they_differ_most(self) -> None:
        means = np.array([[0.0, 5.0, 1.0], [0.0, 5.5, -1.0], [9.0, 5.0, 1.0]])
        model = model_of(
            means_=means, component_ids_=np.array([4, 2, 7]), weights_=np.array([0.2, 0.5, 0.3])
        )
        first, second, third = gaussian_parts(model, ["a", "b", "c"])
        assert [part.id for part in (first, second, third)] == [2, 7, 4]  # by share
        assert [part.share for part in (first, second, third)] == [0.5, 0.3, 0.2]
        assert second.about[0] == "a=9"
        assert set(first.about[:2]) == {"b=5.5", "c=-1"}

    def test_one_component_is_told_too(self) -> None:
        model = model_of(
            means_=np.array([[1234567.0, 0.5]]), component_ids_=np.array([0]), weights_=np.ones(1)
        )
        (part,) = gaussian_parts(model, None)
        assert set(part.about) == {"x0=1.235e+06", "x1=0.5"}

    def test_topics_of_equal_share_keep_their_order(self) -> None:
        model = model_of(
            component_ids_=np.array([5, 3]),
            topic_shares_=np.array([0.5, 0.5]),
            top_words=lambda n: np.array([["sea", "ship"], ["star", "sky"]])[:, :n],
        )
        assert topic_parts(model, None) == [
            Part(5, 0.5, ("sea", "ship")),
            Part(3, 0.5, ("star", "sky")),
        ]

    @pytest.mark.parametrize("mass", [8.0, 0.0])
    def test_shares_of_nodes_are_of_the_root(self, mass: float) -> None:
        nodes = (TreeNode(0, None, 0, mass), TreeNode(4, 0, 1, mass / 4, tuple("abcdefghij")))
        fake = model_of(tree_=FittedTree(nodes), checkpoint_key="topic-tree")
        root, leaf = tree_parts(fake, None)
        assert (root.share, leaf.share) == ((1.0, 0.25) if mass else (0.0, 0.0))
        assert (root.parent, leaf.parent) == (None, 0)
        assert leaf.about == tuple("abcdefgh")

    def test_axes_by_their_loadings_and_members_of_a_mixture_by_nothing(self) -> None:
        one = model_of(
            n_mixtures_=1,
            components_=np.array([[0.99, -0.1, 0.001]]),
            explained_variance_ratio_=np.array([0.75]),
        )
        assert axis_parts(one, ["a", "b", "c"]) == [Part(0, 0.75, ("a+0.99", "b-0.10"))]
        two = model_of(n_mixtures_=2, weights_=np.array([0.25, 0.75]))
        assert axis_parts(two, None) == [Part(0, 0.25), Part(1, 0.75)]


class TestScores:
    def test_two_classes_have_opposite_weights(self) -> None:
        model = BayesianPassiveAggressiveClassifier(random_state=0)
        model.fit(X / X.std(axis=0), np.where(X[:, 0] > 0, "p", "q"))
        scores = scores_of(model)
        assert scores is not None
        assert sorted(scores) == ["p", "q"]
        np.testing.assert_array_equal(scores["p"], -scores["q"])
        about = {part.speaks_for: part.about for part in parts_of(model, ["a", "b", "c"])}
        assert about["p"][0].startswith("a+")
        assert about["q"][0].startswith("a-")
        assert not has_permanent_ids(model)

    def test_three_classes_and_values(self) -> None:
        y = np.array(["p", "q", "r"])[np.arange(60) % 3]
        three = scores_of(BayesianPassiveAggressiveClassifier(random_state=0).fit(X, y))
        assert three is not None
        assert list(three) == ["p", "q", "r"]
        one = BayesianPassiveAggressiveRegressor(random_state=0).fit(X, X[:, 1])
        assert list(scores_of(one) or {}) == ["value"]
        both = BayesianPassiveAggressiveRegressor(random_state=0).fit(X, X[:, :2])
        assert list(scores_of(both) or {}) == ["value 0", "value 1"]

    def test_other_models_have_none(self) -> None:
        assert scores_of(OnlinePPCA(1).fit(X)) is None


class TestFacts:
    def test_a_mixture_of_rows(self) -> None:
        model = DPMixture(random_state=0).fit(X)
        assert facts_of(model) == {
            "components": model.n_components_,
            "rows seen": 60,
            "bound, nats": model.bound_,
        }
        assert has_permanent_ids(model)
        assert columns_of(model) == {}
        assert tree_of(model) is None
        assert memory_of(model) == model.memory_report()

    def test_a_model_of_documents(self) -> None:
        model = TopicModel(n_topics=2, random_state=0).fit([["a", "b"], ["c"]] * 9)
        facts = facts_of(model)
        assert facts["documents seen"] == 18
        assert facts["tokens seen"] == 27
        assert memory_of(model) == {}

    @pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
    def test_a_tree_of_rows_is_described_by_its_loadings(self) -> None:
        model = ComponentTree(max_nodes=4, max_iter=1, random_state=0).fit(X)
        tree = tree_of(model, ["a", "b", "c"])
        assert tree is not None
        assert [(n.id, n.parent, n.mass) for n in tree] == [
            (n.id, n.parent, n.mass) for n in model.tree_
        ]
        words = {word[0] for node in tree for word in node.words}
        assert words <= set("abc")
        assert "a" in words  # nine times as wide as the next
        assert [part.about for part in parts_of(model, ["a", "b", "c"])] == [n.words for n in tree]

    @pytest.mark.parametrize(
        ("name", "value", "text"),
        [("total", 1_500_000, "1.5 MB"), ("n_clumps", 1200, "1,200"), ("max_components", 7, "7")],
    )
    def test_sizes_are_bytes_or_counts(self, name: str, value: int, text: str) -> None:
        assert told_size(name, value) == text
