"""One writer at a time."""

import pytest

from everlearn.errors import LockedError
from everlearn.io.lock import only_writer


def test_one_writer_at_a_time(tmp_path):
    model = tmp_path / "m.evl"
    with (
        only_writer(model),
        pytest.raises(LockedError, match="another process"),
        only_writer(model),
    ):
        pass
    with only_writer(model):
        pass
