"""Linear classifiers and regressors that learn by Bayesian passive-aggressive steps."""
