"""Learners and streams for the tests of online EM of PPCA."""

import numpy as np

from everlearn.engine.opening import open_engine
from everlearn.engine.rows import Rows
from everlearn.ppca.natural_em import NaturalEM
from everlearn.ppca.state import PPCAState
from oracles import ppca as oracle

D, Q = 6, 2


def learner_of(constraint=None, kind=NaturalEM, **how):
    return kind(**{"rank": Q, "kept_rank": 2 * Q} | how, constraint=constraint)


def taught(learner, batches, state=None, tasks=False):
    with open_engine("serial") as engine:
        for X in batches:
            rows = Rows(X)
            state = PPCAState.blank(rows, learner.rank, 0) if state is None else state
            state = learner.step(state, rows, engine)
            state = learner.consolidate(state) if tasks else state
    return state


def batches_of(n=6, size=25, seed=0, gaps=0.0, scale=1.0):
    model = oracle.random_model(D, Q, seed)
    rng = np.random.default_rng(seed)
    X = model.draw(n * size, rng) * scale
    X[rng.random(X.shape) < gaps] = np.nan
    return np.split(X, n)


def score(state, X):
    return float(state.models[0].log_likelihood(X).mean())
