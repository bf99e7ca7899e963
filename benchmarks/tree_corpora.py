"""What the topic trees are measured with: corpora in folds, scores, and tomotopy's trees."""

import time
from collections.abc import Iterator

import numpy as np
import tomotopy
from scipy import sparse

from benchmarks.corpora import DATA
from everlearn.core.documents import Documents, split_documents
from everlearn.core.priors.nested import NestedPrior
from everlearn.core.tree import Tree
from everlearn.engine.opening import open_engine
from everlearn.trees.local import PathStep, held_out_likelihood, mean_table
from everlearn.trees.model import TreeTopics

FILES = {
    "JACM": "jacm/jacm_bow_df5.npz",
    "Psych. Review": "psychreview/psychreview_bow.npz",
    "AP": "ap/ap_bow.npz",
}
AP_DOCUMENTS = 1000
LEVELS = [50.0, 20.0, 10.0]
TOMOTOPY_SWEEPS = 500


def corpus(name: str) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Counts and words: words in at least five documents, documents of at least ten words."""
    with np.load(DATA / FILES[name]) as file:
        values = file["data"].astype(np.int64), file["indices"], file["indptr"]
        X = sparse.csr_matrix(values, shape=tuple(file["shape"]))
        words = file["vocab"]
    if name == "AP":
        X = X[:AP_DOCUMENTS]
    frequent = np.asarray((X > 0).sum(axis=0)).ravel() >= 5
    X, words = X[:, frequent], words[frequent]
    return X[np.asarray(X.sum(axis=1)).ravel() >= 10], words


def split(
    X: sparse.csr_matrix, fold: int, folds: int = 5
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Training and test documents of a fold."""
    order = np.random.default_rng(0).permutation(X.shape[0])
    test = np.sort(order[fold::folds])
    return X[np.setdiff1d(order, test)], X[test]


def scores(topics: TreeTopics, word_prior: float, X: sparse.csr_matrix) -> tuple[float, float]:
    """Log-likelihood per word of any tree: by completion, and as the paper scores."""
    whole = Documents.from_csr(X)
    seen, held_out = split_documents(whole, 0)
    paths, step = mean_table(topics, word_prior, NestedPrior(1.0)), PathStep(16, 30)
    with open_engine("serial") as engine:
        completed = held_out_likelihood(paths, seen, held_out, engine, step)
        same = held_out_likelihood(paths, whole, whole, engine, step)
    return completed.sum() / held_out.n_tokens, same.sum() / whole.n_tokens


def unigram(X: sparse.csr_matrix, X_test: sparse.csr_matrix) -> float:
    """Log-likelihood per word under the frequencies of words."""
    shares = np.asarray(X.sum(axis=0)).ravel() + 0.5
    return float((X_test @ np.log(shares / shares.sum())).sum() / X_test.sum())


def tomotopy_tree(X: sparse.csr_matrix, word_prior: float, seed: int) -> tuple[TreeTopics, float]:
    """The last tree of tomotopy's sampler, with its learned prior of levels, and CPU seconds."""
    model = tomotopy.HLDAModel(depth=3, alpha=LEVELS, eta=word_prior, gamma=1.0, seed=seed)
    documents = Documents.from_csr(X)
    for tokens in _tokens(documents):
        model.add_doc(tokens)
    began = time.process_time()
    model.train(TOMOTOPY_SWEEPS, workers=1)
    cpu = time.process_time() - began
    live = sorted((k for k in range(model.k) if model.is_live_topic(k)), key=model.level)
    place = {k: i for i, k in enumerate(live)}
    parents = [-1 if model.level(k) == 0 else place[model.parent_topic(k)] for k in live]
    words, totals = np.array([int(w) for w in model.used_vocabs]), model.get_count_by_topics()
    counts = np.zeros((X.shape[1], len(live)))
    for k, i in place.items():
        smoothed = np.asarray(model.get_topic_word_dist(k)) * (totals[k] + len(words) * word_prior)
        counts[words, i] = np.maximum(smoothed - word_prior, 0.0)
    tree = Tree(np.arange(len(live)), np.array(parents), 3)
    mass = np.array([float(model.num_docs_of_topic(k)) for k in live])
    slots = mass.copy()
    np.subtract.at(slots, tree.parents[1:], mass[1:])
    alpha = np.array(model.alpha, np.float64)
    found = TreeTopics(tree, counts, slots, alpha, len(live))
    return found.arranged(tree.sorted_by(mass)), cpu


def _tokens(documents: Documents) -> Iterator[list[str]]:
    for start, stop in zip(documents.indptr[:-1], documents.indptr[1:], strict=True):
        row = slice(start, stop)
        yield [str(w) for w in np.repeat(documents.words[row], documents.counts[row])]
