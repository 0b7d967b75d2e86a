"""The groups of settings that recipes of all models have: optimization, batch, run, decode (see config.py).

What needs settings is given their group: the step `hparams.optimization`, the plan `hparams.batch`, the loop
`hparams.run`, a search `hparams.decode`.
"""

import dataclasses
import functools
import math
from typing import Literal

from t2t_lite.fields import COUNT, COUNT_OR_NONE, FRACTION, RATE, field

MOST_HYPOTHESES = 1000  # of a sentence

_of_optimizer = functools.partial(field, resume="reset", read_by="optimizer")
_of_schedule = functools.partial(field, resume="reset", read_by="schedule")
_steering = functools.partial(field, resume="always")  # fields that affect the run or its outputs, not the updates


@dataclasses.dataclass(frozen=True)
class OptimizerGroup:
    """Optimizer, schedule and loss (sections 5.3 and 5.4)."""

    optimizer: str = field("adam", "or adamw, sgd, nesterov, adafactor, or one of your own")
    adam_beta1: float = _of_optimizer(0.9, "adam: decay of the mean of gradients", FRACTION)
    adam_beta2: float = _of_optimizer(0.98, "adam: decay of the mean of squared gradients", FRACTION)
    adam_epsilon: float = _of_optimizer(1e-9, "adam: added to the root of that mean", (0, 1))
    weight_decay: float = _of_optimizer(
        0.0, "adamw: share of each weight that an update takes off, times the learning rate; fairseq's", (0.0, 1.0)
    )
    momentum: float = _of_optimizer(0.9, "nesterov: decay of the sum of gradients", FRACTION)
    schedule: str = field(
        "noam",
        "equation (3); or inverse_sqrt, cosine, wsd, constant, halving, plateau, or one of your own",
        resume="reset",
    )
    learning_rate_factor: float = _of_schedule(
        1.0, "noam: multiplies equation (3), whose d_model is the width of what the softmax layer is given", RATE
    )
    learning_rate: float = _of_schedule(0.0, "all but noam: the highest learning rate; it must be given", RATE)
    warmup_steps: int = _of_schedule(
        4000, "noam, inverse_sqrt, cosine, wsd, constant: updates in which the learning rate rises", COUNT
    )
    decay_steps: int = _of_schedule(
        0, "wsd: the last updates, in which the learning rate falls; it must be given", COUNT_OR_NONE
    )
    min_learning_rate: float = _of_schedule(0.0, "cosine, wsd: what the learning rate falls to", RATE)
    halve_after: int = _of_schedule(
        0, "halving: updates before the learning rate is halved; it must be given", COUNT_OR_NONE
    )
    halve_every: int = _of_schedule(
        0, "halving: updates from then on after which it is halved again; it must be given", COUNT_OR_NONE
    )
    patience: int = _of_schedule(
        1, "plateau: the learning rate is halved after so many evaluations without a lower dev loss", COUNT
    )
    clip_norm: float = field(0.0, "largest global gradient norm; 0: no clipping, as in the paper", RATE, resume="reset")
    label_smoothing: float = field(
        0.1, "epsilon_ls, the share of probability that is spread over the symbols", FRACTION
    )
    label_smoothing_over: Literal["all", "others"] = field(
        "all", "epsilon_ls shared by all V symbols, or by the wrong V - 1"
    )
    r_drop: float = field(
        0.0,
        "alpha of R-Drop: two passes with different dropout masks are to agree (Liang et al., 2021; 5 there); 0: off",
        (0.0, 1000.0),
    )
    ema: float = field(
        0.0,
        "decay of an average of the weights by update, at most (1 + n) / (10 + n) after n updates (Polyak and "
        "Juditsky, 1992; 0.999 or 0.9999 are usual); 0: none",
        FRACTION,
    )

    @property
    def passes(self) -> int:
        """How many forward passes an update makes over each row."""
        return 2 if self.r_drop else 1


@dataclasses.dataclass(frozen=True)
class BatchGroup:
    """Batches (section 5.1)."""

    batch_tokens: int = field(25000, "padded tokens per side in one update, over all devices", (1, 100_000_000))
    max_length: int = field(
        256, "training leaves out pairs with a longer side; in pieces, with the end symbol", (1, 10_000_000)
    )
    packing: bool = field(False, "several pairs per row of max_length, instead of buckets by length")
    sampling_temperature: float = field(
        1.0,
        "T of data in several pairs of languages: those with n pairs have a share of n^(1 / T) of an epoch "
        "(Arivazhagan et al., 2019; 5 there); 1: of n, each pair once",
        (1, 1e6),
    )
    bpe_dropout: float = field(
        0.0,
        "each epoch cuts text anew: in BPE so large a share of the merges is dropped (Provilkov et al., 2020; 0.1 "
        "there), in unigram pieces are drawn with this alpha (Kudo, 2018; 0.1 to 0.5 there); 0: off",
        FRACTION,
    )


@dataclasses.dataclass(frozen=True)
class RunGroup:
    """The run."""

    train_steps: int = _steering(100000, "updates; section 5.2: 100,000 (base), 300,000 (big)", COUNT)
    log_every: int = _steering(100, "updates between two lines of metrics.jsonl", COUNT)
    eval_every: int = field(5000, "updates between two evaluations on dev", COUNT, resume="unless_by_evaluations")
    eval_lines: int = _steering(
        0, "of dev, evenly spaced, that are decoded and scored at each evaluation; 0: all", COUNT_OR_NONE
    )
    save_every: int = _steering(
        0, "updates between two checkpoints; 0: only every save_minutes and at the end", COUNT_OR_NONE
    )
    save_minutes: float = _steering(10.0, 'section 6.1: checkpoints "written at 10-minute intervals"; 0: off', (0, 1e7))
    keep_checkpoints: int = _steering(20, "the newest n are kept, and the best one by dev score beside them", COUNT)
    average_checkpoints: int = _steering(
        5, "section 6.1: the last 5 (base) or 20 (big) are averaged; 0 or 1: none", COUNT_OR_NONE
    )
    early_stopping: int = _steering(
        0, "stop after this many evaluations without a better dev score or a lower dev loss; 0: never", COUNT_OR_NONE
    )
    seed: int = field(1, "of weights, dropout and the order of batches", (0, 2**63 - 1))
    precision: Literal["float32", "bfloat16", "float16", "auto"] = field(
        "float32", "of products; weights stay float32. auto: the best that the devices are fast in, when a run begins"
    )
    jit: Literal["auto", "on", "off"] = _steering("auto", "XLA; auto: on GPUs, for models that it can compile")

    @property
    def num_averaged(self) -> int:
        """How many of the last checkpoints are averaged, at least 1."""
        return max(self.average_checkpoints, 1)

    @property
    def num_kept(self) -> int:
        """How many of the newest checkpoints are kept."""
        return max(self.keep_checkpoints, self.num_averaged)

    def evaluates(self, step: int) -> bool:
        """Whether an evaluation follows update `step`."""
        return step > 0 and (step % self.eval_every == 0 or step == self.train_steps)

    def evaluations_after(self, step: int) -> int:
        """How many evaluations follow that after update `step`."""
        return math.ceil(self.train_steps / self.eval_every) - math.ceil(step / self.eval_every)

    def saves(self, step: int, minutes: float) -> bool:
        """Whether a checkpoint follows update `step`, `minutes` after the last one."""
        return (self.save_every > 0 and step % self.save_every == 0) or 0 < self.save_minutes <= minutes


@dataclasses.dataclass(frozen=True)
class DecodeGroup:
    """Decoding (section 6.1)."""

    beam_size: int = _steering(4, "hypotheses kept at each step; 1: greedy", (1, MOST_HYPOTHESES))
    length_penalty: float = _steering(0.6, "alpha", (0, 10))
    length_penalty_form: Literal["gnmt", "power"] = _steering(
        "gnmt", "scores are log-probabilities divided by ((5 + length) / 6)^alpha, or by length^alpha as in Marian"
    )
    coverage_penalty: float = _steering(
        0.0,
        "beta: the beam's outputs are ranked by how much of the source they attend to, too (Wu et al., 2016, equation "
        "14; 0.2 there); 0: they are not",
        (0, 10),
    )
    beam_groups: int = _steering(
        1,
        "groups that share beam_size and differ in their outputs (diverse beam search, Vijayakumar et al., 2018); 1: "
        "the usual search",
        (1, MOST_HYPOTHESES),
    )
    diversity_strength: float = _steering(
        0.5,
        "lambda of beam_groups: what a piece loses for each hypothesis of earlier groups that it continues",
        (0, 100),
    )
    unknown_output: bool = _steering(True, "outputs may have the unknown piece; in Marian they have none")
    no_repeat_ngram_size: int = _steering(
        0, "outputs have no so many pieces in a row twice (Paulus et al., 2018); 0: they may", (0, 100)
    )
    min_length: int = _steering(
        0,
        "outputs have at least so many pieces, the end symbol not counted; those whose longest length is less run to "
        "it, and have none",
        (0, 10_000),
    )
    repetition_penalty: float = _steering(
        1.0,
        "pieces that an output already has are less likely: theta of Keskar et al. (2019), as transformers has it; "
        "1: they are not",
        (1, 100),
    )
    max_length_factor: float = _steering(
        1.0,
        "an output has at most this times its source's pieces, rounded up, and extra_length more, end symbols counted; "
        "3 in Marian",
        (0, 100),
    )
    extra_length: int = _steering(
        50, "an output has at most max_length_factor times its source's pieces + this many", (0, 10_000)
    )
    max_source_length: int = _steering(
        512, "longer inputs are cut to this many pieces, and counted in a warning", (1, 1_000_000)
    )
    decode_batch_tokens: int = _steering(2048, "padded source tokens decoded at once", (1, 10_000_000))


DECODE = tuple(each.name for each in dataclasses.fields(DecodeGroup))
OF_OUTPUTS = tuple(name for name in DECODE if name != "decode_batch_tokens")  # those that outputs depend on
IN_SEARCH = tuple(name for name in OF_OUTPUTS if name != "max_source_length")  # those of the search's graph
# Those that files of version 0.1.0 may lack; default: as they were.
LATER = (
    *("length_penalty_form", "unknown_output", "max_length_factor"),
    *("no_repeat_ngram_size", "min_length", "repetition_penalty"),
    *("coverage_penalty", "beam_groups", "diversity_strength"),
)
# Those that do not go with a sampler.
OF_BEAM_SEARCH = (
    *("beam_size", "length_penalty", "length_penalty_form"),
    *("coverage_penalty", "beam_groups", "diversity_strength"),
)

# In the order in which they are shown and written; "model" comes first.
GROUPS: dict[type, str] = {OptimizerGroup: "optimization", BatchGroup: "batch", RunGroup: "run", DecodeGroup: "decode"}
