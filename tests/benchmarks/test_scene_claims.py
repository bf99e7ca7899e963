"""What the page of the scene experiment says of its runs, with runs made up for it."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def claims(monkeypatch):
    pytest.importorskip("pyarrow", reason="needs pyarrow, which comes with everlearn[bench]")
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.scene_claims")


def run(score=0.5, k=4, cpu=1.0, trace=((0.1, 1), (0.2, 4))):
    scores = dict.fromkeys(("purity", "completeness", "nmi", "v_measure", "ami"), score)
    return {
        **scores, "ami_arithmetic": score, "ari": score, "n_clusters": k, "cpu": cpu,
        "trace": list(trace), "measured": "a machine at 1234567",
    }  # fmt: skip


def runs_of(claims, **found):
    """Runs of CNN features of ten categories, by the first words of the names of models."""
    runs = {
        (features, size, model): []
        for features in claims.FEATURES
        for size in claims.SIZES
        for model in claims.MODELS
    }
    for name, known in found.items():
        (model,) = (m for m in claims.MODELS if m.replace("-", "_").split(",")[0] == name)
        runs["CNN", 10, model] = known
    return runs


@pytest.fixture
def four(claims):
    runs = runs_of(
        claims,
        full=[run(0.2, 2), run(0.4, 4)],
        zero_mean=[run(0.3, 9), run(0.3, 9)],
        Par_InGMM=[run(0.9, 8), run(0.7, 8), run(0.0, 99)],
    )
    runs["CNN", 10, "diagonal, Wishart"] = [run(0.5, 6), run(0.5, 6)]
    return runs


def cells(table):
    """The only row of a table, by its columns; columns of the same name have a list."""
    (row,) = table.rows
    found = {}
    for column, cell in zip(table.columns, row, strict=True):
        found.setdefault(column, []).append(cell)
    return {column: values[0] if len(values) == 1 else values for column, values in found.items()}


def test_the_order_has_k_over_the_same_resamples(claims, four):
    found = cells(claims.order(four, 10))
    assert found["features"] == "CNN"
    assert found["resamples"] == "2"
    assert found["K"] == "8.0, 6.0, 3.0"
    assert found["AMI"] == "0.800, 0.500, 0.300"
    assert found["holds"] == ["yes"] * 3
    four["CNN", 10, "full"] = [run(0.6, 2), run(0.6, 4)]
    found = cells(claims.order(four, 10))
    assert found["AMI"] == "0.800, 0.500, 0.600"
    assert found["holds"] == ["no"] * 3
    assert claims.order(four, 102).rows == []


def test_the_fewest_clusters(claims, four):
    table = claims.fewest(four, 10)
    assert table.columns[1:5] == ["K, full", "K, zero-mean", "K, diagonal, Wishart", "K, Par-InGMM"]
    assert table.rows == [["CNN", "3.0", "9.0", "6.0", "8.0", "yes"]]
    four["CNN", 10, "diagonal, Wishart"] = [run(k=1), run(k=1)]
    assert claims.fewest(four, 10).rows == [["CNN", "3.0", "9.0", "1.0", "8.0", "no"]]


def test_costs_are_for_the_components_that_laps_had(claims):
    """Both end with 4 components; the full family had them in every lap."""
    slow = run(cpu=2.4, trace=[(0.1, 4), (0.2, 4)])
    runs = runs_of(claims, full=[slow], Par_InGMM=[run(cpu=1.0)])
    table = claims.costs(runs, 10)
    assert table.rows == [["CNN", "Par-InGMM", "500.0", "1200.0", "200.00", "300.00", "yes"]]
    runs = runs_of(claims, full=[slow], Par_InGMM=[run(cpu=1.6)])
    assert cells(claims.costs(runs, 10))["holds"] == "no"


def test_peers_are_compared_resample_by_resample(claims):
    ours = [run(0.9, 11), run(0.8, 12), run(0.7, 13), run(0.8, 12), run(0.8, 12)]
    kmeans = [run(score, 10) for score in (0.8, 0.8, 0.6, 0.7, 0.7)]
    runs = runs_of(claims, KMeans=kmeans)
    runs["CNN", 10, "diagonal, shared"] = ours
    runs["CNN", 10, "BayesianGaussianMixture, 2 K"] = [run(0.5, 20)] * 5
    best = ["diagonal, shared", "0.800", "12.0"]
    assert claims.against_peers(runs, 10).rows == [
        [*best, "KMeans, true K", "0.720", "10.0", "+0.0800 ± 0.0200", "yes", "5"],
        [*best, "BayesianGaussianMixture, 2 K", "0.500", "20.0", "+0.3000 ± 0.0316", "yes", "5"],
    ]
    runs["CNN", 10, "KMeans, true K"] = [run(0.9, 10)] * 5
    verdicts = [row[-2] for row in claims.against_peers(runs, 10).rows]
    assert verdicts == ["no", "yes"]
    runs["CNN", 10, "KMeans, true K"] = kmeans[:4]
    assert claims.against_peers(runs, 10).rows == []


def test_steadiness_covers_every_score_and_both_diagonal_models(claims):
    wild = [run(score) for score in (0.1, 0.3, 0.5, 0.7, 0.9)]
    calm = [run(score) for score in (0.5, 0.5, 0.5, 0.5, 0.6)]
    runs = runs_of(claims, full=wild, Par_InGMM=calm)
    found = cells(claims.steadiness(runs, 10))
    assert (found["model"], found["resamples"]) == ("Par-InGMM", "5")
    assert [found[title] for title in claims.SCORES.values()] == ["0.002, 0.1: yes"] * 5
    runs["CNN", 10, "diagonal, Wishart"] = wild
    (other,) = (row for row in claims.steadiness(runs, 10).rows if "Wishart" in row[1])
    assert other[2:] == ["4.0", "4.0", *["0.1, 0.1: no"] * 5, "5"]
    runs["CNN", 10, "diagonal, Wishart"] = [run(0.1, k=1)] * 5
    (other,) = (row for row in claims.steadiness(runs, 10).rows if "Wishart" in row[1])
    assert other[2:] == ["1.0", "4.0", *"-----", "5"]
    assert claims.steadiness(runs_of(claims, full=wild[:4], Par_InGMM=calm[:4]), 10).rows == []


def test_claims_without_runs_have_no_table(claims, four):
    content = claims.claims(four)
    titles = [part.title for part in content if isinstance(part, claims.Table)]
    assert titles == [
        claim(four, 10).title for claim in (claims.order, claims.fewest, claims.costs)
    ]
    assert content[-1] == "### 102 categories\n"


def test_contact_sheets_have_the_curves_of_all_models(claims, monkeypatch, capsys):
    """They were drawn with the first page, when the slow models had not been run."""
    pytest.importorskip("matplotlib", reason="needs matplotlib, of everlearn[bench]")
    page = importlib.import_module("benchmarks.par_ingmm")
    done, drawn, written = set(), [], []

    def clustered(scene, model, true_k=False):
        done.add((scene, model, true_k))
        return run()

    spent = {"wall": 1.0, "cpu": 2.0}
    clustering = {"wall": 2.0, "cpu": 1.0}
    end = {"width": 5, "features": spent, "reduction": spent, "clustering": clustering, "K": 3}
    for name, value in {
        "DATA": ROOT,
        "clustered": clustered,
        "is_done": lambda scene, model, true_k=False: (scene, model, true_k) in done,
        "is_described": lambda name: False,
        "described": lambda name: {**end, "measured": "a machine at 1234567"},
        "staircases": lambda *given: None,
        "write_page": lambda name, head, content, measured: written.append(content),
        "write_sheets": lambda scene, model, growth, picture: drawn.append(list(growth)),
    }.items():
        monkeypatch.setattr(page, name, value)
    page.reproduce()
    assert drawn == [list(page.OURS)]
    said = capsys.readouterr().out.splitlines()
    assert said
    assert len(said) == len(set(said))  # rows are printed once, of the page that is complete
    tables = [part for part in written[-1] if isinstance(part, page.Table)]
    (equal,) = (table for table in tables if "equal K" in table.title)
    assert len(equal.rows) == len(page.FEATURES) * len(page.AT_TRUE_K)
    (beside,) = (table for table in tables if "beside the paper" in table.title)
    assert beside.rows[-5] == [
        "CNN", "Par-InGMM", "4.0",
        *(f"0.500 ({theirs})" for theirs in (".746", ".511", ".592", ".585", ".510")),
    ]  # fmt: skip
    assert beside.rows[-1][:4] == ["CNN, variance", "Par-InGMM", "0.0", "0 (.0011)"]
    (ends,) = (table for table in tables if "End to end" in table.title)
    assert ends.rows[0][-3:] == ["20.0%", "50.0%", "3"]  # by CPU time, and by the clock
