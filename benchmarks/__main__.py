"""`make bench`: every measurement, or those named in ARGS, into docs/benchmarks.md."""

import sys

from benchmarks import (
    against_sklearn,
    cluster,
    components,
    documents_stream,
    held_out,
    lap,
    linear,
    pipe,
    sampler,
    stream,
)
from benchmarks.table import replace_section

PARTS = {
    "lap": lap.run,
    "sklearn": against_sklearn.run,
    "stream": stream.run,
    "documents": documents_stream.run,
    "pipe": pipe.run,
    "pace": pipe.paces,
    "sampler": sampler.against_tomotopy,
    "threads": sampler.threads,
    "words": held_out.run,
    "components": components.against_sklearn,
    "rows": components.row_by_row,
    "linear": linear.run,
    "cluster": cluster.run,
}

HEAD = """# Benchmarks

What `make bench` measured, or for one part of it `make bench ARGS=rows` (the parts are in
`benchmarks/__main__.py`). Timings are compared within one run, never across machines.
"""


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    for name in names or PARTS:
        table = PARTS[name]()
        if table is not None:
            print("written to", replace_section("benchmarks.md", HEAD, table))


if __name__ == "__main__":
    main(sys.argv[1:])
