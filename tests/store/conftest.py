"""Files for the tests of the store."""

import numpy as np
import pytest

from everlearn.store.archive import write_checkpoint


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.evl"


@pytest.fixture
def small(path):
    """A small sound file."""
    write_checkpoint(path, {"step": 3}, {"x": np.arange(6.0).reshape(2, 3), "y": np.array([True])})
    return path
