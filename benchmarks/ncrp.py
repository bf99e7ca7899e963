"""The nested Chinese restaurant process: one page made of parts."""

from benchmarks import topic_trees
from benchmarks.table import write_page

HEAD = """# The nested Chinese restaurant process: the paper's experiments

Written by `make reproduce PAPER=ncrp`. Settings are the library's defaults unless said: three
levels, concentration 1, prior of levels (50, 20, 10) to begin with and learned. Words in fewer than
five documents and documents of fewer than ten words are left out; AP is its first 1000 documents.
The trees in full: [JACM](ncrp_tree-JACM.txt), [Psychological Review](ncrp_tree-PsychReview.txt),
[AP](ncrp_tree-AP.txt). Other programs ran on the machine meanwhile. Runs differ from seed to
seed by about 0.01 per word on one fold: differences of a few thousandths are within noise.
"""


def reproduce() -> None:
    """Run what has not been run yet, then write the page."""
    measured: set[str] = set()
    tables = [*topic_trees.parts(measured)]
    write_page("papers/ncrp.md", HEAD, tables, measured)
