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


def test_the_order_is_told_with_k_over_the_same_resamples(claims, four):
    (line,) = claims.order(four, 10)
    assert line.startswith("- CNN, Par-InGMM > diagonal Wishart > full, means over 2 resamples")
    assert "K = 8.0, 6.0, 3.0." in line
    assert "AMI 0.800, 0.500, 0.300: holds." in line
    four["CNN", 10, "full"] = [run(0.6, 2), run(0.6, 4)]
    assert "AMI 0.800, 0.500, 0.600: does not hold." in claims.order(four, 10)[0]
    assert claims.order(four, 102) == []


def test_the_fewest_clusters(claims, four):
    (line,) = claims.fewest(four, 10)
    said = "full 3.0, zero-mean 9.0, diagonal, Wishart 6.0, Par-InGMM 8.0"
    assert line == f"- CNN, full finds the fewest clusters: {said}: holds."
    four["CNN", 10, "diagonal, Wishart"] = [run(k=1), run(k=1)]
    assert claims.fewest(four, 10)[0].endswith("Par-InGMM 8.0: does not hold.")


def test_costs_are_for_the_components_that_laps_had(claims):
    """Both end with 4 components; the full family had them in every lap."""
    slow = run(cpu=2.4, trace=[(0.1, 4), (0.2, 4)])
    runs = runs_of(claims, full=[slow], Par_InGMM=[run(cpu=1.0)])
    (line,) = claims.costs(runs, 10)
    assert "500.0 ms of CPU a lap against 1200.0" in line
    assert "200.00 against 300.00 for each of the components that a lap has: holds." in line
    runs = runs_of(claims, full=[slow], Par_InGMM=[run(cpu=1.6)])
    assert claims.costs(runs, 10)[0].endswith("does not hold.")


def test_peers_are_compared_resample_by_resample(claims):
    ours = [run(0.9, 11), run(0.8, 12), run(0.7, 13), run(0.8, 12), run(0.8, 12)]
    kmeans = [run(score, 10) for score in (0.8, 0.8, 0.6, 0.7, 0.7)]
    runs = runs_of(claims, KMeans=kmeans)
    runs["CNN", 10, "diagonal, shared"] = ours
    runs["CNN", 10, "BayesianGaussianMixture, 2 K"] = [run(0.5, 20)] * 5
    (line,) = claims.against_peers(runs, 10)
    assert "our best mixture (diagonal, shared)" in line
    assert "0.800 with K = 12.0 against KMeans, true K 0.720 with K = 10.0" in line
    assert "(paired difference +0.0800, standard error 0.0200)" in line
    assert "2 K 0.500 with K = 20.0 (paired difference +0.3000, standard error 0.0316)" in line
    assert line.endswith(": holds.")
    runs["CNN", 10, "KMeans, true K"] = [run(0.9, 10)] * 5
    assert claims.against_peers(runs, 10)[0].endswith(": does not hold.")
    runs["CNN", 10, "KMeans, true K"] = kmeans[:4]
    assert claims.against_peers(runs, 10) == []


def test_steadiness_is_told_of_every_score_and_of_both_diagonal_models(claims):
    wild = [run(score) for score in (0.1, 0.3, 0.5, 0.7, 0.9)]
    calm = [run(score) for score in (0.5, 0.5, 0.5, 0.5, 0.6)]
    runs = runs_of(claims, full=wild, Par_InGMM=calm)
    (line,) = claims.steadiness(runs, 10)
    assert line.startswith("- CNN, Par-InGMM varies less than full over 5 resamples")
    assert [
        line.count(f"{title} 0.002 against 0.1, holds") for title in claims.SCORES.values()
    ] == [1] * 5
    runs["CNN", 10, "diagonal, Wishart"] = wild
    other = next(line for line in claims.steadiness(runs, 10) if "Wishart" in line)
    assert other.count("0.1 against 0.1, does not hold") == 5
    assert "K = 4.0 against 4.0, variances" in other
    runs["CNN", 10, "diagonal, Wishart"] = [run(0.1, k=1)] * 5
    other = next(line for line in claims.steadiness(runs, 10) if "Wishart" in line)
    assert other.endswith("5 resamples: it finds one cluster in each, so there is nothing to vary.")
    assert claims.steadiness(runs_of(claims, full=wild[:4], Par_InGMM=calm[:4]), 10) == []


def test_contact_sheets_have_the_curves_of_all_models(claims, monkeypatch, capsys):
    """They were drawn with the first page, when the slow models had not been run."""
    pytest.importorskip("matplotlib", reason="needs matplotlib, of everlearn[bench]")
    page = importlib.import_module("benchmarks.par_ingmm")
    done, drawn, written = set(), [], []

    def clustered(scene, model, told=False):
        done.add((scene, model, told))
        return run()

    spent = {"wall": 1.0, "cpu": 2.0}
    clustering = {"wall": 2.0, "cpu": 1.0}
    end = {"width": 5, "features": spent, "reduction": spent, "clustering": clustering, "K": 3}
    for name, value in {
        "DATA": ROOT,
        "clustered": clustered,
        "is_done": lambda scene, model, told=False: (scene, model, told) in done,
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
    assert len(equal.rows) == len(page.FEATURES) * len(page.TOLD)
    (beside,) = (table for table in tables if "beside the paper" in table.title)
    assert beside.rows[-5] == [
        "CNN", "Par-InGMM", "4.0",
        *(f"0.500 ({theirs})" for theirs in (".746", ".511", ".592", ".585", ".510")),
    ]  # fmt: skip
    assert beside.rows[-1][:4] == ["CNN, variance", "Par-InGMM", "0.0", "0 (.0011)"]
    (ends,) = (table for table in tables if "End to end" in table.title)
    assert ends.rows[0][-3:] == ["20.0%", "50.0%", "3"]  # by CPU time, and by the clock
