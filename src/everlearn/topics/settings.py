"""Settings of a topic model for one call: `TopicSettings`, and `Loss` for what labels cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from everlearn.topics.priors import FixedTopics, SharedSticks

LossKind: TypeAlias = Literal["averaging", "gibbs"]
WordFactor: TypeAlias = Literal["ratio", "digamma", "collapsed"]


@dataclass(frozen=True, slots=True)
class Loss:
    """What missing a margin costs.

    kind : "averaging" judges the mean weights, "gibbs" weights drawn from their posterior
    margin : of the hinge, 1 for classes; of a regression, half the width of the tube
    c : half the weight of the loss
    variance : prior variance of a weight
    anchored : whether the prior means of a topic's weights are the code of one class
    regression : whether scores should be near numbers instead of beyond a margin
    mean_only : whether augmentation variables take their means instead of being drawn
    draws_weights : whether each round of "gibbs" draws the weights instead of using their posterior
    """

    kind: LossKind
    margin: float
    c: float
    variance: float
    anchored: bool = True
    regression: bool = False
    mean_only: bool = False
    draws_weights: bool = False


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """All parameters of a topic model for one call, checked, in the form in which they are used.

    prior : of the topic proportions of a document
    smoothing : Dirichlet parameter of a topic over words
    loss : None without labels
    word_factor : "ratio" of expected counts, "digamma" of the mean field, or "collapsed"
    init : how tokens get their first topics; those of the very first batch are always "uniform"
    n_rounds, n_sweeps, burn_in : rounds in a batch, sweeps in a round, and how many are dropped
    tol : rounds end when the objective falls by less than this share of it; None: never
    ghosts : copies that each document stands for
    inference_passes : passes over a new document, or sweeps if `sampled_inference`
    sampled_inference : whether the topics of new documents are drawn instead of expected ones
    drawn_decision : whether scores use one draw of the weights instead of their means
    retention : share of the evidence of earlier batches that is left at each batch
    max_word_multiplier : limit of the multipliers of words' own weights; 0 for no such weights
    max_topics : number of topics at which no more are born
    warmup_documents, warmup_sweeps : documents that a model begins with, and sweeps over them

    name : class of the estimator, for messages
    n_topics : the parameter as given; None if the model chooses or finds the number
    start_topics : topics of a new model
    n_models : 1, or the number of tasks if each has topics of its own
    classes : names of the classes, for warnings of collapse; empty if there is nothing to watch
    batch_size : documents in a batch; None for all of a call
    n_passes : passes over all documents in `fit`
    shuffle : whether `fit` visits documents in random order
    verbose : 1 shows a progress bar
    """

    prior: FixedTopics | SharedSticks
    smoothing: float
    loss: Loss | None = None
    word_factor: WordFactor = "ratio"
    init: Literal["predictive", "uniform"] = "predictive"
    n_rounds: int = 1
    n_sweeps: int = 3
    burn_in: int = 0
    tol: float | None = None
    ghosts: int = 1
    inference_passes: int = 2
    sampled_inference: bool = False
    drawn_decision: bool = False
    retention: float = 1.0
    max_word_multiplier: float = 0.0
    max_topics: int = 1000
    warmup_documents: int = 0
    warmup_sweeps: int = 0
    name: str = "TopicModel"
    n_topics: int | str | None = None
    start_topics: int = 1
    n_models: int = 1
    classes: tuple[str, ...] = ()
    batch_size: int | None = None
    n_passes: int = 1
    shuffle: bool = True
    verbose: int = 0

    def for_batch(self, n_known: int) -> TopicSettings:
        """The settings for a batch that comes after `n_known` documents.

        Early topics are still random and say little about a new document. So the first documents
        get many sweeps, with word counts that follow every draw.
        """
        if n_known >= self.warmup_documents:
            return self
        n_sweeps = max(self.n_sweeps, self.warmup_sweeps)
        return replace(
            self, word_factor="collapsed", n_sweeps=n_sweeps, burn_in=n_sweeps - self.n_kept
        )

    def first_batch(self, n_documents: int, n_labelled: int, size: int) -> int:
        """Documents in the first batch of a corpus, if all others have `size`.

        A model that finds the number of topics without labels keeps some documents back, to judge
        by them which topics it needs. Labelled documents come first, because topics must know what
        labels mean before other documents take them.
        """
        first = max(size, self.warmup_documents)
        if self.warmup_documents and self.grows and self.loss is None:
            first = max(1, min(first, n_documents * 3 // 4))
        return min(first, n_labelled or n_documents)

    @property
    def collapsed(self) -> bool:
        """Whether word counts follow every draw; topics that are born without labels need it."""
        return self.word_factor == "collapsed" or (self.grows and self.loss is None)

    @property
    def grows(self) -> bool:
        """Whether topics are born."""
        return isinstance(self.prior, SharedSticks)

    @property
    def anchored(self) -> bool:
        """Whether each topic has a class."""
        return self.loss is not None and self.loss.anchored

    @property
    def n_kept(self) -> int:
        """Sweeps of a round that count."""
        return self.n_sweeps - self.burn_in

    @property
    def max_multiplier(self) -> float:
        """Largest multiplier of the averaging loss; 0 without labels."""
        return 0.0 if self.loss is None else 2.0 * self.loss.c * self.ghosts

    @property
    def first_pull(self) -> float:
        """Multiplier of every label while tokens get their first topics, under the Gibbs loss.

        A document without topics misses every margin, and a margin that is missed pulls with 2c.
        Without anchors the pull is 0: labels may mean nothing yet.
        """
        if self.loss is None or self.loss.kind != "gibbs" or not self.loss.anchored:
            return 0.0
        return 2.0 * self.loss.c

    def closed_form(self, number: int) -> tuple[float, float, float]:
        """Margin, variance and largest multiplier for a round that makes multipliers itself.

        The first round does so with anchors, so that labels count at once. Other rounds have a
        largest multiplier of 0: they use the multipliers of the round before.
        """
        if self.loss is None or number > 0 or not self.loss.anchored:
            return 0.0, 1.0, 0.0
        return self.loss.margin, self.loss.variance, self.max_multiplier
