"""Online probabilistic PCA that does not forget."""
