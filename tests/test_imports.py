"""The front door: `import everlearn` is light, and its names are where they should be."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import everlearn

SRC = Path(__file__).resolve().parents[1] / "src"
HEAVY = {"numba", "numpy", "rich", "scipy", "sklearn", "typer"}


def modules_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after one statement."""
    code = f"{statement}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    path = os.pathsep.join(filter(None, [str(SRC), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_import_is_light():
    loaded = modules_after("import everlearn")
    assert "everlearn" in loaded
    assert not loaded & HEAVY


def test_reports_of_streams_do_without_the_packages_for_images():
    assert not modules_after("import everlearn.report.stream") & {"PIL", "skimage"}


def test_version_is_light():
    assert not modules_after("from everlearn import __version__") & HEAVY


def test_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'everlearn' has no attribute 'DPMixure'"):
        _ = everlearn.DPMixure


def test_unknown_name_is_an_import_error():
    with pytest.raises(ImportError, match="DPMixure"):
        exec("from everlearn import DPMixure")


def test_public_names_are_unique():
    assert len(everlearn.__all__) == len(set(everlearn.__all__))


@pytest.mark.parametrize("name", everlearn.__all__)
def test_public_name_resolves(name):
    assert getattr(everlearn, name) is not None
    assert name in dir(everlearn)


@pytest.mark.parametrize(("name", "home"), everlearn._MODULE_OF.items())
def test_lazy_name_is_public_and_is_the_object_at_home(name, home):
    assert name in everlearn.__all__
    assert getattr(everlearn, name) is getattr(importlib.import_module(home), name)


def test_names_of_images_are_loaded_when_they_are_used():
    assert not modules_after("import everlearn.images") & {*HEAVY, "PIL", "skimage"}
    assert "onnxruntime" not in modules_after("from everlearn.images import HOG, CNNFeatures")
    images = importlib.import_module("everlearn.images")
    for name in images.__all__:
        assert getattr(images, name).__name__ == name
    assert set(images.__all__) <= set(dir(images))
    with pytest.raises(AttributeError, match=r"'everlearn\.images' has no attribute 'HOGG'"):
        _ = images.HOGG


def test_names_of_metrics_are_loaded_when_they_are_used():
    assert not modules_after("import everlearn.metrics") & HEAVY
    metrics = importlib.import_module("everlearn.metrics")
    for name in metrics.__all__:
        assert getattr(metrics, name).__name__ == name
    assert set(metrics.__all__) <= set(dir(metrics))
