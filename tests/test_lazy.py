"""Names of a package that are imported when they are first used."""

import sys
from types import ModuleType

import pytest

from everlearn._lazy import lazy


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package with the name `dumps`, which is that of json."""
    module = ModuleType("lazy_package")
    monkeypatch.setitem(sys.modules, "lazy_package", module)
    homes = {"dumps": "json", "missing": "json", "nowhere": "no_such_module"}
    module.__getattr__, module.__dir__ = lazy("lazy_package", homes)  # type: ignore[method-assign]
    return module


def test_a_name_is_the_object_at_home_and_is_kept(package: ModuleType) -> None:
    import json

    assert "dumps" not in vars(package)
    assert package.dumps is json.dumps
    assert vars(package)["dumps"] is json.dumps


@pytest.mark.parametrize("name", ["dump", "__wrapped__"])
def test_an_unknown_name_is_an_attribute_error(package: ModuleType, name: str) -> None:
    assert not hasattr(package, name)
    with pytest.raises(AttributeError, match=f"module 'lazy_package' has no attribute '{name}'"):
        getattr(package, name)


def test_a_home_that_cannot_be_imported_says_so(package: ModuleType) -> None:
    with pytest.raises(ImportError, match="no_such_module"):
        _ = package.nowhere
    with pytest.raises(AttributeError, match="'json' has no attribute 'missing'"):
        _ = package.missing
    assert not {"nowhere", "missing"} & set(vars(package))


def test_names_are_listed_before_they_are_loaded(package: ModuleType) -> None:
    listed = dir(package)
    assert {"dumps", "nowhere", "__name__"} <= set(listed)
    assert listed == sorted(listed)
    assert "dumps" not in vars(package)
