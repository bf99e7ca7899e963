"""Docstrings of installed packages, and what the demo learns from them."""

import numpy as np

from everlearn.attic import app_docstrings as docstrings
from everlearn.attic import app_packages as packages
from everlearn.attic.app_report_packages import package_sections
from everlearn.trees.estimator import TopicTree

TWO = ("numpy", "sklearn")


def test_documents_are_labelled_and_do_not_give_their_label_away():
    corpus = docstrings.load(0, most=20, packages=TWO)
    assert len(corpus) == 40
    assert sorted(set(corpus.labels)) == list(TWO)
    for text, label, name in zip(corpus.texts, corpus.labels, corpus.names, strict=True):
        assert name.startswith(label + ".")
        assert label not in text.lower()
        assert len(text.split()) >= 20


def test_the_seed_says_which_and_in_which_order():
    first, again, other = (docstrings.load(seed, 10, TWO) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_package_that_is_not_there_is_left_out():
    assert set(docstrings.load(0, 5, ("numpy", "no_such_package")).labels) == {"numpy"}


def test_a_tree_and_a_classifier_learn_from_them():
    corpus = docstrings.load(0, most=60, packages=TWO)
    seen = []
    study = packages.learn(corpus, 0, lambda n, topics: seen.append((n, topics)))
    assert isinstance(study.tree, TopicTree)
    assert study.tree.n_samples_seen_ == 90 == seen[-1][0]
    assert study.table.sum() == 30
    assert study.accuracy > 0.7
    assert np.isclose(study.curve[-1][1], study.accuracy)
    tree, classifier = package_sections(study)
    assert 'data-chart="chart-tree"' in tree
    assert f"{study.accuracy:.0%}" in classifier
