"""Measure speed, memory and quality, and write the tables of docs/benchmarks.md (`make bench`)."""

from benchmarks import (
    cluster,
    clusters,
    components,
    documents_stream,
    first_use,
    held_out,
    lap,
    linear,
    mixture_search,
    outliers,
    pipe,
    sampler,
    stream,
    tables,
)
from benchmarks.command_line import chosen
from benchmarks.table import replace_section

PARTS = {
    "lap": (lap.run, "a lap of DPMixture against np.dot"),
    "mixtures": (mixture_search.run, "DPMixture against BayesianGaussianMixture"),
    "clusters": (clusters.run, "Clusters against KMeans, HDBSCAN and others: quality"),
    "one": (clusters.one, "Clusters of rows that have none"),
    "streams": (clusters.streams, "Clusters of streams: quality"),
    "stream": (stream.run, "DPMixture on ten million rows: time and memory"),
    "documents": (documents_stream.run, "ClumpedTopicModel on ten million points"),
    "pipe": (pipe.run, "everlearn learn on ten gigabytes from a pipe: memory"),
    "pace": (pipe.paces, "everlearn learn against partial_fit: speed"),
    "sampler": (sampler.against_tomotopy, "topic samplers against tomotopy: speed"),
    "threads": (sampler.threads, "topic samplers: two threads against one"),
    "words": (held_out.run, "TopicModel against scikit-learn and tomotopy: held-out words"),
    "components": (components.against_sklearn, "OnlinePPCA against IncrementalPCA: speed"),
    "rows": (components.row_by_row, "OnlinePPCA on a million rows one by one"),
    "linear": (linear.run, "linear models against LinearSVC and BayesianRidge: quality"),
    "tables": (tables.run, "DPMixture on mixed tables against k-prototypes: quality"),
    "outliers": (outliers.run, "odd rows: DPMixture against two detectors of scikit-learn"),
    "first": (first_use.run, "first use of each estimator: seconds with compiling"),
    "cluster": (cluster.run, "a Dask cluster: two workers against one"),
}

HEAD = """# Benchmarks

`make bench` writes this page; `make bench ARGS=rows` measures one part again. `python -m benchmarks
--help` lists the parts. Compare figures within a section only: each was measured in one run, on the
machine named below it.

**Measured:** speed, memory and quality of everlearn beside scikit-learn, tomotopy and plain NumPy.

**Result:** Memory levels off over ten million rows, ten million points of documents and ten
gigabytes through a pipe. `DPMixture` finds planted clusters 2 to 110 times as fast as
scikit-learn's BayesianGaussianMixture and predicts new rows better. It is worse where full
Gaussians overlap so much that they differ in shape more than in place. It finds odd rows with a
mean AUC of 0.90 over eight tables, beside 0.88 for LocalOutlierFactor and 0.80 for
IsolationForest; one of these is better on two of the tables. `Clusters` agrees with the classes
of 27 sets with a mean AMI of 0.85, beside 0.83 for KMeans, told their number, and for UMAP +
HDBSCAN; one of these is better by more than 0.01 on nine of the sets. Topic samplers draw tokens
1.3 to 3.3 times as fast as tomotopy's. tomotopy's LDA predicts held-out words better than one
pass of `TopicModel` (perplexity 4,298 beside 4,849), in almost six times the CPU time.

"CPU s" are seconds of all threads of a process, "wall s" are seconds by the clock.
"""


def main() -> None:
    """Measure the parts that the command line names, or all."""
    parts = {name: what for name, (_, what) in PARTS.items()}
    for name in chosen("python -m benchmarks", __doc__, parts):
        table = PARTS[name][0]()
        if table is not None:
            print("written to", replace_section("benchmarks.md", HEAD, table))


if __name__ == "__main__":
    main()
