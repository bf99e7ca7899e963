"""As much of an estimator of documents as reading them needs."""

from sklearn.base import BaseEstimator


class Reader(BaseEstimator):
    """Has the parameters that say how documents are read."""

    def __init__(self, vocabulary=None, stop_words=None, text=None):
        self.vocabulary = vocabulary
        self.stop_words = stop_words
        self.text = text
