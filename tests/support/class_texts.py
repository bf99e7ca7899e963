"""Short texts of three classes, and classifiers that have learned them."""

import numpy as np

from everlearn import MedLDAClassifier

WORDS = np.array([f"w{i}" for i in range(12)])
RNG = np.random.default_rng(0)
Y = np.array(["a<b", "cat", "dog"])[np.arange(90) % 3]
TEXTS = [" ".join(RNG.choice(WORDS[4 * k : 4 * k + 4], 9)) for k in np.arange(90) % 3]


def classifier(y=Y, **params):
    classes = ["a<b", "cat", "dog"]
    model = MedLDAClassifier(random_state=0, engine="serial", **params)
    return model.partial_fit(
        TEXTS, y, classes=classes[: len(set(y.ravel()))] if y.ndim < 2 else classes
    )
