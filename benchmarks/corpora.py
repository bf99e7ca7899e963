"""Load the text collections of the reproductions, as counts and labels."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from benchmarks.table import ROOT

DATA = ROOT.parent / "shared" / "data"


@dataclass(frozen=True)
class Corpus:
    """Counts and labels of training and test documents; labels may be indicator matrices."""

    X: sparse.csr_matrix
    y: np.ndarray
    X_test: sparse.csr_matrix
    y_test: np.ndarray
    words: np.ndarray
    labels: list[str]


def _csr(file: np.lib.npyio.NpzFile, prefix: str = "") -> sparse.csr_matrix:
    indices = file[prefix + "indices"].astype(np.int32)
    values = file["data"] if not prefix else np.ones(len(indices))
    shape = tuple(file[prefix + "shape"])
    return sparse.csr_matrix((values, indices, file[prefix + "indptr"]), shape=shape)


@cache
def newsgroups() -> Corpus:
    """20 Newsgroups by date, Rennie's matrix, without English stop words and single letters."""
    home = DATA / "20newsgroups"
    words = np.array((home / "rennie_vocab.txt").read_text().split())
    parts = []
    for part in ("train", "test"):
        with np.load(home / f"rennie_bydate_{part}.npz") as file:
            parts.append((_csr(file), file["labels"]))
    (X, y), (X_test, y_test) = parts
    content = np.array([len(w) > 1 and w not in ENGLISH_STOP_WORDS for w in words])
    kept = np.flatnonzero(content & (np.asarray(X.sum(axis=0)).ravel() > 0))
    labels = (home / "label_names.txt").read_text().split()
    return Corpus(X[:, kept], y, X_test[:, kept], y_test, words[kept], labels)


def atheism_or_religion() -> Corpus:
    """The small binary set: alt.atheism against talk.religion.misc."""
    whole = newsgroups()
    pair = [whole.labels.index(name) for name in ("alt.atheism", "talk.religion.misc")]
    rows, test = np.isin(whole.y, pair), np.isin(whole.y_test, pair)
    return Corpus(
        whole.X[rows],
        whole.y[rows],
        whole.X_test[test],
        whole.y_test[test],
        whole.words,
        whole.labels,
    )


@cache
def reuters() -> Corpus:
    """Reuters-21578, ModApte split, the 90 topics with a training and a test story."""
    import pandas as pd

    frame = pd.read_parquet(DATA / "reuters21578" / "reuters21578.parquet")
    topics = (DATA / "reuters21578" / "topics90.txt").read_text().split()
    place = {topic: q for q, topic in enumerate(topics)}
    texts: dict[str, list[str]] = {"train": [], "test": []}
    labels: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    for row in frame.itertuples():
        known = [place[t] for t in row.topics if t in place]
        if row.modapte in texts and known:
            y = np.zeros(len(topics), np.int64)
            y[known] = 1
            texts[row.modapte].append(f"{row.title} {row.body}")
            labels[row.modapte].append(y)
    counter = CountVectorizer(
        stop_words="english", token_pattern=r"(?u)\b[a-zA-Z][a-zA-Z]+\b", min_df=2
    )
    X = counter.fit_transform(texts["train"])
    return Corpus(
        X,
        np.array(labels["train"]),
        counter.transform(texts["test"]),
        np.array(labels["test"]),
        counter.get_feature_names_out(),
        topics,
    )


@cache
def bibtex() -> Corpus:
    """BibSonomy entries and tags; a seeded split with the sizes of Mulan's."""
    with np.load(DATA / "multilabel" / "bibtex.npz") as file:
        X, Y = _csr(file), _csr(file, "label_").toarray().astype(np.int64)
        words, labels = file["features"], list(file["labels"])
    order = np.random.default_rng(0).permutation(X.shape[0])
    train, test = order[:4880], order[4880:]
    return Corpus(X[train], Y[train], X[test], Y[test], words, labels)


@dataclass(frozen=True)
class Stream:
    """Documents by date with several labels each."""

    X: sparse.csr_matrix
    Y: sparse.csr_matrix
    words: np.ndarray
    labels: list[str]


@cache
def arxiv() -> Stream:
    """200,000 abstracts by date, with all their categories."""
    home = DATA / "arxiv_abstracts"
    labels = (home / "categories.txt").read_text().split()
    with np.load(home / "arxiv_bow.npz") as file:
        X = _csr(file)
        indices = file["label_indices"].astype(np.int32)
        Y = sparse.csr_matrix(
            (np.ones(len(indices), np.int8), indices, file["label_indptr"]),
            shape=(X.shape[0], len(labels)),
        )
    return Stream(X, Y, np.array((home / "vocab.txt").read_text().split()), labels)
