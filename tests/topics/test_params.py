"""Parameters of topic models: which are refused, and which follow from others."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from everlearn.topics.params import (
    SamplerOptions,
    check_options,
    default_rounds,
    default_strength,
    max_margin_loss,
)
from support.corpora import FITTED, X, fitted, model_of, targets_of
from support.streams import file_of

every = pytest.mark.parametrize("name", FITTED)
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "n_rounds": (0, 1.5, "many"),
    "topic_word_prior": (0.0, -1.0, np.nan, np.inf, "1"),
    "word_factor": ("gamma", None),
    "init": ("random", None),
    "batch_size": (0, -1, 1.5, "some", True),
    "n_sweeps": (0, 1.5),
    "warmup_documents": (-1, 1.5, None),
    "warmup_sweeps": (0, 1.5, None),
    "burn_in": (-1, 0.5, None),
    "n_passes": (0, 1.5, None),
    "shuffle": (1, None, "yes"),
    "tol": (-1e-3, 1.5, np.nan, "0"),
    "ghosts": (0, 1.5, None),
    "inference_passes": (0, 1.5),
    "vocabulary": ("words", [], ["a", "a"], [1, 2], {"a": 3}),
    "stop_words": ("klingon", [1, "a"], 3),
    "max_features": (0, 2**31, None, 1.5),
    "ngram_range": ((2, 1), (0, 1), 3),
    "min_df": (0, 1.5, None),
    "token_pattern": ("(", "(a)(b)", None, 3),
    "engine": ("gpu", 2),
    "random_state": ("seed", -1, 1.5, 2**40, np.random.default_rng(0)),
    "verbose": (-1, None, "loud"),
    "doc_topic_prior": (0.0, -1.0, np.inf, "1"),
    "n_topics": (0, -1, 1.5, "many", 2**16),
    "start_topics": (0, 1.5, 2**15 + 1),
    "max_topics": (0, None, 2**15 + 1),
    "concentration": (0.0, np.nan, None),
    "stick_prior": (0.0, np.nan, None),
    "loss": ("hinge", None),
    "strategy": ("ovo", None),
    "epsilon": (0.0, -1.0, np.inf, None),
    "C": (0.0, -1.0, np.inf),
    "variance": (0.0, -1.0, np.inf),
    "anchors": (1, None),
    "word_weights": (1, None),
    "augmentation": ("none", None),
    "decision": ("vote", None),
    "inference": ("drawn", None),
    "retention": (0.0, -0.5, 1.01, np.nan, None, "1"),
}


@every
@pytest.mark.parametrize(("burn_in", "n_sweeps"), [(3, 3), (1, 1), (7, 2)])
def test_a_burn_in_must_leave_sweeps(name: str, burn_in: int, n_sweeps: int) -> None:
    model = model_of(name, burn_in=burn_in, n_sweeps=n_sweeps)
    with pytest.raises(ValueError, match=rf"'burn_in'.*which is {n_sweeps}. Got {burn_in}"):
        model.fit(X, targets_of(name))
    assert not hasattr(model, "_learned")


@pytest.mark.parametrize(("anchors", "n_sweeps"), [(True, 2), (False, 3)])
def test_an_hdp_with_labels_makes_few_sweeps_if_they_are_anchored(
    anchors: bool, n_sweeps: int
) -> None:
    default, said = (
        model_of("born", anchors=anchors, n_sweeps=n).fit(X, targets_of("born"))
        for n in (None, n_sweeps)
    )
    np.testing.assert_array_equal(default.components_, said.components_)
    too_many = model_of("born", anchors=anchors, burn_in=n_sweeps)
    with pytest.raises(ValueError, match=rf"which is {n_sweeps}. Got {n_sweeps} instead"):
        too_many.fit(X, targets_of("born"))


@pytest.mark.parametrize("name", ["lda", "number"])
def test_only_classifiers_choose_how_many_documents_a_batch_has(name: str) -> None:
    with pytest.raises(ValueError, match=r"'batch_size'.*, or 'all'. Got None"):
        model_of(name, batch_size=None).fit(X, targets_of(name))


@pytest.mark.parametrize("name", ["lda", "averaging", "number"])
def test_others_make_three_sweeps_unless_told(name: str) -> None:
    default, given = (fitted(name, n_sweeps=n) for n in (None, 3))
    np.testing.assert_array_equal(default.components_, given.components_)
    assert (fitted(name, n_sweeps=4).components_ != given.components_).any()


@pytest.mark.parametrize("name", ["hdp", "averaging", "born", "number"])
def test_wrong_parameters_are_named(name: str) -> None:
    model, y = fitted(name), targets_of(name)
    before = file_of(model)
    right = model.get_params()
    homes = {field.name: home for home, kind in model._options.items() for field in fields(kind)}
    names = {*right, *homes} - set(model._options)
    assert names <= set(PARAMETERS)
    for parameter in sorted(names):
        owner = f"({'|'.join(kind.__name__ for kind in model._options.values())}) of "
        owner = f"{owner if parameter in homes else ''}{type(model).__name__}"
        for value in PARAMETERS[parameter]:
            wrong = {parameter: value}
            model.set_params(**({homes[parameter]: wrong} if parameter in homes else wrong))
            for learn in (model.fit, model.partial_fit):
                with pytest.raises(ValueError, match=f"'{parameter}' parameter of {owner}"):
                    learn(X, y)
            model.set_params(**right)
    assert file_of(model) == before


def check(options: SamplerOptions, **given: Any) -> None:
    usual: dict[str, Any] = {"n_sweeps": 3, "loss": None, "max_topics": None}
    check_options("Model", options, given.pop("unused", ()), **usual | given)


def test_options_that_contradict_other_parameters_are_named() -> None:
    check(SamplerOptions())
    with pytest.raises(ValueError, match=r"'ghosts' .* of Model must be left out.* Got 3\."):
        check(SamplerOptions(ghosts=3), unused=("init", "ghosts"))
    check(SamplerOptions(ghosts=1), unused=("init", "ghosts"))  # as if nothing was said
    check(SamplerOptions(start_topics=5), max_topics=5)
    with pytest.raises(ValueError, match=r"'start_topics' .* at most max_topics, which is 5"):
        check(SamplerOptions(start_topics=6), max_topics=5)
    check(SamplerOptions(burn_in=2))
    with pytest.raises(ValueError, match=r"'burn_in' .* less than n_sweeps, which is 3"):
        check(SamplerOptions(burn_in=3))
    check(SamplerOptions(decision="drawn"), loss="gibbs")
    with pytest.raises(ValueError, match=r"'decision' .* only if loss is 'gibbs'.*'averaging'"):
        check(SamplerOptions(decision="drawn"), loss="averaging")


def test_learners_count_a_hinge_twice() -> None:
    """C weighs one hinge, as in a support vector machine."""
    loss = max_margin_loss("gibbs", SamplerOptions(), C=3.0, variance=0.2, anchored=True)
    assert (loss.c, loss.margin, loss.variance, loss.regression) == (1.5, 1.0, 0.2, False)
    assert loss.anchored
    tube = max_margin_loss("averaging", SamplerOptions(), C=3.0, variance=0.2, epsilon=0.1)
    assert (tube.margin, tube.regression, tube.anchored) == (0.1, True, False)


@pytest.mark.parametrize(
    ("augmentation", "mean_only", "draws"),
    [("drawn", False, False), ("mean", True, False), ("all", False, True)],
)
def test_the_augmentation_says_what_is_drawn(
    augmentation: Any, mean_only: bool, draws: bool
) -> None:
    options = SamplerOptions(augmentation=augmentation)
    loss = max_margin_loss("gibbs", options, C=1.0, variance=1.0)
    assert (loss.mean_only, loss.draws_weights) == (mean_only, draws)


@pytest.mark.parametrize("kind", ["averaging", "gibbs"])
@pytest.mark.parametrize("setting", ["shared", "own", "multilabel", "hdp"])
def test_every_setting_has_defaults(setting: Any, kind: Any) -> None:
    for anchors in (True, False):
        assert min(default_strength(setting, kind, anchors=anchors)) > 0
    assert default_rounds(setting, kind, anchors=True) == 1
    # The averaging loss does not see labels in the first round without anchors.
    least = 2 if kind == "averaging" else 1
    assert default_rounds(setting, kind, anchors=False) >= least
