"""Networks in ONNX files get the right pixels, and say what is wrong with a file."""

from hashlib import blake2b
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

from everlearn.images import CNNFeatures
from everlearn.images.base import square
from everlearn.images.networks import weights_digest
from support.networks import save_network
from support.pictures import colours

IMAGES = [colours(40, 60, seed) for seed in range(5)]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "tiny.onnx"
    save_network(path)
    return path


@pytest.mark.parametrize("output", [None, "pooled", "maps"])
def test_a_network_gets_channels_first_and_scaled_pixels(output, tmp_path):
    filters = save_network(tmp_path / "tiny.onnx")
    mean, std = [100.0, 110.0, 120.0], [50.0, 60.0, 70.0]
    network = CNNFeatures(tmp_path / "tiny.onnx", output=output, size=32, mean=mean, std=std)
    rows = network.transform(IMAGES[:3])
    for row, image in zip(rows, IMAGES, strict=False):
        pixels = (square(image, 32).astype(float) - mean) / std
        expected = np.maximum(pixels @ filters.T, 0).mean(axis=(0, 1))
        np.testing.assert_allclose(row, expected, rtol=1e-4)


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_networks_of_fixed_batches_describe_any_number_of_images(tmp_path, batch):
    save_network(tmp_path / "any.onnx")
    save_network(tmp_path / "fixed.onnx", batch=batch)
    one, other = (
        CNNFeatures(tmp_path / name, size=32, batch_size=3).transform(IMAGES)
        for name in ("any.onnx", "fixed.onnx")
    )
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_networks_of_half_precision(tmp_path):
    save_network(tmp_path / "single.onnx")
    save_network(tmp_path / "half.onnx", kind=TensorProto.FLOAT16)
    one, other = (
        CNNFeatures(tmp_path / name, size=32).transform(IMAGES)
        for name in ("single.onnx", "half.onnx")
    )
    np.testing.assert_allclose(one, other, rtol=0.02, atol=0.02)


def test_images_that_a_network_does_not_take(tmp_path):
    save_network(tmp_path / "small.onnx")
    with pytest.raises(ValueError, match=r"'size' .*CNNFeatures.* \(3, 32, 32\)\. Got .*224"):
        CNNFeatures(tmp_path / "small.onnx").transform(IMAGES)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"output": "logits"}, r"'output' parameter .* one of \['pooled', 'maps'\]"),
        ({"std": 0.0}, "'std' parameter of CNNFeatures must be positive"),
        ({"mean": [1.0, 2.0]}, "'mean' parameter of CNNFeatures must be a finite number, or three"),
        ({"mean": "grey"}, "'mean' parameter of CNNFeatures"),
        ({"batch_size": 0}, "'batch_size' parameter of CNNFeatures"),
        ({"network": "vgg19", "output": "pooled"}, "'output' parameter .* must be None"),
    ],
)
def test_parameters_of_networks_are_checked(weights, params, message):
    with pytest.raises(ValueError, match=message):
        CNNFeatures(weights, **params).fit(IMAGES)


def test_files_that_are_no_networks_are_refused(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"'weights' parameter .* must be a file, got .*no\."
    ):
        CNNFeatures(tmp_path / "no.onnx").fit(IMAGES)
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(
        ValueError, match=r"'weights' parameter .* must be an ONNX file, got .*text"
    ):
        CNNFeatures(tmp_path / "text.onnx").fit(IMAGES)
    save_network(tmp_path / "two.onnx", inputs=2)
    with pytest.raises(ValueError, match=r"must have one input, got \['image', 'other'\]"):
        CNNFeatures(tmp_path / "two.onnx").fit(IMAGES)


def test_networks_of_torchvision(tmp_path):
    """The last linear layer is left out, and what it is given comes out."""
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("torchvision").models
    model = models.resnet18(weights=None).eval()
    torch.save(model.state_dict(), tmp_path / "resnet18.pth")
    rows = CNNFeatures(tmp_path / "resnet18.pth", network="resnet18", size=64).transform(IMAGES)
    images = np.stack([square(image, 64) for image in IMAGES]).transpose(0, 3, 1, 2)
    with torch.inference_mode():
        scores = model(torch.from_numpy(images.astype(np.float32))).numpy()
        ends = model.fc(torch.from_numpy(rows)).numpy()
    assert rows.shape == (5, 512)
    np.testing.assert_allclose(ends, scores, rtol=1e-3, atol=1e-3)


def test_a_network_is_opened_once_and_again_when_its_file_changes(tmp_path, monkeypatch):
    path = tmp_path / "tiny.onnx"
    save_network(path)
    opened = []
    session = onnxruntime.InferenceSession

    def spied(name, *options, **more):
        opened.append(name)
        return session(name, *options, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", spied)
    network = CNNFeatures(path, size=32)
    before = network.fit().transform(IMAGES)
    network.set_params(output="maps").transform(IMAGES)
    assert opened == [str(path)]
    save_network(path, seed=1)
    assert np.abs(network.transform(IMAGES) - before).max() > 1
    assert len(opened) == 2


def test_digests_are_those_of_what_the_file_holds_now(tmp_path, monkeypatch):
    path = tmp_path / "weights"
    path.write_bytes(b"one" * 1000)
    first = weights_digest(path)
    assert first == blake2b(b"one" * 1000, digest_size=16).hexdigest()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *given: pytest.fail("the file was read again"))
        assert weights_digest(path) == first
    path.write_bytes(b"two" * 1001)
    assert weights_digest(path) == blake2b(b"two" * 1001, digest_size=16).hexdigest()


@pytest.mark.data("models", "caltech101")
def test_the_shared_network_gives_the_features_that_came_with_the_images(shared_data):
    import pandas as pd

    file = shared_data / "caltech101" / "caltech101_sample.parquet"
    some = pd.read_parquet(file, columns=["jpeg"]).jpeg[::400]
    with np.load(shared_data / "caltech101" / "caltech101_sample_features.npz") as kept:
        expected = kept["X"][::400].astype(float)
    network = shared_data / "models" / "efficientnet_lite0_fp16w.onnx"
    rows = CNNFeatures(network, output="features").transform(some.tolist())
    likeness = np.corrcoef(rows, expected)[: len(rows), len(rows) :]
    assert (np.diag(likeness) > 0.97).all()  # the images were resized by another filter
    assert (likeness.argmax(axis=1) == np.arange(len(rows))).all()
