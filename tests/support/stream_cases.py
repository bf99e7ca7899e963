"""Small streams of every kind and from every source, for tests of the tool."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import sparse

from everlearn.cli.learn import learn_in_terminal
from everlearn.stream.learn import LearnRequest, Schedule

WORDS = [f"{a}{b}" for a in ("sea", "ship", "star", "stone") for b in "abcdefgh"]


@dataclass(frozen=True)
class Case:
    """A command: its kind, how the sources are made in a folder, and options."""

    kind: str
    make: object
    batch: int = 20
    every: int = 1
    params: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    stdin: bool = False

    def request(self, folder: Path, model: Path) -> tuple[LearnRequest, Path | None]:
        """The request, and the file that standard input comes from, if any."""
        source = self.make(folder)
        layout = {"kind": self.kind, "batch": self.batch, **self.options}
        schedule = Schedule(every_batches=self.every, score_every=3)
        names = ("-",) if self.stdin else (str(source),)
        params = {"engine": "serial", "random_state": 3, **self.params}
        request = LearnRequest(model, names, layout, params, schedule)
        return request, source if self.stdin else None


def _table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n)
    return rng.normal(0, 6, (3, 4))[group] + rng.normal(0, 1, (n, 4)), group


def _texts(n=160, seed=0):
    rng = np.random.default_rng(seed)
    topic = rng.integers(4, size=n)
    texts = [" ".join(rng.choice(WORDS[8 * t : 8 * t + 8], 12)) for t in topic]
    return texts, topic


def json_rows(folder):
    X, group = _table()
    path = folder / "rows.jsonl"
    lines = [
        json.dumps({**dict(zip("abcd", map(float, x), strict=True)), "label": f"g{g}"})
        for x, g in zip(X, group, strict=True)
    ]
    lines[7] = "not JSON"
    lines[30] = '{"a": 1, "b": 2, "label": "g0"}'
    lines[31] = '{"a": 1, "b": 2, "c": 3, "d": 1e999, "label": "g0"}'
    path.write_text("\n".join(lines) + "\n")
    return path


def csv_rows(folder):
    X, group = _table()
    path = folder / "rows.csv"
    head = "a,b,c,d,label\n"
    path.write_text(
        head + "".join(",".join(map(str, x)) + f",{g}.5\n" for x, g in zip(X, group, strict=True))
    )
    return path


def excel_rows(folder):
    """As Excel writes a table in Germany, with a column of texts and some odd rows."""
    X, group = _table()
    lines = ["sep=;", "a;b;Größe;c;d;label"]
    for i, (x, g) in enumerate(zip(X * 1000, group, strict=True)):
        a, b, c, d = (f"{value:.2f}".replace(".", ",") for value in x)
        lines.append(f"{a};{b};{'groß' if i % 3 else 'klein'};{c};{d};g{g}")
    lines[9] = "1.234,5;2;groß;NA;4;g1"
    lines[20] = '1,5;2;"ein ""ü"";\r\nzwei";3;4;g1'
    lines[30] = "1,5;viel;groß;3;4;g0"
    path = folder / "excel.csv"
    path.write_bytes(("\r\n".join(lines) + "\r\n").encode("latin-1"))
    return path


def numpy_rows(folder):
    np.save(folder / "rows.npy", _table()[0])
    return folder / "rows.npy"


def parquet_rows(folder):
    import pyarrow
    from pyarrow import parquet

    X, group = _table()
    columns = dict(zip("abcd", X.T, strict=True)) | {"label": group.astype(str)}
    parquet.write_table(pyarrow.table(columns), folder / "rows.parquet", row_group_size=50)
    return folder / "rows.parquet"


def json_texts(folder):
    texts, topic = _texts()
    path = folder / "texts.jsonl"
    path.write_text(
        "".join(
            json.dumps({"text": t, "label": f"t{k}"}) + "\n"
            for t, k in zip(texts, topic, strict=True)
        )
    )
    return path


def text_folder(folder):
    home = folder / "texts"
    home.mkdir(exist_ok=True)
    for i, text in enumerate(_texts()[0]):
        (home / f"{i:03}.txt").write_text(text)
    return home


def counts(folder):
    rng = np.random.default_rng(1)
    table = sparse.csr_array(rng.poisson(0.3, (160, 30)))
    sparse.save_npz(folder / "counts.npz", table)
    return folder / "counts.npz"


def image_folder(folder):
    home = folder / "images"
    home.mkdir(exist_ok=True)
    rng = np.random.default_rng(2)
    for i in range(12):
        pixels = np.full((10, 10, 3), rng.integers(0, 256, 3), np.uint8)
        pixels[:5] = rng.integers(0, 256, 3)
        Image.fromarray(pixels).save(home / f"{i:02}.png")
    (home / "05.png").write_bytes(b"no image")
    return home


CASES = {
    "mixture from JSON lines": Case("mixture", json_rows, options={"columns": tuple("abcd")}),
    "mixture from Excel": Case("mixture", excel_rows, options={"encoding": "latin-1"}),
    "mixture from an array": Case("mixture", numpy_rows, every=4),
    "mixture from Parquet": Case("mixture", parquet_rows, options={"columns": tuple("abcd")}),
    "mixture from a pipe": Case(
        "mixture", json_rows, options={"columns": tuple("abcd")}, stdin=True
    ),
    "topics from a folder": Case("topics", text_folder, params={"n_topics": 4}),
    "topics from a pipe": Case("topics", json_texts, params={"n_topics": 4}, stdin=True),
    "topics from counts": Case("topics", counts, every=3, params={"n_topics": 4}),
    "classifier from texts": Case("classifier", json_texts, params={"n_topics": 4}),
    "classifier from rows": Case("classifier", json_rows, every=5),
    "regressor from a table": Case("regressor", csv_rows),
    "tree from texts": Case("tree", json_texts),
    "components from an array": Case("components", numpy_rows, params={"max_nodes": 8}),
    "ppca from a table": Case("ppca", csv_rows, every=4, params={"n_components": 2}),
    "clumped from images": Case("clumped", image_folder, batch=3, options={"image_side": 10}),
}
FILES = [name for name, case in CASES.items() if not case.stdin]
"""The cases that can be run without a pipe."""


def learned(folder, name, model="m.evl"):
    request, _ = CASES[name].request(folder, folder / model)
    assert learn_in_terminal(request, quiet=True) == 0
    return request


def environment():
    """That of a new process that finds the same code and these cases."""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here.parents[1] / "src"), str(here.parent)])
    old = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [paths, old]))}
