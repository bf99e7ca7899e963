"""Small pictures of two kinds, and pipelines that learn them."""

import numpy as np

from everlearn.images import image_pipeline
from everlearn.mixture.estimator import DPMixture
from support.networks import save_network

SETTINGS = {"hog": {"size": 64}, "lbp": {"size": 64, "grid": 4}, "cnn": {"size": 32}}


def scenes(n=40, seed=0):
    """Bright and dark pictures in turn, with stripes this way and that."""
    rng = np.random.default_rng(seed)
    stripes = np.tile(np.repeat([0, 1], 4), 4)[:, None] * np.ones(32)
    kinds = [stripes * 200, 255 - stripes.T * 60]
    noise = rng.integers(0, 20, size=(n, 32, 32))
    return [
        np.clip(kinds[i % 2] + noise[i], 0, 255).astype(np.uint8) for i in range(n)
    ]  # fmt: skip


def made(kind, tmp_path, **params):
    settings = dict(SETTINGS[kind])
    if kind == "cnn":
        save_network(tmp_path / "tiny.onnx")
        settings["weights"] = tmp_path / "tiny.onnx"
    return image_pipeline(kind, 3, mixture=DPMixture(random_state=0, **params), **settings)
