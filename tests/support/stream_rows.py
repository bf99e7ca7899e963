"""A stream of rows with bad records among them, and models that refuse some rows."""

import json

import numpy as np

from everlearn.stream.learn import LearnRequest
from support.stream_cases import json_rows

ROW_BY_ROW = {"loss": "averaging", "batch_size": 1}
HARD = {**ROW_BY_ROW, "slack": "none", "fit_intercept": False}
"""Under these, a row of next to nothing asks for weights beyond all bounds."""

TINY = json.dumps(dict.fromkeys("abcd", 1e-160) | {"label": "g1"})


def rows_request(folder, *, schedule, kind="classifier", params=None):
    """A classifier that learns row by row from small batches, with bad records among them."""
    plain = ROW_BY_ROW if kind == "classifier" else {}
    source, params = json_rows(folder), {"random_state": 3, **plain, **(params or {})}
    return LearnRequest(
        folder / "m.evl", (str(source),), {"kind": kind, "batch": 8}, params, schedule
    )


def picky(method, dislikes, most=2):
    """The method of an estimator that refuses more than `most` rows if it dislikes them."""

    def refusing(self, X, *rest, **options):
        if len(X) > most and dislikes(X):
            raise ValueError("not these")
        return method(self, X, *rest, **options)

    return refusing


def is_good(line):
    try:
        record = json.loads(line)
    except ValueError:
        return False
    return len(record) == 5 and all(np.isfinite(record[name]) for name in "abcd")
