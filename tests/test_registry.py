"""The table of estimators: every row can be imported, and everything that needs a list uses it."""

import ast
import inspect
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import everlearn
import everlearn.images
from everlearn.registry import BY_KEY, ESTIMATORS, Entry, imported

PACKAGE = Path(everlearn.__file__).parent
every_entry = pytest.mark.parametrize("entry", ESTIMATORS, ids=lambda entry: entry.name)


@every_entry
def test_an_entry_is_its_class(entry: Entry) -> None:
    kind = entry.estimator()
    assert issubclass(kind, BaseEstimator)
    assert kind.__name__ == entry.name
    assert kind.checkpoint_key == entry.key
    assert BY_KEY[entry.key] is entry
    assert imported(f"{entry.package}:{entry.name}") is kind
    assert entry.name in imported(f"{entry.package}:__all__")


@every_entry
def test_a_merge_function_takes_models_and_their_base(entry: Entry) -> None:
    if entry.merge is not None:
        assert list(inspect.signature(imported(entry.merge)).parameters) == ["models", "base"]


def test_keys_and_places_on_the_command_line_are_unique() -> None:
    assert len(BY_KEY) == len(ESTIMATORS)
    places = [(entry.kind, entry.form) for entry in ESTIMATORS if entry.kind]
    assert len(set(places)) == len(places)


def test_type_checkers_see_the_names_of_the_registry() -> None:
    """`__init__` repeats the names for them, because they cannot read a table."""
    (block,) = (
        node
        for node in ast.parse((PACKAGE / "__init__.py").read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == everlearn._MODULE_OF


@every_entry
def test_public_methods_and_attributes_are_documented(entry: Entry) -> None:
    kind = entry.estimator()
    assert inspect.getdoc(kind)
    for name, value in inspect.getmembers(kind):
        ours = getattr(value, "__module__", "") or getattr(
            getattr(value, "fget", None), "__module__", ""
        )
        if not name.startswith("_") and (ours or "").startswith("everlearn"):
            assert inspect.getdoc(value), f"{entry.name}.{name} has no docstring"


def test_our_own_modules_do_not_use_the_front_door() -> None:
    """The import contracts cannot see through names that are loaded when they are first used."""
    public = {
        "everlearn": set(everlearn.__all__),
        "everlearn.images": set(everlearn.images.__all__),
    }
    for path in PACKAGE.rglob("*.py"):
        if path.name == "__init__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in public:
                used = {alias.name for alias in node.names} & public[node.module] - {"__version__"}
                assert not used, f"{path.relative_to(PACKAGE)} imports {used} from {node.module}"
