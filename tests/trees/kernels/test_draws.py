"""Draws of one document under all others, against the joint probability of every outcome."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.kernels.draws import stream_keys
from everlearn.trees.kernels.draws import add_informed, move_down, sweep, sweep_levels
from everlearn.trees.kernels.scores import Nodes, Priors, Tokens
from everlearn.trees.sampler import TreeSampler
from oracles import tree_gibbs
from trees.small_trees import ALPHA, N_WORDS, corpus, drawn, rules_of

GAMMA, WORD_PRIOR = 0.8, 0.4
N_DRAWS = 4000


def state_of(sampler: TreeSampler) -> tuple[Tokens, Nodes, Priors]:
    """A copy of what the kernels change."""
    tokens, nodes = sampler._tokens, sampler._nodes
    return (
        Tokens(tokens.starts, tokens.words, tokens.levels.copy(), tokens.paths.copy()),
        Nodes(*(a.copy() for a in nodes)),
        sampler._priors(),
    )


def ids_of(nodes: Nodes, path: np.ndarray) -> tuple[int, ...]:
    return tuple(nodes.ids[path].tolist())


def joint(sampler: TreeSampler, levels: list[np.ndarray], paths: list[tuple]) -> float:
    tokens = np.split(sampler._tokens.words, sampler._tokens.starts[1:-1])
    return float(tree_gibbs.log_joint(tokens, levels, paths, ALPHA, WORD_PRIOR, GAMMA, N_WORDS))


def assert_drawn(found: dict, logs: dict) -> None:
    """Frequencies are within five standard errors of the probabilities."""
    assert set(found) <= set(logs)
    whole = np.logaddexp.reduce([*logs.values()])
    for outcome, log_p in logs.items():
        p = np.exp(log_p - whole)
        error = np.sqrt(max(p * (1 - p), 1 / N_DRAWS) / N_DRAWS)
        assert abs(found.get(outcome, 0) / N_DRAWS - p) < 5 * error, outcome


@pytest.mark.parametrize("seed", [0, 1])
def test_a_path_is_drawn_from_its_conditional(seed: int) -> None:
    """Given the levels of its words: an old path, or a new one below any node."""
    sampler = drawn(corpus(seed, n=6, length=4), rules_of(), sweeps=3)
    tokens, nodes, _ = state_of(sampler)
    levels = np.split(tokens.levels.astype(int), tokens.starts[1:-1])
    paths = [ids_of(nodes, path) for path in tokens.paths]
    others = paths[1:]
    known = {path[:n] for path in others for n in (1, 2, 3)}
    logs = {}
    for prefix in known:
        path = prefix + ("new",) * (3 - len(prefix))
        logs[prefix] = joint(sampler, levels, [path, *others])
    found: dict = {}
    for clock in range(N_DRAWS):
        tokens, nodes, priors = state_of(sampler)
        keys = stream_keys(seed, clock, 0, 6)
        assert sweep(tokens, nodes, priors, keys, 0, 1, False, 50) == 1
        path = ids_of(nodes, tokens.paths[0])
        prefix = max((path[:n] for n in (1, 2, 3) if path[:n] in known), key=len)
        found[prefix] = found.get(prefix, 0) + 1
    assert len(found) > 2
    assert_drawn(found, logs)


def test_levels_have_their_law_in_the_long_run() -> None:
    """Three tokens of which two are equal, on a path that others share."""
    documents = [np.array([1, 1, 4]), *corpus(3, n=5, length=4)]
    sampler = drawn(documents, rules_of(), sweeps=3)
    tokens, nodes, priors = state_of(sampler)
    paths = [ids_of(nodes, path) for path in tokens.paths]
    rest = np.split(tokens.levels.astype(int), tokens.starts[1:-1])[1:]
    logs = {own: joint(sampler, [np.array(own), *rest], paths) for own in np.ndindex(3, 3, 3)}
    found: dict = {}
    rows = np.array([0])
    for clock in range(5 * N_DRAWS):
        sweep_levels(tokens, nodes, priors, stream_keys(0, clock, 2, 6), rows)
        if clock % 5 == 0:  # nearly independent draws
            own = tuple(tokens.levels[:3].tolist())
            found[own] = found.get(own, 0) + 1
    assert_drawn(found, logs)
    assert_array_equal(tokens.levels[3:], sampler._tokens.levels[3:])
    assert_array_equal(tokens.paths, sampler._tokens.paths)


def assert_counts_are_those_of_tokens(tokens: Tokens, nodes: Nodes) -> None:
    counts = np.zeros_like(nodes.counts)
    rows = np.repeat(np.arange(len(tokens.paths)), np.diff(tokens.starts))
    np.add.at(counts, (tokens.words, tokens.paths[rows, tokens.levels]), 1.0)
    assert_allclose(nodes.counts, counts, atol=1e-9)
    assert_allclose(nodes.totals, counts.sum(axis=0), atol=1e-9)
    assert_array_equal(nodes.mass, np.bincount(tokens.paths.ravel(), minlength=len(nodes.mass)))
    assert_array_equal(nodes.ids >= 0, nodes.mass > 0)


@pytest.mark.parametrize("draw", ["sweep", "new", "informed"])
def test_a_sweep_stops_where_there_is_no_room_and_goes_on_later(draw: str) -> None:
    sampler = drawn(corpus(0, n=8), rules_of(gamma=5.0), sweeps=2)
    tokens, nodes, priors = state_of(sampler)
    full = nodes.ids.copy()
    full[full < 0] = 10**6  # places that seem taken
    blocked = nodes._replace(ids=full)
    keys, before = stream_keys(0, 9, 0, 8), [a.copy() for a in (*tokens, *nodes)]
    if draw == "informed":
        stopped = add_informed(tokens, blocked, priors, keys, 3, 8, 50)
    else:
        stopped = sweep(tokens, blocked, priors, keys, 3, 8, draw == "new", 50)
    assert stopped == 3
    for old, now in zip(before, (*tokens, *nodes), strict=True):
        assert_array_equal(old, now)
    assert sweep(tokens, nodes, priors, keys, 3, 8, False, 50) == 8
    assert_counts_are_those_of_tokens(tokens, nodes)


def test_no_documents_and_documents_without_words() -> None:
    sampler = drawn([np.empty(0, int), np.array([1, 2]), np.empty(0, int)], rules_of())
    tokens, nodes, priors = state_of(sampler)
    assert sweep(tokens, nodes, priors, stream_keys(0, 0, 0, 3), 1, 1, False, 50) == 1
    assert_array_equal(tokens.paths, sampler._tokens.paths)
    assert_counts_are_those_of_tokens(tokens, nodes)
    assert (tokens.paths >= 0).all()


@pytest.mark.parametrize("level", [0, 1])
def test_words_of_two_levels_move_by_what_is_common(level: int) -> None:
    sampler = drawn(corpus(1, n=10), rules_of(), sweeps=2)
    tokens, nodes, _ = state_of(sampler)
    rows, common = np.array([0, 3, 4, 9]), np.array([True, False, True, False, False])
    move_down(tokens, nodes, rows, level, common)
    old = sampler._tokens.levels
    owner = np.repeat(np.arange(10), np.diff(tokens.starts))
    movable = np.isin(owner, rows) & np.isin(old, [level, level + 1])
    want = np.where(movable, np.where(common[tokens.words], level, level + 1), old)
    assert_array_equal(tokens.levels, want)
    assert (want != old).any()
    assert_counts_are_those_of_tokens(tokens, nodes)
