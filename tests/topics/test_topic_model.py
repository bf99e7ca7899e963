"""What users of every topic estimator rely on, and what `TopicModel` finds."""

import copy
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from everlearn.estimator.saving import load
from everlearn.testing.data import planted_topics
from everlearn.topics import predict as topic_predict
from everlearn.topics import steps as topic_steps
from everlearn.topics.state import numbered_by_size
from everlearn.topics.topic_model import TopicModel
from support.corpora import (
    BATCH,
    FITTED,
    LABELS,
    N_WORDS,
    PLANTED,
    TEXTS,
    TOKENS,
    VOCABULARY,
    X,
    assert_close,
    assert_same,
    content,
    fitted,
    made,
    model_of,
    targets_of,
    teach,
)
from support.streams import file_of

every = pytest.mark.parametrize("name", FITTED)


def outputs(model: Any, documents: Any = X) -> dict[str, np.ndarray]:
    """All that a model says about documents."""
    methods = ("transform", "predict", "decision_function", "predict_proba", "score_samples")
    return {m: getattr(model, m)(documents) for m in methods if hasattr(model, m)}


# The same documents, however they come


def numbered(model: Any) -> Any:
    """The model with topics that it found numbered as at the end of `fit`."""
    if model._grows():
        states = tuple(map(numbered_by_size, model._learned.states))
        model._learned = replace(model._learned, states=states)
    return model


@every
def test_fit_is_a_sequence_of_partial_fits(name: str) -> None:
    whole = content(fitted(name))
    for size in (BATCH, 2 * BATCH, len(LABELS)):
        parts = model_of(name)
        for start in range(0, len(LABELS), size):
            teach(parts, name, slice(start, start + size))
        if name.startswith("number"):  # measured by the first targets that come
            assert parts.intercept_ == pytest.approx(targets_of(name)[:size].mean())
            if size < len(LABELS):
                continue
        assert_same(whole, content(numbered(parts)))


@every
def test_a_batch_that_is_cut_is_another_one(name: str) -> None:
    """The test above could not fail if nothing depended on batches."""
    other = model_of(name)
    for where in (slice(0, BATCH // 2), slice(BATCH // 2, len(LABELS))):
        teach(other, name, where)
    assert (other.components_.shape != fitted(name).components_.shape) or (
        other.components_ != fitted(name).components_
    ).any()


@every
def test_loading_goes_on_as_if_it_had_never_stopped(name: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(X.toarray(), columns=VOCABULARY)
    model = teach(model_of(name), name, slice(0, 3 * BATCH), frame)
    model.save(tmp_path / "model.evl")
    loaded = load(tmp_path / "model.evl")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    assert file_of(loaded) == file_of(model)
    for other in (model, loaded):
        teach(other, name, slice(3 * BATCH, None), frame)
    assert file_of(model) == file_of(loaded)
    assert model.n_samples_seen_ == loaded.n_samples_seen_ == len(LABELS)
    found = outputs(loaded, frame)
    for method, values in outputs(model, frame).items():
        assert_close(values, found[method])


def test_another_process_goes_on_with_words_that_are_new(tmp_path: Path) -> None:
    name, path = "gibbs, words", tmp_path / "model.evl"
    model = teach(model_of(name), name, slice(0, 2 * BATCH), TEXTS)
    model.save(path)
    program = (
        "import sys; from support.corpora import *\n"
        "from everlearn.estimator.saving import load\n"
        "model = teach(load(sys.argv[1]), sys.argv[2], slice(2 * BATCH, None), TEXTS)\n"
        "model.save(sys.argv[1])"
    )
    paths = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]
    program = f"import sys; sys.path[:0] = {paths}\n{program}"
    subprocess.run([sys.executable, "-c", program, str(path), name], check=True)
    teach(model, name, slice(2 * BATCH, None), TEXTS)
    assert path.read_bytes() == file_of(model)


@every
def test_threads_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[int] = []
    even = topic_predict.even_runs

    def counted(bags: Any, n_parts: int) -> list[slice]:
        cuts.append(len(even(bags, n_parts)))
        return even(bags, n_parts)

    monkeypatch.setattr(topic_predict, "even_runs", counted)
    monkeypatch.setattr(topic_steps, "_FEWEST_TOKENS", 20)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(3)), raising=False)
    threads = fitted(name, engine="threads")
    shared = outputs(threads)
    assert max(cuts) == 3
    serial = fitted(name)
    assert_same(content(serial), content(threads))
    for method, values in outputs(serial).items():
        assert_close(values, shared[method])


@every
def test_one_seed_one_model(name: str) -> None:
    shuffled = fitted(name, shuffle=True)
    assert_same(content(shuffled), content(fitted(name, shuffle=True)))
    assert_same(content(shuffled), content(shuffled.fit(X, targets_of(name))))
    generators = [fitted(name, random_state=np.random.RandomState(7)) for _ in range(2)]
    assert_same(*map(content, generators))
    others = [fitted(name), fitted(name, shuffle=True, random_state=4), generators[0]]
    for other in others:
        assert file_of(other) != file_of(shuffled)
        assert not np.array_equal(learned_by(other), learned_by(shuffled))


def learned_by(model: Any) -> np.ndarray:
    """Topics and weights: all tokens may be in the topics of their classes, whatever the seed."""
    return np.concatenate([model.components_.ravel(), np.ravel(getattr(model, "coef_", []))])


@every
def test_documents_do_not_depend_on_their_neighbours(name: str) -> None:
    """Labels to the letter; numbers but for the last bits, since BLAS sums one row differently."""
    model = fitted(name)
    whole = outputs(model)
    for rows in ([17], [5, 5, 3], np.arange(100, 140)):
        for method, values in outputs(model, X[rows]).items():
            assert_close(values, whole[method][rows])


@every
def test_questions_change_nothing(name: str) -> None:
    model, documents = fitted(name), X.copy()
    before = file_of(model)
    y = targets_of(name)
    outputs(model, documents)
    model.score(documents, y)
    model.top_words(3)
    model.coherence(documents)
    model.components_[:] = -1.0
    model.component_ids_[:] = -1
    if hasattr(model, "coef_"):
        model.coef_[:] = np.nan
    if hasattr(model, "explain"):
        model.explain(documents[[0]])
    assert file_of(model) == before
    assert (documents != X).nnz == 0
    fresh = {key: value.copy() for key, value in outputs(model).items()}
    for method, values in outputs(model).items():
        values[:] = values[::-1]
        assert_close(outputs(model)[method], fresh[method])


@every
def test_a_checkpoint_is_a_picture_that_stays(name: str) -> None:
    model = teach(model_of(name), name, slice(0, 2 * BATCH))
    header, arrays = model.to_checkpoint()
    picture = copy.deepcopy(header), {key: array.copy() for key, array in arrays.items()}
    other = copy.deepcopy(model)
    teach(model, name, slice(2 * BATCH, None))
    assert header == picture[0]
    for key, array in arrays.items():
        np.testing.assert_array_equal(array, picture[1][key], err_msg=key)
    before = content(model)
    teach(other, name, slice(0, BATCH))
    assert_same(content(model), before)


@every
def test_a_clone_knows_nothing(name: str) -> None:
    assert not hasattr(clone(fitted(name)), "_learned")


# What is counted


@every
def test_tokens_are_counted(name: str) -> None:
    model = fitted(name, ghosts=3, n_passes=2)
    n_states = 4 if "ovr" in name else 1
    tokens = int(X.sum())
    assert model.n_samples_seen_ == 2 * len(LABELS)
    assert model.n_tokens_seen_ == 2 * tokens
    counts = model.components_ - model._current_settings().smoothing
    assert counts.sum() == pytest.approx(6 * tokens * n_states)
    assert model.components_.shape == (model.n_topics_, N_WORDS)
    np.testing.assert_allclose(counts.sum(axis=0), 6 * n_states * np.asarray(X.sum(axis=0)))
    np.testing.assert_allclose(model.topic_shares_, counts.sum(axis=1) / counts.sum(), atol=1e-12)
    assert model.topic_shares_.sum() == pytest.approx(1.0)
    assert model.n_components_ == model.n_topics_ == len(model.component_ids_)


@pytest.mark.parametrize("name", ["lda", "averaging", "gibbs", "number", "born"])
def test_passes_visit_the_documents_again(name: str) -> None:
    twice = model_of(name)
    for _ in range(2):
        teach(twice, name)
    assert_same(content(numbered(twice)), content(fitted(name, n_passes=2)))
    shuffled = fitted(name, n_passes=2, shuffle=True)
    assert shuffled.n_tokens_seen_ == twice.n_tokens_seen_
    assert not np.array_equal(shuffled.components_, fitted(name, n_passes=2).components_)


def test_a_young_model_finds_its_topics_with_many_sweeps_over_many_documents() -> None:
    X = planted_topics(600, 8, 200, 40, overlap=0.4, random_state=1).X

    def score(n: int) -> float:
        models = [
            TopicModel(n_topics=8, warmup_documents=n, batch_size=64, random_state=seed)
            for seed in range(5)
        ]
        return float(np.mean([model.fit(X[:400]).score(X[400:]) for model in models]))

    none, few, many = score(0), score(64), score(300)
    assert few > none + 0.05
    assert many > few + 0.05


@pytest.mark.parametrize(("n", "n_planted"), [(400, 4), (1200, 8)])
def test_no_topic_has_to_be_there_at_the_start_to_be_inferred(n: int, n_planted: int) -> None:
    """One topic at the start or many: about as many are found, which tell as much."""
    X = planted_topics(n + 300, n_planted, 320, 50, overlap=0.1, random_state=1).X
    models = [
        made(TopicModel, n_topics="infer", start_topics=k, random_state=0) for k in (1, 20, 150)
    ]
    sizes = [model.fit(X[:n]).n_topics_ for model in models]
    assert max(sizes[:2]) <= 1.25 * min(sizes[:2])
    assert min(sizes) >= n_planted
    assert max(sizes) <= 7 * n_planted
    scores = [model.perplexity(X[n:]) for model in models]
    assert max(scores) <= 1.05 * min(scores)
    few = TopicModel(n_topics=2, random_state=0).fit(X[:n])
    assert max(scores) < 0.8 * few.perplexity(X[n:])


@pytest.mark.parametrize("seed", range(3))
def test_any_start_of_a_stream_ends_with_about_as_many_topics(seed: int) -> None:
    """A batch of 64 offers fewer topics than the largest start, so that starts differ."""
    X = planted_topics(1600, 8, 320, 50, overlap=0.2, random_state=seed).X
    sizes, first = [], set()
    for start_topics in (5, 20, 60):
        model = made(TopicModel, n_topics="infer", start_topics=start_topics, random_state=seed)
        for begin in range(0, 1600, 64):
            model.partial_fit(X[begin : begin + 64])
            if begin == 0:
                first.add(model.n_topics_)
        sizes.append(model.n_topics_)
    assert len(first) > 1
    assert max(sizes) <= 1.25 * min(sizes)
    assert 8 <= min(sizes) <= 20


def test_a_small_limit_of_topics_is_the_start() -> None:
    X = planted_topics(200, 3, 60, 30, random_state=0).X
    assert TopicModel(n_topics="infer", max_topics=10, random_state=0).fit(X).n_topics_ <= 10
    assert TopicModel(n_topics=5, max_topics=2, random_state=0).fit(X).n_topics_ == 5


@every
def test_all_documents_at_once(name: str) -> None:
    whole = fitted(name, batch_size="all")
    grown = {"warmup_documents": 0} if "young" in name else {}
    assert_same(content(whole), content(fitted(name, batch_size=len(LABELS), **grown)))
    assert_same(content(whole), content(numbered(teach(model_of(name, batch_size="all"), name))))
    assert whole.to_checkpoint()[0]["learned"]["states"][0]["clock"] == 1


# Words


@pytest.mark.parametrize("name", ["lda", "hdp", "averaging", "gibbs, words", "ovr, words", "born"])
def test_texts_tokens_and_counts_say_the_same(name: str) -> None:
    y = targets_of(name)
    counts = model_of(name, vocabulary=VOCABULARY.tolist()).fit(X, y)
    tokens = model_of(name, vocabulary=VOCABULARY.tolist()).fit(TOKENS, y)
    texts = model_of(name, vocabulary=VOCABULARY.tolist()).fit(TEXTS, y)
    for other in (tokens, texts):
        for key, array in content(counts).arrays.items():
            np.testing.assert_array_equal(array, content(other).arrays[key])
        assert counts.top_words(3) == other.top_words(3)
    assert_close(tokens.transform(TEXTS), texts.transform(TOKENS))
    assert_close(tokens.transform(TEXTS), counts.transform(X))


@pytest.mark.parametrize("name", ["lda", "hdp", "averaging", "gibbs, words", "ovr, words", "born"])
def test_words_enter_when_they_come(name: str) -> None:
    model = model_of(name)
    late = [[*tokens, "late"] for tokens in TOKENS]
    teach(model, name, slice(0, BATCH), TOKENS)
    n_words = len(model.vocabulary_)
    assert "late" not in model.vocabulary_
    before = content(model).arrays["learned/states/0/counts"]
    teach(model, name, slice(BATCH, 2 * BATCH), late)
    assert "late" in model.vocabulary_
    assert model.vocabulary_[:n_words].tolist() == list(dict.fromkeys(chain(*TOKENS[:BATCH])))
    counts = content(model).arrays["learned/states/0/counts"]
    assert counts.shape[0] == len(model.vocabulary_) > n_words
    assert (counts[:n_words].sum(axis=1) >= before.sum(axis=1) - 1e-9).all()
    column = model.vocabulary_.tolist().index("late")
    assert counts[column].sum() == pytest.approx(BATCH)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("name", ["lda", "averaging, words"])
def test_a_vocabulary_has_a_limit(name: str) -> None:
    model = model_of(name, text={"max_features": 7})
    teach(model, name, slice(0, BATCH), TOKENS)
    teach(model, name, slice(BATCH, None), TOKENS)
    assert model.vocabulary_.tolist() == list(dict.fromkeys(TOKENS[0]))[:7]
    kept = sum(token in model.vocabulary_ for tokens in TOKENS for token in tokens)
    assert model.n_tokens_seen_ == kept
    assert model.components_.shape[1] == 7


def test_tables_keep_their_width() -> None:
    model = teach(model_of("lda"), "lda", slice(0, BATCH))
    for _ in range(2):
        model.partial_fit(X[:5])
    assert model.components_.shape[1] == model.n_features_in_ == N_WORDS
    with pytest.raises(
        ValueError, match=f"X has 59 features, but TopicModel is expecting {N_WORDS}"
    ):
        model.partial_fit(X[:, 1:])


def test_numbers_of_words() -> None:
    numbers = [np.repeat(np.arange(N_WORDS), row) for row in X.toarray()]
    model = teach(model_of("averaging"), "averaging", slice(0, BATCH), numbers)
    model.partial_fit([np.array([N_WORDS + 4])], ["ash"])
    assert model.vocabulary_.tolist() == list(range(N_WORDS + 5))
    assert model.components_[:, -1].sum() - 0.1 * model.n_topics_ == pytest.approx(1.0)
    np.testing.assert_array_equal(model.components_[:, N_WORDS : N_WORDS + 4], 0.1)
    with pytest.raises(ValueError, match="below 100000"):
        model.partial_fit([np.array([100_000])], ["ash"])


def test_stop_words_and_patterns() -> None:
    texts = ["The cats, the dogs", "a the one 22"]
    plain = TopicModel(n_topics=2, random_state=0).fit(texts)
    assert plain.vocabulary_.tolist() == ["the", "cats", "dogs", "one", "22"]
    english = TopicModel(n_topics=2, stop_words="english", random_state=0).fit(texts)
    assert english.vocabulary_.tolist() == ["cats", "dogs", "22"]
    own = TopicModel(
        n_topics=2, stop_words={"dogs"}, text={"token_pattern": "[a-z]+"}, random_state=0
    )
    assert own.fit(texts).vocabulary_.tolist() == ["the", "cats", "a", "one"]
    assert file_of(own) == file_of(copy.deepcopy(own))


@every
def test_documents_without_known_words_have_the_priors_proportions(name: str) -> None:
    model = teach(model_of(name), name, slice(None), TEXTS)
    odd = model.transform(["", "never heard of", "word00 zzz"])
    n_states = 4 if "ovr" in name else 1
    assert np.isfinite(odd).all()
    np.testing.assert_allclose(odd.sum(axis=1), n_states)
    np.testing.assert_array_equal(odd[0], odd[1])
    if model_of(name).get_params().get("n_topics", "infer") != "infer":
        np.testing.assert_allclose(odd[0], n_states / model.n_topics_)
    else:
        tables = content(model).arrays["learned/states/0/tables"]
        assert (np.diff(odd[0][np.argsort(-tables, kind="stable")]) <= 1e-12).all()
    assert (odd[2] != odd[0]).any()
    for method, values in outputs(model, ["", "never heard of"]).items():
        if values.dtype.kind == "f":
            assert np.isfinite(values).all(), method
    assert_close(model.transform(["zzz word00 word00"]), model.transform(["word00 word00"]))


@every
def test_empty_documents_teach_nothing(name: str) -> None:
    model = fitted(name)
    before = content(model)
    y = targets_of(name)
    model.partial_fit(np.zeros((3, N_WORDS)), None if y is None else y[:3])
    after = content(model)
    for key, array in before.arrays.items():
        np.testing.assert_array_equal(array, after.arrays[key], err_msg=key)
    assert model.n_samples_seen_ == len(LABELS) + 3
    assert model.n_tokens_seen_ == X.sum()


@every
def test_a_stream_may_begin_with_empty_documents(name: str) -> None:
    model, y = model_of(name), targets_of(name)
    first = {"classes": np.unique(LABELS)} if hasattr(model, "decision_function") else {}
    model.partial_fit(sparse.csr_array((5, N_WORDS)), None if y is None else y[:5], **first)
    assert model.n_tokens_seen_ == 0
    assert np.isfinite(model.transform(X[:3])).all()
    np.testing.assert_array_equal(model.topic_shares_, 0.0)
    teach(model, name)
    assert model.n_tokens_seen_ == X.sum()
    for values in outputs(model).values():
        assert values.dtype.kind != "f" or np.isfinite(values).all()


# What is refused


def test_the_form_of_documents_cannot_change() -> None:
    model = model_of("lda").fit(TEXTS)
    before = file_of(model)
    for other in (X, [np.array([1, 2]), np.array([1])]):
        with pytest.raises(ValueError, match="X of TopicModel was strings or lists of strings"):
            model.partial_fit(other)
        with pytest.raises(ValueError, match="X of TopicModel was strings or lists of strings"):
            model.transform(other)
    assert file_of(model) == before
    assert model.fit(X).n_features_in_ == N_WORDS
    assert not hasattr(model.fit(TEXTS), "n_features_in_")


# What is found


def test_planted_topics_are_found_again() -> None:
    """Cosine of at least 0.9 for every topic, on four of five seeds."""
    good = 0
    for seed in range(5):
        planted = planted_topics(500, 5, 100, 50, random_state=seed)
        model = TopicModel(
            n_topics=5, batch_size=16, n_passes=8, random_state=seed, engine="serial"
        ).fit(planted.X)
        phi = model.components_ / np.linalg.norm(model.components_, axis=1, keepdims=True)
        truth = planted.phi / np.linalg.norm(planted.phi, axis=1, keepdims=True)
        cosines = phi @ truth.T
        rows, columns = linear_sum_assignment(-cosines)
        good += cosines[rows, columns].min() > 0.9
        if seed == 0:  # the proportions go with the topics
            theta = model.transform(planted.X)[:, rows]
            assert np.abs(theta - planted.theta[:, columns]).mean() < 0.05
    assert good >= 4


def test_no_more_topics_than_allowed() -> None:
    settings = {"start_topics": 2, "concentration": 50.0, "stick_prior": 200.0}
    assert fitted("hdp", **settings).n_topics_ > 10
    assert fitted("hdp", **settings, max_topics=4).n_topics_ == 4
    with pytest.raises(ValueError, match=r"'start_topics' .* at most max_topics, which is 1"):
        fitted("hdp", **settings, max_topics=1)


def test_ids_are_permanent() -> None:
    model = model_of("hdp", start_topics=2, concentration=50.0, stick_prior=200.0)
    seen: dict[int, np.ndarray] = {}
    for start in range(0, len(LABELS), BATCH):
        teach(model, "hdp", slice(start, start + BATCH))
        rows = dict(zip(model.component_ids_.tolist(), model.components_, strict=True))
        assert len(rows) == model.n_topics_
        assert set(seen) <= set(rows)  # a topic with tokens stays
        for number, row in seen.items():
            assert (rows[number] >= row - 1e-9).all()  # and is the same topic
        seen = rows
    assert max(seen) >= model.n_topics_ > 10  # ids of topics that stayed empty are not used again
    names = [f"topic{i}" for i in model.component_ids_]
    assert model.get_feature_names_out().tolist() == names


def test_top_words() -> None:
    model = fitted("lda")
    top = model.top_words(4)
    order = np.argsort(-model.components_, axis=1, kind="stable")
    for n in (1, 4, N_WORDS - 1, N_WORDS):  # many words of a topic have no tokens: ties
        assert model.top_words(n, by="probability") == order[:, :n].tolist()
    for topic, words in enumerate(top):
        own = model.components_[topic]
        rest = model.components_.sum(axis=0) - own
        p, others = own / own.sum(), rest / rest.sum()
        scores = p * np.log(p / others)
        np.testing.assert_allclose(scores[words], np.sort(scores)[::-1][:4], rtol=1e-6)
    assert len(model.top_words()[0]) == 10
    assert len(model.top_words(1000)[0]) == N_WORDS
    frame = pd.DataFrame(X.toarray(), columns=VOCABULARY)
    assert model_of("lda").fit(frame).top_words(4) == [VOCABULARY[words].tolist() for words in top]
    for n in (0, -1, 1.5, "3"):
        with pytest.raises(ValueError, match=r"'n' parameter of TopicModel.top_words"):
            model.top_words(n)
    with pytest.raises(ValueError, match=r"'by' parameter of TopicModel.top_words"):
        model.top_words(by="size")
    for n in (1, None):
        with pytest.raises(ValueError, match=r"'n' parameter of TopicModel.coherence"):
            model.coherence(X, n=n)


def test_coherent_topics_are_told_from_random_ones() -> None:
    model = fitted("lda", n_topics=4, n_passes=5)
    found = model.coherence(X, n=5)
    assert found.shape == (4,)
    assert (np.abs(found) <= 1).all()
    mixed = fitted(
        "lda", n_topics=4, init="uniform", topic_word_prior=1e6
    )  # nothing is ever learned
    assert found.mean() > mixed.coherence(X, n=5).mean() + 0.1


def test_likelihood_of_words_not_shown() -> None:
    planted = planted_topics(700, 5, 100, 60, random_state=1)
    train, test = planted.X[:500], planted.X[500:]
    model = TopicModel(n_topics=5, n_passes=5, random_state=0, engine="serial").fit(train)
    single = TopicModel(n_topics=1, random_state=0, engine="serial").fit(train)
    assert model.perplexity(test) < 0.7 * single.perplexity(test)
    assert single.perplexity(test) < 100  # that of the uniform model over 100 words
    truth = -(planted.theta @ planted.phi * np.log(planted.theta @ planted.phi)).sum(axis=1)
    assert model.score(test) < -truth[500:].mean() + 0.1  # nobody knows more than the truth
    assert model.perplexity(test) == pytest.approx(np.exp(-model.score(test)))
    each = model.score_samples(test)
    lengths = np.asarray(test.sum(axis=1)) // 2
    assert (each < 0).all()
    assert model.score(test) == pytest.approx((each * lengths).sum() / lengths.sum())
    few = model.score_samples(np.eye(3, 100, dtype=int))
    np.testing.assert_array_equal(few, 0.0)


def test_a_model_of_one_word_and_one_topic() -> None:
    model = TopicModel(n_topics=1, random_state=0).fit([[4], [0], [1]])
    np.testing.assert_allclose(model.components_, [[5.02]])
    np.testing.assert_array_equal(model.transform([[0], [9]]), 1.0)
    assert model.perplexity([[4]]) == pytest.approx(1.0)


def test_progress_can_be_watched(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = fitted("hdp")
    assert capsys.readouterr().out == ""
    loud = fitted("hdp", verbose=1)
    assert str(len(LABELS)) in capsys.readouterr().out
    assert_same(content(quiet), content(loud))


def test_planted_documents_are_mixed_enough() -> None:
    """The corpus of these tests has every label in every batch, else they would show little."""
    for start in range(0, len(LABELS), BATCH):
        assert len(np.unique(LABELS[start : start + BATCH])) == 4
    assert PLANTED.documents.lengths.min() > 0


def test_fit_numbers_found_topics_from_zero_the_largest_first() -> None:
    model = TopicModel(n_topics="infer", warmup_documents=100, batch_size=50, random_state=0).fit(X)
    n = model.n_topics_
    assert model.component_ids_.tolist() == list(range(n))
    assert (np.diff(model.topic_shares_) <= 0).all()
    last = n - 1
    for start in range(0, X.shape[0], 60):
        model.partial_fit(X[start : start + 60])
        ids = model.component_ids_
        assert (np.diff(ids) > 0).all()  # columns stay in order of birth
        born = ids[ids > last]
        last = max(last, int(ids.max()))
        assert born.tolist() == sorted(born.tolist())


@pytest.mark.parametrize("name", ["born", "born, gibbs"])
def test_topics_of_classes_are_numbered_with_their_weights(name: str) -> None:
    model = model_of(name)
    model.fit(X, LABELS)
    assert model.component_ids_.tolist() == list(range(model.n_topics_))
    assert (np.diff(model.topic_shares_) <= 0).all()
    theta = model.transform(X[:30])
    np.testing.assert_allclose(model.decision_function(X[:30]), theta @ model.coef_.T, atol=1e-9)


def test_pairs_of_words_are_kept_in_files(tmp_path: Path) -> None:
    texts = ["new york is large", "the new old town", "york minster is old"] * 20
    model = TopicModel(n_topics=2, text={"ngram_range": (1, 2)}, random_state=0).fit(texts)
    assert "new york" in model.vocabulary_
    model.save(tmp_path / "model.evl")
    back = load(tmp_path / "model.evl")
    for one in (model, back):
        one.partial_fit(["minster in new york"])
    assert_same(content(model), content(back))
    assert "minster in" in back.vocabulary_


def test_data_frames_and_bytes_are_answered_with_what_to_do() -> None:
    frame = pd.DataFrame({"text": ["cats purr", "dogs bark"]})
    model = TopicModel(n_topics=2, random_state=0)
    with pytest.raises(ValueError, match=r"X is a data frame; pass one column: df\['text'\]"):
        model.fit(frame)
    with pytest.raises(ValueError, match="documents are bytes; decode them first"):
        model.fit([b"cats purr", b"dogs bark"])
    assert model.fit(frame["text"]).n_samples_seen_ == 2
