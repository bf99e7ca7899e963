"""Repeat the experiments of the papers, and write the pages of docs/papers (`make reproduce`).

Every finished run is kept in out/reproduce/, so an interrupted reproduction goes on where it
stopped. Delete that folder to measure everything again.
"""

from benchmarks import bayespa, memory_bounded, mixtures, natural_online_em, ncrp, par_ingmm
from benchmarks.command_line import chosen

PAPERS = {
    "mixtures": (mixtures.reproduce, "DPMixture against a NumPy prototype: bounds"),
    "par_ingmm": (par_ingmm.reproduce, "DPMixture against KMeans on image features"),
    "bayespa": (bayespa.reproduce, "MedLDA and MedHDP, online against batch"),
    "memory_bounded": (memory_bounded.reproduce, "ClumpedTopicModel against batch learning"),
    "natural_online_em": (natural_online_em.reproduce, "OnlinePPCA: what it forgets"),
    "ncrp": (ncrp.reproduce, "TopicTree against tomotopy, ComponentTree against PCA"),
}


def main() -> None:
    """Repeat the experiments of the papers that the command line names, or of all."""
    papers = {name: what for name, (_, what) in PAPERS.items()}
    for name in chosen("python -m benchmarks.reproduce", __doc__, papers):
        PAPERS[name][0]()


if __name__ == "__main__":
    main()
