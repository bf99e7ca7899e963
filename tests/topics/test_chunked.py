"""A batch in chunks and the same batch in one piece: the same draws, sums to rounding."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.core.documents import Documents
from everlearn.engine.local import SerialEngine
from everlearn.topics.batches import Batch, Targets
from everlearn.topics.bayespa import learn_batch
from everlearn.topics.chunked import ChunkedBatch, learn_chunked_batch
from everlearn.topics.medlda import MedLDAClassifier
from everlearn.topics.objective import Objective
from support.corpora import LABELS, chunks_here
from support.corpora import X as COUNTS

N = 96


def both(loss, size=24, **rounds):
    """States and infos after a batch here, and after the same in chunks."""
    model = MedLDAClassifier(n_topics=6, loss=loss, random_state=0)
    model.fit(COUNTS[96:160], LABELS[96:160])
    documents, learned = Documents.from_csr(COUNTS[:N]), model._learned
    space, settings = learned.outputs, replace(model._current_settings(), **rounds)
    signs = np.where(LABELS[:N, None] == space.classes, 1, -1).astype(np.int8)
    targets = Targets(signs, np.ones(signs.shape))

    def copied():
        state = learned.states[0]
        return state.__class__(
            **{
                name: value.copy() if isinstance(value, np.ndarray) else value
                for name, value in ((f, getattr(state, f)) for f in state.__slots__)
            }
        )

    engine = SerialEngine()
    here = learn_batch(settings, copied(), Batch.of(documents, targets), engine)
    chunked = ChunkedBatch(chunks_here(documents, size), targets)
    return here, learn_chunked_batch(settings, copied(), chunked, engine)


@pytest.mark.parametrize("loss", ["averaging", "gibbs"])
@pytest.mark.parametrize(("n_rounds", "size"), [(1, 24), (2, 24), (2, 96), (2, 7)])
def test_agrees_with_the_learner_of_one_process(loss, n_rounds, size):
    (here, info), (far, told) = both(loss, size, n_rounds=n_rounds)
    assert_allclose(far.counts, here.counts, rtol=1e-9, atol=1e-9)
    assert_allclose(far.totals, here.totals, rtol=1e-9)
    assert_allclose(far.weights.mean, here.weights.mean, rtol=1e-7, atol=1e-9)
    assert_allclose(told.shares, info.shares, rtol=1e-9)
    assert (told.n_documents, told.n_tokens) == (info.n_documents, info.n_tokens)
    assert told.n_rounds == info.n_rounds == n_rounds


@pytest.mark.parametrize("loss", ["averaging", "gibbs"])
def test_rounds_are_watched_alike(loss, monkeypatch):
    values, value = [], Objective.value
    monkeypatch.setattr(
        Objective, "value", lambda *given: values.append(value(*given)) or values[-1]
    )
    infos = [info for _, info in both(loss, n_rounds=3, tol=1.0)]
    assert {(info.n_rounds, info.converged) for info in infos} == {(3, False)}
    assert_allclose(values[:3], values[3:], rtol=1e-9)
    assert len(set(values[:3])) == 3


@pytest.mark.parametrize("loss", ["averaging", "gibbs"])
def test_rounds_end_alike(loss):
    for _, info in both(loss, n_rounds=40, tol=1.0):
        assert (info.n_rounds, info.converged) == (20, True)
