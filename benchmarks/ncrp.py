"""The experiments of variational inference for the nested Chinese restaurant process.

The page is made of parts, one for each kind of tree.
"""

from benchmarks import component_trees, topic_trees
from benchmarks.table import write_page

HEAD = """# The nested Chinese restaurant process: the paper's experiments

Written by `make reproduce PAPER=ncrp`. Settings are the library's defaults unless said, on one
thread; CPU seconds are those of the process. Other programs ran on the machine meanwhile.
"""
TEXTS = """## Trees of topics

Three levels, concentration 1, prior of levels (50, 20, 10) to begin with and learned. Words in
fewer than five documents and documents of fewer than ten words are left out; AP is its first 1000
documents. The trees in full: [JACM](ncrp_tree-JACM.txt), [Psychological
Review](ncrp_tree-PsychReview.txt), [AP](ncrp_tree-AP.txt). Runs differ from seed to seed by about
0.01 per word on one fold, so that differences of a few thousandths are within noise. Sweeps, the
way in which the prior of words grows and the size of a stream's reservoir were chosen on planted
trees and on a fifth of each training part, set aside, not on test parts; but what is trained on in
one fold is tested on in another.
"""


def reproduce() -> None:
    """Run what has not been run yet, then write the page."""
    measured: set[str] = set()
    texts = topic_trees.parts(measured)
    components = list(component_trees.tables(measured))
    content = [TEXTS, *texts, component_trees.HEAD, *components]
    print("written to", write_page("papers/ncrp.md", HEAD, content, measured))
