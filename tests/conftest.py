"""What every test may use: property-test profiles and the shared data sets."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[1]
if find_spec("distributed") is None:
    collect_ignore_glob = ["engine/test_dask*.py", "estimator/test_collections*.py"]

# "ci" repeats itself, so that a red build means a changed program; "nightly" goes looking.
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("nightly", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def data_root() -> Path:
    """Folder of the shared data sets, which may be absent."""
    override = os.environ.get("EVERLEARN_DATA")
    if not override:
        return REPOSITORY.parent / "shared" / "data"
    root = Path(override).expanduser()
    if not root.is_dir():
        raise pytest.UsageError(f"EVERLEARN_DATA must be a folder, got {override!r}")
    return root


def missing_data(folders: tuple[str, ...]) -> str | None:
    """Why the data sets named cannot be used, or None if they can."""
    root = data_root()
    for folder in (root, *(root / name for name in folders)):
        if not folder.is_dir():
            return f"needs shared data: no folder {folder} (set EVERLEARN_DATA to another place)"
    return None


CLUSTERED = pytest.StashKey[bool]()
"""Whether a test is in a file that uses a cluster."""
# Dask leaves sockets to the garbage collector, and does not mind a port that is in use.
OF_CLUSTERS = (
    "unclosed:ResourceWarning",
    "Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning",
    "Port .* is already in use",
)


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "shared_data" in getattr(item, "fixturenames", ()) and not item.get_closest_marker(
            "data"
        ):
            item.add_marker("data")
    clustered = {item.path for item in items if "client" in getattr(item, "fixturenames", ())}
    for item in items:
        item.stash[CLUSTERED] = item.path in clustered
        if item.stash[CLUSTERED]:
            for warning in OF_CLUSTERS:
                item.add_marker(pytest.mark.filterwarnings(f"ignore:{warning}"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("data"):
        reason = missing_data(marker.args)
        if reason:
            pytest.skip(reason)


@pytest.hookimpl(trylast=True)  # after the fixtures of the test
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if item.stash[CLUSTERED] and not (nextitem and nextitem.stash[CLUSTERED]):
        from support.clusters import close

        close()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the shared data sets; the test is skipped where there is none."""
    reason = missing_data(())
    if reason:
        pytest.skip(reason)
    return data_root()


@pytest.fixture(scope="session")
def demo_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page about digits of the demo, made once, with few docstrings."""
    from typer.testing import CliRunner

    from everlearn.cli import demo_data
    from everlearn.cli.main import app

    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_data, "PER_PACKAGE", 15)
        result = CliRunner().invoke(app, ["demo", "--quiet", "--output", str(folder)])
    assert result.exit_code == 0, result.output
    return folder / "digits.html"


@pytest.fixture
def client():
    """A Dask client of two worker processes with one thread each."""
    pytest.importorskip("distributed")
    from support.clusters import shared_client

    return shared_client(2)


@pytest.fixture
def lonely_client():
    """A Dask client of one worker process."""
    pytest.importorskip("distributed")
    from support.clusters import shared_client

    return shared_client(1)


@pytest.fixture
def invoke(monkeypatch):
    """Runs a command in a terminal that is wide and plain."""
    from typer.testing import CliRunner

    from everlearn.cli.main import app

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])
