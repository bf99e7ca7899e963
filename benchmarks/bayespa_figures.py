"""Figures 4 to 9 and tables 2 and 3 of the BayesPA paper: what each setting does to accuracy."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks import bayespa_plots as plots
from benchmarks import figures
from benchmarks.bayespa_batches import COLLAPSED, FREE, UNTIL_IT_ENDS
from benchmarks.bayespa_runs import (
    PLAIN,
    SEEDS,
    THEIR_TOPICS,
    lda_and_svm,
    model_of,
    run,
    span,
    summary,
)
from benchmarks.corpora import Corpus, atheism_or_religion, newsgroups
from benchmarks.remember import remembered
from benchmarks.table import Table
from everlearn import MedHDPClassifier, MedLDAClassifier


def numbers_of_topics(measured: list[str]) -> Table:
    """Figure 4: accuracy and time by the number of topics."""
    table = Table(
        "Number of topics (Figure 4)",
        ["model", "topics", "accuracy", "CPU s"],
        "Means of three seeds. Batch models have no anchors and train until a round lowers their "
        "objective by no more than a ten-thousandth, as above. The last rows are an SVM on LDA "
        "topics, which are learned without labels (one seed).\n\n"
        + plots.link("bayespa_topics", "Number of topics"),
    )
    batch = {**COLLAPSED, **FREE, **UNTIL_IT_ENDS}
    models = {
        "MedLDA averaging": ("topics-averaging", {}),
        "MedLDA Gibbs": ("topics-gibbs", {"loss": "gibbs"}),
        "batch MedLDA averaging": ("topics-batch-averaging", batch),
        "batch MedLDA Gibbs": ("topics-batch-gibbs", {**batch, "loss": "gibbs"}),
    }
    for name, (key, given) in models.items():
        for k in (20, 40, 80):
            values, cpu, _ = summary(
                f"{key}-{k}",
                partial(model_of, MedLDAClassifier, **{**given, "n_topics": k}),
                measured,
                3,
            )
            table.add(name, k, f"{np.mean(values):.4f}", f"{cpu:.2f}")
    for k in (20, 40, 80):
        table.add("LDA, then SVM", k, *cells(lda_and_svm(k), measured))
    plots.numbers_of_topics(table)
    return table


def cells(found: dict[str, Any], measured: list[str]) -> tuple[str, str]:
    """Accuracy and CPU seconds of a fit, whose place of measurement is noted."""
    measured.append(found["measured"])
    return f"{found['accuracy']:.4f}", f"{found['cpu']:.2f}"


def starting_topics(measured: list[str]) -> Table:
    """Topics and accuracy of MedHDP by the number of topics it starts with."""
    table = Table(
        "MedHDP from different starts",
        ["loss", "start topics", "topics found", "accuracy, mean of 3 seeds"],
        "`start_topics` hardly matters. A start with fewer topics than classes gets one topic for "
        "each class, so 5 and 20 are the same run; only 60 is another start.",
    )
    for loss in ("averaging", "gibbs"):
        for k in (5, 20, 60):
            make = partial(model_of, MedHDPClassifier, start_topics=k, loss=loss)
            values, _, topics = summary(f"start-{loss}-{k}", make, measured, 3)
            table.add(loss, k, span(topics), f"{np.mean(values):.4f}")
    return table


def batch_sizes(measured: list[str]) -> Table:
    """Figures 6 and 7: accuracy and time by the size of batches."""
    table = Table(
        "Batch sizes (Figures 6 and 7)",
        ["model", "batch size", "accuracy", "CPU s"],
        "Batch sizes are numbers of documents. MedLDA has 40 topics; one seed.\n\n"
        + plots.link("bayespa_batches", "Batch sizes"),
    )
    for model, given in ((MedLDAClassifier, {"n_topics": THEIR_TOPICS}), (MedHDPClassifier, {})):
        for loss in ("averaging", "gibbs"):
            for size in (1, 16, 64, 256, 512):
                make = partial(model, loss=loss, batch_size=size, **given)
                found = run(f"batch-{model.__name__}-{loss}-{size}", make, 0)
                table.add(f"{model.__name__}, {loss}", size, *cells(found, measured))
    plots.batch_sizes(table)
    return table


def rounds_and_sweeps(measured: list[str]) -> Table:
    """Figure 8: accuracy and time by rounds and sweeps."""
    table = Table(
        "Rounds I and sweeps J (Figure 8)",
        ["loss", "anchors", "rounds I", "sweeps J", "accuracy", "CPU s"],
        "MedLDA with 40 topics; one seed. Without anchors the averaging loss cannot use labels in "
        "the first round, as the paper says.\n\n"
        + plots.link("bayespa_rounds", "Rounds and sweeps"),
    )
    for loss, anchors in (("averaging", True), ("averaging", False), ("gibbs", True)):
        plain = {} if anchors else PLAIN
        for i, j in ((1, 1), (1, 3), (1, 6), (1, 12), (2, 3), (4, 3)):
            given = {"n_topics": THEIR_TOPICS, "loss": loss, "n_rounds": i, "n_sweeps": j}
            make = partial(model_of, MedLDAClassifier, **given, **plain)
            found = run(f"ij-{loss}-{anchors}-{i}-{j}", make, 0)
            table.add(loss, "yes" if anchors else "no", i, j, *cells(found, measured))
    plots.rounds_and_sweeps(table)
    return table


def burn_ins(measured: list[str]) -> Table:
    """Table 3: accuracy by sweeps and burn-in, beside the paper's."""
    table = Table(
        "Samples and burn-in (Table 3)",
        ["loss", "sweeps J", "burn-in sweeps", "accuracy, mean of 3 seeds", "accuracy, paper"],
        "MedLDA with 40 topics. Burn-in sweeps are dropped: their samples do not count.\n\n"
        + plots.link("bayespa_burn_ins", "Samples and burn-in"),
    )
    paper = {
        ("averaging", 1, 0): 0.802, ("averaging", 3, 0): 0.803, ("averaging", 3, 2): 0.803,
        ("averaging", 5, 0): 0.805, ("averaging", 5, 2): 0.805, ("averaging", 5, 4): 0.803,
        ("gibbs", 1, 0): 0.783, ("gibbs", 3, 0): 0.803, ("gibbs", 3, 2): 0.799,
        ("gibbs", 5, 0): 0.808, ("gibbs", 5, 2): 0.803, ("gibbs", 5, 4): 0.792,
    }  # fmt: skip
    for (loss, j, b), theirs in paper.items():
        given = {"n_topics": THEIR_TOPICS, "loss": loss, "n_sweeps": j, "burn_in": b}
        make = partial(model_of, MedLDAClassifier, **given)
        values, _, _ = summary(f"burn-{loss}-{j}-{b}", make, measured, 3)
        table.add(loss, j, b, f"{np.mean(values):.4f}", theirs)
    plots.burn_ins(table)
    return table


def training_times(measured: list[str]) -> Table:
    """CPU time by rounds, sweeps and documents; the paper says that it is linear in each."""
    table = Table(
        "Training time by rounds, sweeps and documents",
        ["loss", "varied", "value", "CPU s"],
        "MedLDA with 40 topics. Rounds vary with three sweeps, sweeps with one round. ",
    )
    whole = newsgroups()
    order = np.random.default_rng(1).permutation(whole.X.shape[0])
    shares = [
        Corpus(whole.X[r], whole.y[r], whole.X_test, whole.y_test, whole.words, whole.labels)
        for r in (order[: len(order) // share] for share in (4, 2, 1))
    ]
    straight = []
    for loss in ("averaging", "gibbs"):
        make = partial(model_of, MedLDAClassifier, n_topics=THEIR_TOPICS, loss=loss)
        runs = {
            "rounds I": [
                (i, run(f"ij-{loss}-True-{i}-3", partial(make, n_rounds=i, n_sweeps=3), 0))
                for i in (1, 2, 4)
            ],
            "sweeps J": [(j, run(f"ij-{loss}-True-1-{j}", partial(make, n_sweeps=j), 0))
                         for j in (1, 3, 6, 12)],
            "documents": [(part.X.shape[0], run(f"size-{loss}-{part.X.shape[0]}", make, 0, part))
                          for part in shares],
        }  # fmt: skip
        for what, found in runs.items():
            measured += [one["measured"] for _, one in found]
            for amount, one in found:
                table.add(loss, what, amount, f"{one['cpu']:.3f}")
            r = np.corrcoef([amount for amount, _ in found], [one["cpu"] for _, one in found])
            straight.append(float(r[0, 1]) ** 2)
    table.note += (
        "Time is linear in each, as the paper says: a straight line explains at least "
        f"{min(straight):.1%} of the variance.\n\n" + plots.link("bayespa_times", "Training times")
    )
    plots.training_times(table)
    return table


def remedies(measured: list[str]) -> Table:
    """Figure 9: many topics on a small set."""
    table = Table(
        "Many topics, few documents (Figure 9)",
        ["loss", "topics", "one pass", "five passes", "ten ghosts"],
        "Accuracy for alt.atheism against talk.religion.misc, mean of 5 seeds, with 856 training "
        "and 569 test documents. One pass loses accuracy as topics become many. Five passes, or "
        "ten ghosts (each document counts as ten copies), keep it.\n\n"
        + plots.link("bayespa_remedies", "Many topics, few documents"),
    )
    data = atheism_or_religion()
    ways: dict[str, dict[str, Any]] = {
        "one": {},
        "five": {"n_passes": 5},
        "ghosts": {"ghosts": 10},
    }
    for loss in ("averaging", "gibbs"):
        for k in (5, 10, 20, 40, 80):
            cells = []
            for name, way in ways.items():
                make = partial(model_of, MedLDAClassifier, loss=loss, n_topics=k, **way)
                key = f"small-{loss}-{k}-{name}"
                values, _, _ = summary(key, make, measured, SEEDS, data)
                cells.append(f"{np.mean(values):.3f}")
            table.add(loss, k, *cells)
    plots.remedies(table)
    return table


def class_topics(measured: list[str]) -> Table:
    """Table 2: average topic proportions of classes grow sparse along the pass."""
    table = Table(
        "Topics of classes (Table 2)",
        ["class", "documents seen", "topics above 10 %", "largest share", "its top words"],
        "Average topic proportions over the training documents of a class, for five of the 20 "
        "classes. MedLDA averaging with 40 topics. The picture shows all classes, with the top "
        "words of each class's largest topic at the end.\n\n"
        "![Average topic proportions](../images/bayespa_classes.png)",
    )
    found = remembered("bayespa", "class-topics-words", _class_topics)
    measured.append(found["measured"])
    for row in found["rows"]:
        table.add(*row)
    figures.heatmaps(
        "bayespa_classes", [np.array(m) for m in found["proportions"]], found["marks"],
        found["labels"], found["words"],
    )  # fmt: skip
    return table


def _class_topics() -> dict[str, Any]:
    data, marks = newsgroups(), [256, 2048, 11269]
    order = np.random.default_rng(0).permutation(data.X.shape[0])
    model = MedLDAClassifier(n_topics=THEIR_TOPICS, random_state=0, vocabulary=data.words.tolist())
    shown = [0, 3, 7, 11, 15]
    rows, proportions, begin = [], [], 0
    for end in marks:
        part = order[begin:end]
        model.partial_fit(data.X[part], data.y[part], classes=np.arange(20))
        begin = end
        z = model.transform(data.X)
        means = np.array([z[data.y == q].mean(axis=0) for q in range(20)])
        proportions.append(means.tolist())
        words = model.top_words(6)
        for q in shown:
            best = int(means[q].argmax())
            rows.append(
                [data.labels[q], end, int((means[q] > 0.1).sum()), f"{means[q, best]:.2f}",
                 ", ".join(words[best])]
            )  # fmt: skip
    rows.sort(key=lambda row: (data.labels.index(row[0]), row[1]))
    at_last = [", ".join(words[int(mean.argmax())]) for mean in means]
    return {
        "rows": rows, "proportions": proportions, "marks": marks, "labels": data.labels,
        "words": at_last,
    }  # fmt: skip
