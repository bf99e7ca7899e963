"""`make bench`: every measurement, or those named, into docs/benchmarks.md."""

import sys

from benchmarks import (
    against_sklearn,
    cluster,
    components,
    documents_stream,
    lap,
    pipe,
    sampler,
    stream,
)
from benchmarks.table import write_page

PARTS = {
    "lap": lap.run,
    "sklearn": against_sklearn.run,
    "stream": stream.run,
    "documents": documents_stream.run,
    "pipe": pipe.run,
    "pace": pipe.paces,
    "sampler": sampler.against_tomotopy,
    "threads": sampler.threads,
    "components": components.against_sklearn,
    "rows": components.row_by_row,
    "cluster": cluster.run,
}

HEAD = """# Benchmarks

What `make bench` measured. Timings are compared within one run, never across machines.
"""


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    tables = [table for name in names or PARTS if (table := PARTS[name]()) is not None]
    if not names:
        print("written to", write_page("benchmarks.md", HEAD, tables))


if __name__ == "__main__":
    main(sys.argv[1:])
