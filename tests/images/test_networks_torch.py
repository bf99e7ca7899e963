"""Networks of torchvision by name, with stand-ins for torch, which need not be installed."""

import json
import sys

import numpy as np
import pytest

from everlearn.images import CNNFeatures
from everlearn.images.base import square
from support.pictures import colours
from support.torches import stand_ins

IMAGES = [colours(40, 60, seed) for seed in range(5)]


@pytest.fixture
def log(monkeypatch):
    found = []
    for name, module in stand_ins(found).items():
        monkeypatch.setitem(sys.modules, name, module)
    return found


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "weights.pth"
    path.write_text(json.dumps({"size": 32, "weights": np.ones((3, 4)).tolist()}))
    return path


def described(weights, network, **params):
    return CNNFeatures(weights, network=network, **{"size": 32, **params}).transform(IMAGES)


@pytest.mark.parametrize("network", ["plain", "squeezed"])
def test_what_comes_before_the_last_layer_comes_out(log, weights, network):
    """The maps of these networks are the images; one has no linear layer to leave out."""
    rows = described(weights, network)
    expected = [square(image, 32).mean(axis=(0, 1)) for image in IMAGES]
    np.testing.assert_allclose(rows, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("network", "params", "message"),
    [
        ("vgg99", {}, r"'network' parameter .* one of torchvision's.* Got 'vgg99' .*Unknown model"),
        ("bare", {}, r"'network' parameter .* with a linear layer or a classifier\. Got 'bare'"),
        (
            "plain",
            {"size": 64},
            r"'plain' .* cannot use .* \(3, 64, 64\).*Expected 32",
        ),
        (
            "detector",
            {},
            r"'network' parameter .* classifier of images\. Got 'detector' .* returns a list",
        ),
    ],
)
def test_what_cannot_be_used_is_named(log, weights, network, params, message):
    with pytest.raises(ValueError, match=message):
        described(weights, network, **params)


def test_a_file_that_is_no_state_dictionary_is_named(log, weights):
    weights.write_text("{}")
    with pytest.raises(ValueError, match=r"'weights' .* state dictionary of 'plain', got .*\.pth"):
        described(weights, "plain")


def test_torch_adds_no_threads_to_ours_and_is_left_as_it_was(log, weights):
    described(weights, "plain", batch_size=1, n_jobs=3)
    runs = [n for what, n in log if what == "run with"]
    assert runs == [1] * 5
    assert [n for what, n in log if what == "allowed"][-1] == 7


def test_a_file_is_loaded_again_when_it_has_changed(log, weights):
    for _ in range(3):
        described(weights, "plain")
    assert [name for what, name in log if what == "loaded"] == ["weights.pth"]
    weights.write_text(json.dumps({"size": 32, "weights": np.eye(3).tolist()}))
    described(weights, "plain")
    assert len([name for what, name in log if what == "loaded"]) == 2


@pytest.mark.parametrize("missing", ["torch", "torchvision"])
def test_the_error_for_a_missing_package_says_how_to_install_it(log, weights, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError, match="networks by name need torch and torchvision"):
        described(weights, "plain")
