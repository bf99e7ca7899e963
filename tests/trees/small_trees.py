"""Small trees, documents and settings for tests of topic trees."""

from typing import Any

import numpy as np

from everlearn.core.documents import Documents
from everlearn.core.priors.nested import NestedPrior
from everlearn.testing.data import planted_tree
from everlearn.trees.fit import sample_tree
from everlearn.trees.local import PathStep
from everlearn.trees.model import TreeRules, TreeTopics
from everlearn.trees.sampler import TreeSampler
from everlearn.trees.settings import TreeSettings
from oracles.trees import random_tree

N_WORDS = 5

ALPHA = np.array([3.0, 2.0, 1.0])
RULES = TreeRules(3, NestedPrior(0.7), 0.5, 100)
ALL_SLOTS = PathStep(99, 8)


def settings_of(rules: TreeRules = RULES, **values: Any) -> TreeSettings:
    return TreeSettings(**{"rules": rules, "first_levels": ALPHA, "step": PathStep()} | values)


def quiet(done: int, n_nodes: int) -> None:
    """Shows nothing."""


def random_topics(seed: int = 0, n_words: int = 7) -> TreeTopics:
    rng = np.random.default_rng(seed)
    tree = random_tree(seed, 5, 3)
    counts = rng.gamma(0.4, 8.0, (n_words, len(tree)))
    slots = rng.gamma(1.0, 2.0, len(tree))
    return TreeTopics(tree, counts, slots, ALPHA, int(tree.ids.max()) + 1)


def random_documents(seed: int, n: int = 9, n_words: int = 7) -> Documents:
    rng = np.random.default_rng(seed)
    return Documents.from_dense(rng.poisson(0.9, (n, n_words)))


def planted(seed: int = 0, n: int = 120) -> tuple[Documents, TreeTopics, TreeRules]:
    truth = planted_tree(seed, n_documents=n, n_tokens=40)
    documents = Documents.from_dense(truth.counts)
    rules = TreeRules(3, NestedPrior(1.0), 0.5, 100)
    start = TreeTopics.empty(truth.counts.shape[1], np.array([10.0, 5.0, 5.0]))
    settings = settings_of(rules, n_sweeps=5, merge=False)
    return documents, sample_tree(start, documents, settings, 1, quiet)[0], rules


def rules_of(word_prior: float = 0.4, gamma: float = 0.8, **more: object) -> TreeRules:
    return TreeRules(3, NestedPrior(gamma), word_prior, more.pop("max_nodes", 50), **more)


def corpus(seed: int = 0, n: int = 12, length: int = 6) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.sort(rng.integers(0, N_WORDS, length)) for _ in range(n)]


def drawn(tokens: list[np.ndarray], rules: TreeRules, sweeps: int = 5) -> TreeSampler:
    sampler = TreeSampler(TreeTopics.empty(N_WORDS, ALPHA), rules)
    sampler.add(Documents.from_tokens(tokens), 3, 0)
    for i in range(sweeps):
        sampler.sweep(3, i + 1)
    return sampler
