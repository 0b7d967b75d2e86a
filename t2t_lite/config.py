"""HParams: one frozen, flat, typed record of everything a recipe decides, and its typed overrides.

Section and table numbers are those of "Attention Is All You Need" (Vaswani et al., 2017). The defaults are the
paper's base model. Each field is read in exactly one module (tests/test_architecture.py).
"""

from __future__ import annotations

import dataclasses
import math
import sys
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

from t2t_lite import tensor2tensor_names
from t2t_lite.errors import UsageError, did_you_mean

H = TypeVar("H", bound="HParams")


@dataclasses.dataclass(frozen=True)
class HParams:
    """A recipe. Change a copy with `replace(hparams, d_model=256)`.

    Raises:
        UsageError: a value outside its range, or values that contradict each other.
    """

    # Model (section 3, Table 3).
    num_layers: int = 6  # N, of the encoder and of the decoder
    d_model: int = 512  # size of embeddings and of every sub-layer's output (section 3.1)
    d_ff: int = 2048  # inner size of the feed-forward networks (section 3.3)
    num_heads: int = 8  # h, of each attention (section 3.2.2)
    d_k: int = 0  # size of a head's keys and queries; 0: d_model / num_heads (section 3.2.2)
    d_v: int = 0  # size of a head's values; 0: d_model / num_heads
    norm: Literal["post", "pre"] = "post"  # LayerNorm(x + Sublayer(x)) (section 3.1) or x + Sublayer(LayerNorm(x))
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"  # how places are encoded (section 3.5, Table 3 row (E))
    max_positions: int = 1024  # rows of the table of learned positions
    attention_window: int = 0  # r of Table 1: self-attention sees r / 2 positions to each side; 0: all of them
    share_embeddings: bool = True  # one matrix for source, target and softmax (section 3.4)
    initial_weights: Literal["glorot", "fairseq09", "fairseq012"] = "glorot"  # see docs/multi30k.md; not in the paper
    # Regularisation (section 5.4).
    dropout: float = 0.1  # P_drop: sub-layer outputs and the sums of embeddings and positions
    attention_dropout: float = 0.0  # on attention weights; not in the paper
    relu_dropout: float = 0.0  # inside the feed-forward network; not in the paper
    label_smoothing: float = 0.1  # epsilon_ls, the share of probability that is spread over the symbols
    label_smoothing_over: Literal["all", "others"] = "all"  # epsilon_ls shared by all V symbols, or by the wrong V - 1
    # Optimizer (section 5.3).
    optimizer: str = "adam"  # or sgd, nesterov, adafactor, or one of your own
    adam_beta1: float = 0.9  # adam: decay of the mean of gradients
    adam_beta2: float = 0.98  # adam: decay of the mean of squared gradients
    adam_epsilon: float = 1e-9  # adam: added to the root of that mean
    momentum: float = 0.9  # nesterov: decay of the sum of gradients
    schedule: str = "noam"  # equation (3); or inverse_sqrt, constant, halving, plateau, or one of your own
    learning_rate_factor: float = 1.0  # noam: multiplies equation (3)
    learning_rate: float = 0.0  # all but noam: the highest learning rate; it must be given
    warmup_steps: int = 4000  # noam, inverse_sqrt, constant: updates in which the learning rate rises
    halve_after: int = 0  # halving: updates before the learning rate is halved; it must be given
    halve_every: int = 0  # halving: updates from then on after which it is halved again; it must be given
    patience: int = 1  # plateau: the learning rate is halved after so many evaluations without a lower dev loss
    clip_norm: float = 0.0  # largest global gradient norm; 0: no clipping, as in the paper
    # Batches (section 5.1).
    batch_tokens: int = 25000  # padded tokens per side in one update, over all devices
    micro_batches: int = 1  # K equal parts of a batch, accumulated one after the other or spread over devices
    max_length: int = 256  # training leaves out pairs with a longer side; in pieces, with the end symbol
    packing: bool = False  # several pairs per row of max_length, instead of buckets by length
    # The run.
    train_steps: int = 100000  # updates; section 5.2: 100,000 (base), 300,000 (big)
    log_every: int = 100  # updates between two lines of metrics.jsonl
    eval_every: int = 5000  # updates between two evaluations on dev
    eval_lines: int = 0  # of dev, evenly spaced, that are decoded and scored at each evaluation; 0: all
    save_every: int = 0  # updates between two checkpoints; 0: only every save_minutes and at the end
    save_minutes: float = 10.0  # section 6.1: checkpoints "written at 10-minute intervals"; 0: off
    keep_checkpoints: int = 20  # the newest n are kept, and the best one by dev score beside them
    average_checkpoints: int = 5  # section 6.1: the last 5 (base) or 20 (big) are averaged; 0 or 1: none
    early_stopping: int = 0  # stop after this many evaluations without a better dev score or a lower dev loss; 0: never
    seed: int = 1  # of weights, dropout and the order of batches
    precision: Literal["float32", "bfloat16"] = "float32"  # of products; weights stay float32
    remat: bool = False  # keep only the inputs of layers, and compute the rest again: less memory, a quarter more time
    jit: Literal["auto", "on", "off"] = "auto"  # XLA; auto: on GPUs only
    # Decoding (section 6.1).
    beam_size: int = 4  # hypotheses kept at each step; 1: greedy
    length_penalty: float = 0.6  # alpha
    extra_length: int = 50  # an output has at most source length + this many pieces
    max_source_length: int = 512  # longer inputs are cut to this many pieces, and counted in a warning
    decode_batch_tokens: int = 2048  # padded source tokens decoded at once

    def __post_init__(self) -> None:
        for name, kind in _kinds(type(self)).items():
            _check_type(name, kind, getattr(self, name))
        _check_ranges(self)


# Fields that only some optimizers, or schedules, read: those whose constructors name them (train/choices.py).
OPTIMIZER_FIELDS = ("adam_beta1", "adam_beta2", "adam_epsilon", "momentum")
SCHEDULE_FIELDS = (
    *("learning_rate_factor", "learning_rate", "warmup_steps"),
    *("halve_after", "halve_every", "patience"),
)

_KINDS: dict[type[HParams], dict[str, Any]] = {}


def _kinds(cls: type[HParams]) -> dict[str, Any]:
    """The types of the fields by name; found once, as evaluating the annotations of all fields takes a millisecond."""
    if cls not in _KINDS:
        _KINDS[cls] = typing.get_type_hints(cls)
    return _KINDS[cls]


# The values that are taken: no recipe in use comes near the largest, and what lies above would run for ever or fill any
# memory.
_MANY = 10**9
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys("warmup_steps train_steps log_every eval_every keep_checkpoints patience".split(), (1, _MANY)),
    **dict.fromkeys(
        "save_every average_checkpoints early_stopping eval_lines halve_after halve_every".split(), (0, _MANY)
    ),
    **dict.fromkeys("learning_rate_factor learning_rate clip_norm".split(), (0, 1e38)),  # of float32
    "num_layers": (1, 256),
    "d_model": (1, 65_536),
    "d_ff": (1, 1_000_000),
    "num_heads": (1, 1024),
    "d_k": (0, 65_536),
    "d_v": (0, 65_536),
    "max_positions": (1, 10_000_000),
    "attention_window": (0, 10_000_000),
    "adam_epsilon": (0, 1),
    "batch_tokens": (1, 100_000_000),
    "micro_batches": (1, 10_000),
    "max_length": (1, 10_000_000),
    "save_minutes": (0, 1e7),
    "seed": (0, 2**63 - 1),
    "beam_size": (1, 1000),
    "length_penalty": (0, 10),
    "extra_length": (0, 10_000),
    "max_source_length": (1, 1_000_000),
    "decode_batch_tokens": (1, 10_000_000),
}
_FRACTIONS = "dropout attention_dropout relu_dropout label_smoothing adam_beta1 adam_beta2 momentum".split()
_MOST_PARAMETERS = 10**11


_LARGEST = sys.float_info.max  # JSON may hold integers above it; NaN is not in the range either


def _check_type(name: str, kind: Any, value: Any) -> None:
    if typing.get_origin(kind) is Literal:
        if value not in typing.get_args(kind):
            choices = ", ".join(map(str, typing.get_args(kind)))
            raise UsageError(
                f"hparams: {name}={value!r} is not one of: {choices}.{did_you_mean(str(value), typing.get_args(kind))}"
            )
    elif kind is float and (type(value) not in (int, float) or not -_LARGEST <= value <= _LARGEST):
        raise UsageError(f"hparams: {name}={value!r:.60} is not a finite number.")
    elif kind is str and type(value) is not str:
        raise UsageError(f"hparams: {name}={value!r:.60} is not a name.")
    elif kind in (int, bool) and type(value) is not kind:
        raise UsageError(f"hparams: {name}={value!r} is not {'an integer' if kind is int else 'true or false'}.")


def _check_ranges(hparams: HParams) -> None:
    for name in _FRACTIONS:
        value = getattr(hparams, name)
        if not 0 <= value < 1:
            raise UsageError(f"hparams: {name}={value} must be at least 0 and below 1.")
    for name, (least, largest) in _RANGES.items():
        value = getattr(hparams, name)
        if value < least:
            raise UsageError(f"hparams: {name}={_short(value)} must be at least {least}.")
        if value > largest:
            raise UsageError(f"hparams: {name}={_short(value)} must be at most {largest:,}.")
    if hparams.d_model % 2:
        raise UsageError(f"hparams: d_model={hparams.d_model} must be even: sines and cosines alternate (section 3.5).")
    if not (hparams.d_k and hparams.d_v) and hparams.d_model % hparams.num_heads:
        raise UsageError(
            f"hparams: d_model={hparams.d_model} is not a multiple of num_heads={hparams.num_heads}; "
            "choose another number of heads or give d_k and d_v."
        )
    if parameters(hparams) > _MOST_PARAMETERS:
        raise UsageError(
            f"hparams: num_layers={hparams.num_layers}, d_model={hparams.d_model}, d_ff={hparams.d_ff}, num_heads="
            f"{hparams.num_heads} and the like give a model of {parameters(hparams):.1e} parameters; at most "
            f"{_MOST_PARAMETERS:,} are taken. Choose a smaller one."
        )


def _short(value: float) -> str:
    """A number as it was given, unless it has many digits."""
    return str(value) if abs(value) < 10**30 else f"{'-' * (value < 0)}1e{int(math.log10(abs(value)))} or so"


def parameters(hparams: HParams, vocab_size: int = 0) -> int:
    """Parameters of a recipe's Transformer, at least: biases and norms, and all but one embedding, are not counted."""
    d_model, per_head = hparams.d_model, hparams.d_model // hparams.num_heads
    attention = 2 * d_model * hparams.num_heads * ((hparams.d_k or per_head) + (hparams.d_v or per_head))
    positions = 2 * hparams.max_positions * d_model if hparams.positions == "learned" else 0
    return hparams.num_layers * (3 * attention + 4 * d_model * hparams.d_ff) + positions + vocab_size * d_model


def _check_names(cls: type[HParams], names: Iterable[str]) -> None:
    """Raises UsageError if one of `names` is no field."""
    known = [field.name for field in dataclasses.fields(cls)]
    for name in names:
        if name not in known:
            answer = tensor2tensor_names.answer(tensor2tensor_names.HPARAMS, name)
            raise UsageError(f"hparams: there is no {name!r}.{answer or did_you_mean(name, known)}")


def replace(hparams: H, **changes: Any) -> H:
    """Returns a copy with `changes`; an unknown name raises UsageError with a did-you-mean."""
    _check_names(type(hparams), changes)
    return dataclasses.replace(hparams, **changes)


def override(hparams: H, text: str) -> H:
    """Returns a copy changed by `text`, such as 'd_model=1024,norm=pre': each value read as its field's type.

    Raises:
        UsageError: not name=value, an unknown or repeated name, or a value of another type.
    """
    hints = _kinds(type(hparams))
    given: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name or not value:
            raise UsageError(f"hparams: {item!r} is not of the form name=value.")
        _check_names(type(hparams), [name])
        if name in given:
            raise UsageError(f"hparams: {name!r} is given twice: {given[name]} and {value}.")
        given[name] = value
    return replace(hparams, **{name: _parse(name, hints[name], value) for name, value in given.items()})


def _parse(name: str, kind: Any, value: str) -> Any:
    if kind is bool:
        words = {"true": True, "1": True, "false": False, "0": False}
        if value.lower() not in words:
            raise UsageError(f"hparams: {name}={value} is not true or false.")
        return words[value.lower()]
    if kind in (int, float):
        try:
            if kind is int and value.lstrip("+-").isdigit():
                return int(value)
            number = float(value)
            if kind is int and number == int(number):
                return int(number)
            if kind is float:
                return number
        except (ValueError, OverflowError):
            pass
        raise UsageError(f"hparams: {name}={value:.60} is not {'an integer' if kind is int else 'a number'}.")
    return value


def to_dict(hparams: HParams) -> dict[str, Any]:
    """Returns the fields as a JSON-ready dict."""
    return dataclasses.asdict(hparams)


def from_dict(cls: type[H], values: Mapping[str, Any]) -> H:
    """The inverse of `to_dict`; names that `cls` does not have raise UsageError."""
    _check_names(cls, values)
    return cls(**values)
