"""Pictures and verdicts of the BayesPA page, from made-up results."""

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

ROOT = Path(__file__).resolve().parents[2]
LOSSES = ("averaging", "gibbs")


@pytest.fixture
def part(monkeypatch):
    pytest.importorskip("pandas", reason="needs pandas, which comes with everlearn[bench]")
    pytest.importorskip("matplotlib", reason="needs matplotlib, which comes with everlearn[bench]")
    monkeypatch.syspath_prepend(ROOT)
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.fixture
def drawn(part, monkeypatch, tmp_path):
    """The folder that pictures go to, in which nothing is remembered of other runs."""
    monkeypatch.setattr(part("figures"), "IMAGES", tmp_path)
    return tmp_path


def made_up(name, make, seed=0, data=None):
    cpu = 0.5 + sum(map(ord, name)) % 7  # any that differ
    return {"accuracy": 0.8 + 0.001 * seed, "cpu": cpu, "topics": 20, "measured": "here at 1"}


def small_corpus():
    X, y = sparse.csr_matrix(np.ones((8, 3))), np.arange(8) % 2
    return SimpleNamespace(X=X, y=y, X_test=X, y_test=y, words=None, labels=None)


def remembering(results):
    def remembered(paper, name, run):
        return {**results[name], "measured": "here at 1"}

    return remembered


class TestPictures:
    @pytest.fixture
    def pages(self, part, monkeypatch):
        pages = part("bayespa_figures")
        monkeypatch.setattr(pages, "run", made_up)
        monkeypatch.setattr(pages, "summary", lambda *given: ([0.8, 0.81], 0.5, [20]))
        monkeypatch.setattr(pages, "lda_and_svm", lambda k: made_up("svm", None))
        return pages

    @pytest.mark.parametrize(
        ("table", "picture"),
        [
            ("numbers_of_topics", "bayespa_topics"),
            ("batch_sizes", "bayespa_batches"),
            ("rounds_and_sweeps", "bayespa_rounds"),
            ("burn_ins", "bayespa_burn_ins"),
            ("training_times", "bayespa_times"),
            ("remedies", "bayespa_remedies"),
        ],
    )
    def test_every_table_has_one_and_links_to_it(self, pages, drawn, monkeypatch, table, picture):
        monkeypatch.setattr(pages, "atheism_or_religion", lambda: None)
        monkeypatch.setattr(pages, "newsgroups", small_corpus)
        found = getattr(pages, table)([])
        assert f"(../images/{picture}.png)" in found.markdown()
        assert (drawn / f"{picture}.png").stat().st_size > 5000

    def test_lines_are_the_rows(self, part):
        table = part("table").Table("t", ["loss", "I", "J", "CPU s"])
        for row in (("a", 1, 1, "0.1"), ("a", 1, 3, "0.3"), ("b", 1, 1, "0.2"), ("a", 2, 3, "9")):
            table.add(*row)
        found = part("bayespa_plots").lines(table, "loss", "J", "CPU s", {"I": "1"})
        assert found == {"a": ([1.0, 3.0], [0.1, 0.3]), "b": ([1.0], [0.2])}

    def test_classes_have_words_beside_them(self, pages, drawn, monkeypatch):
        import matplotlib.pyplot as plt

        rng = np.random.default_rng(0)
        result = {
            "rows": [["class 0", 9, 2, "0.3", "some, words"]],
            "proportions": [rng.dirichlet(np.ones(6), 3).tolist() for _ in range(3)],
            "marks": [9, 99, 999],
            "labels": ["class 0", "class 1", "class 2"],
            "words": ["some, words", "other, words", "no, more"],
        }
        texts = []
        save = pages.figures.save

        def kept(figure, name):
            figure.canvas.draw()
            texts.extend(text.get_text() for text in figure.findobj(plt.Text))
            save(figure, name)

        monkeypatch.setattr(pages.figures, "save", kept)
        monkeypatch.setattr(pages, "remembered", remembering({"class-topics-words": result}))
        pages.class_topics([])
        assert (drawn / "bayespa_classes.png").exists()
        assert set(result["words"]) <= set(texts)


class TestBatchModels:
    @staticmethod
    def batch(part, accuracy, ended=(40, 0.8121, 200.0), overtaken=None):
        batches = part("bayespa_batches")
        runs = [batches.Run(20, 0.78, 100.0)]
        online = batches.Run(1, accuracy, 0.4)
        return batches.Batch("plain", runs, batches.Run(*ended), online, overtaken)

    def test_level_and_ten_times_as_fast(self, part):
        batch = self.batch(part, 0.822)
        assert [batch.level(run) for run in (*batch.runs, batch.ended)] == [False, True]
        assert (batch.verdict(), batch.soonest()) == ("yes", "40 (500.0)")
        assert self.batch(part, 0.79).soonest() == "20 (250.0)"
        assert self.batch(part, 0.79).verdict() == "online is less accurate"

    def test_never_level(self, part):
        batch = self.batch(part, 0.823)
        assert (batch.verdict(), batch.soonest()) == ("batch is less accurate", "none")

    def test_overtaken_before_the_pass_ends(self, part):
        for cpu, told in ((0.2, "yes"), (20.1, "no")):
            batch = self.batch(part, 0.823, overtaken=(4096, cpu))
            expected = f"{told}: level after 4,096 documents ({200.0 / cpu:.1f})"
            assert batch.verdict() == expected

    def test_when_the_mean_of_the_seeds_is_as_accurate(self, part, monkeypatch):
        batches = part("bayespa_batches")
        curves = iter([([0.2, 0.5, 0.8], [1.0, 2.0, 9.0]), ([0.4, 0.7, 0.8], [1.5, 4.0, 9.0])] * 3)

        def remembered(paper, key, measure):
            accuracy, cpu = next(curves)
            return {"accuracy": accuracy, "cpu": cpu, "measured": "here at 1"}

        monkeypatch.setattr(batches, "remembered", remembered)
        monkeypatch.setattr(batches, "STEPS", (10, 20, 30))
        monkeypatch.setattr(batches, "BATCH_SEEDS", 2)
        assert batches._overtaken("a model", None, 0.3, []) == (10, 1.25)
        assert batches._overtaken("a model", None, 0.31, []) == (20, 3.0)
        assert batches._overtaken("a model", None, 0.81, []) is None

    def test_level_and_nearly_as_fast(self, part):
        assert self.batch(part, 0.822, ended=(40, 0.8121, 3.9)).verdict() == "no"

    @pytest.fixture
    def batches(self, part, monkeypatch):
        def run(name, make, seed):
            batch = name.startswith("batch")
            rounds = 7 if "ends" in name else 1
            accuracy, cpu = (0.8, 0.5) if batch else (0.82, 0.1)
            return {"rounds": rounds, "accuracy": accuracy, "cpu": cpu, "measured": "here at 1"}

        batches = part("bayespa_batches")
        monkeypatch.setattr(batches, "run", run)
        monkeypatch.setattr(
            batches, "_overtaken", lambda name, make, accuracy, _: (round(1000 * accuracy), 0.04)
        )
        return batches

    def test_both_tables_tell_of_every_model(self, batches):
        runs = batches.batch_models([])
        models = batches.BATCH_MODELS | batches.PAPER_MODELS
        assert len(runs.rows) == sum(len(rounds) for _, rounds in models.values())
        verdicts = batches.equal_accuracy([])
        assert [row[0] for row in verdicts.rows] == list(batches.BATCH_MODELS)
        told = {tuple(row[4:]) for row in verdicts.rows}
        verdict = "yes: level after 790 documents (12.5)"
        assert told == {("7", "0.5", "5.0", verdict, "none")}

    def test_counterparts_have_anchors_or_none(self, batches, monkeypatch):
        asked = {}

        def mean(name, make, *given):
            asked[name] = make()
            return batches.Run(1, 1.0, 1.0)

        monkeypatch.setattr(batches, "_mean", mean)
        batches._batches([])
        for name, model in asked.items():
            assert model.anchors == ("plain" not in name)
        assert asked["batch MedHDP Gibbs, plain, until it ends"].options.tol == 1e-4
        assert asked["batch MedHDP Gibbs, plain-20"].options.n_rounds == 20

    def test_online_and_batch_models_are_in_one_picture(self, batches, part, drawn, monkeypatch):
        curve = {"accuracy": [0.5, 0.6], "cpu": [0.1, 0.2], "measured": "here at 1"}
        monkeypatch.setattr(batches, "MARKS", (10, 20))
        monkeypatch.setattr(batches, "remembered", lambda *given: curve)
        monkeypatch.setattr(batches, "lda_and_svm", lambda k: made_up("svm", None))
        found = []
        monkeypatch.setattr(part("bayespa_plots"), "panels", lambda name, p: found.extend(p))
        table = batches.convergence([])
        assert [row[0] for row in table.rows] == list(batches.ONLINE)
        assert table.rows[0][1:] == ["0.500", "0.600", "0.20"]
        by_passes, by_time = (panel.lines for panel in found)
        plain = [f"batch {name}" for name in batches.ONLINE]
        assert list(by_passes) == [*batches.ONLINE, *plain, "LDA, then SVM"]
        assert by_passes["MedHDP Gibbs"] == ([0.5, 1.0], [0.5, 0.6])
        assert by_time["batch MedLDA averaging"] == ((0.5,) * 4, pytest.approx((0.8,) * 4))
        assert by_passes["batch MedLDA averaging"][0] == (1.0, 1.0, 1.0, 7.0)


class TestScale:
    @pytest.fixture
    def scale(self, part, monkeypatch):
        scale = part("bayespa_scale")
        monkeypatch.setattr(scale, "CHUNK", 40)
        monkeypatch.setattr(scale, "TEST", 80)
        return scale

    @pytest.fixture
    def documents(self, part):
        rng = np.random.default_rng(0)
        topic = rng.integers(3, size=800)
        X = rng.poisson(0.1 + 2.0 * (np.arange(30) // 10 == topic[:, None]))
        Y = np.column_stack([topic == 0, topic == 1, topic != 0]).astype(np.int8)
        words = np.array([f"w{i}" for i in range(30)])
        stream = part("corpora").Stream
        return stream(sparse.csr_matrix(X), sparse.csr_matrix(Y), words, list("abc"))

    def test_memory_is_that_after_each_call(self, scale, documents):
        found = scale.stream("MedLDA averaging", documents)
        assert len(found["resident"]) == 20
        assert found["micro"] > 0.9
        assert scale.scale_cells({**found, "resident": list(range(1, 21))})[2:] == ["2", "20", "20"]

    def test_the_svm_sees_nine_tenths(self, scale, documents):
        found = scale.svm(documents)
        assert found["micro"] > 0.9
        assert scale.scale_cells(found)[2:] == ["", "", ""]

    def test_more_labels_than_a_byte_can_number(self, part, scale):
        label = np.random.default_rng(0).integers(150, size=1200)
        X = sparse.csr_matrix(5 * np.eye(150, dtype=np.uint8)[label])
        Y = sparse.csr_matrix(np.eye(150, dtype=np.int8)[label])
        data = part("corpora").Stream(X, Y, np.arange(150).astype(str), [*map(str, range(150))])
        assert scale.svm(data)["micro"] > 0.9

    def test_a_run_of_its_own_process_says_what_is_wrong(self, part):
        with pytest.raises(RuntimeError, match="KeyError: 'nothing'"):
            part("own_process").in_own_process("benchmarks.bayespa_scale", "stream", name="nothing")
