"""A data engineer tries everlearn: polars, Parquet, Arrow, Dask, daily runs, shards.

python examples/walkthroughs/data_engineer.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
from distributed import Client

from everlearn import BayesianPassiveAggressiveClassifier, DPMixture, load, merge

COLUMNS = ["ms", "kb"]
DAYS = 4


def write_days(folder: Path) -> list[Path]:
    """A Parquet file of requests for each day; from the second on, there is a new kind of them."""
    rng = np.random.default_rng(0)
    paths = []
    for day in range(DAYS):
        kind = rng.integers(3 if day == 0 else 4, size=3000)
        frame = pl.DataFrame(
            {
                "ms": np.array([20.0, 200.0, 900.0, 400.0])[kind] + 8 * rng.normal(size=3000),
                "kb": np.array([1.0, 50.0, 5.0, 300.0])[kind] * rng.normal(1, 0.05, 3000),
                "way": np.array(["web", "app", "api", "bot"])[kind],
            }
        )
        paths.append(folder / f"day{day}.parquet")
        frame.write_parquet(paths[-1])
    return paths


def learn_day_by_day(folder: Path, paths: list[Path]) -> None:
    """One run a day: load, learn in batches, save. Nothing else is kept."""
    place = folder / "requests.evl"
    for path in paths:
        model = load(place) if place.exists() else DPMixture(random_state=0)
        for batch in pq.ParquetFile(path).iter_batches(500, columns=COLUMNS):
            model.partial_fit(batch)
        model.save(place)
        print(f"{path.stem}: {model.n_samples_seen_} rows, {model.n_components_} kinds")
    assert load(place).n_components_ == 4


def work_in_polars(paths: list[Path]) -> None:
    """Frames, missing values, and labels as a new column."""
    frame = pl.scan_parquet(paths[0]).collect()
    rows = frame.select(COLUMNS)
    gaps = rows.with_columns(ms=pl.when(pl.col("ms") > 900).then(None).otherwise(pl.col("ms")))
    model = DPMixture(random_state=0).set_output(transform="polars").fit(gaps)
    labelled = frame.with_columns(kind=pl.Series(model.predict(rows)))
    sizes = labelled.group_by("way", "kind").len().sort("len", descending=True)
    print("kinds of requests:", sizes["way"].to_list())
    assert len(sizes) == 3
    assert isinstance(model.transform(rows), pl.DataFrame)

    known = BayesianPassiveAggressiveClassifier().fit(rows, frame["way"])
    print("way of the first request:", known.predict(rows[:1])[0])
    for wrong in (frame.lazy(), frame["ms"], frame.to_arrow(), rows.rows(named=True)):
        try:
            model.fit(wrong)
        except (TypeError, ValueError) as error:
            print("  error:", str(error).splitlines()[0])
        else:
            raise AssertionError("a wrong table was accepted")


def learn_shards(paths: list[Path]) -> None:
    """Machines learn a day each; `merge` adds what they learned."""
    parts = [DPMixture(random_state=0).fit(pd.read_parquet(p, columns=COLUMNS)) for p in paths]
    whole = merge(parts)
    print(f"merged: {whole.n_samples_seen_} rows, {whole.n_components_} kinds")
    assert whole.n_samples_seen_ == 3000 * DAYS


def learn_with_dask(paths: list[Path]) -> None:
    """Rows stay on the workers; `map_partitions` predicts there."""
    everything = dd.from_map(pd.read_parquet, [str(path) for path in paths], columns=COLUMNS)
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as one:
        model = DPMixture(random_state=0, engine=one).fit(everything)
        predicted = everything.map_partitions(_labels, model, meta=("kind", "int64"))
        sizes = predicted.compute().value_counts()
    print(f"dask: {model.n_components_} kinds, the largest has {sizes.max()} rows")
    assert sizes.sum() == 3000 * DAYS


def _labels(part: pd.DataFrame, model: Any) -> pd.Series:
    return pd.Series(model.predict(part), index=part.index, name="kind")


if __name__ == "__main__":  # Dask's workers read this file too
    with tempfile.TemporaryDirectory() as name:
        days = write_days(Path(name))
        learn_day_by_day(Path(name), days)
        work_in_polars(days)
        learn_shards(days)
        learn_with_dask(days)
    print("done")
