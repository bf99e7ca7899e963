"""`make reproduce`: the experiments of each paper, or of the one named, into docs/papers/.

Every finished run is kept in out/reproduce/, so an interrupted reproduction goes on where it
stopped; delete that folder to measure anew.
"""

import sys

from benchmarks import bayespa, memory_bounded, mixtures, natural_online_em, ncrp, par_ingmm

PAPERS = {
    "mixtures": mixtures.reproduce,
    "par_ingmm": par_ingmm.reproduce,
    "bayespa": bayespa.reproduce,
    "memory_bounded": memory_bounded.reproduce,
    "natural_online_em": natural_online_em.reproduce,
    "ncrp": ncrp.reproduce,
}


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(PAPERS))
    if unknown:
        sys.exit(f"no paper is called {', '.join(unknown)}; there are {', '.join(PAPERS)}")
    for name in names or PAPERS:
        PAPERS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
