"""Contract of a model: the members that training, search, export and the other commands use.

A model is a Keras model that derives from `Model`. It has to define the abstract members: `from_hparams`, `cost`,
`encode`, `hidden`, `output` and `start`; the others have defaults. It is registered by name (`@register_model`), and
checked when a run starts.

Legend: B sentences, S source length, T target length, K hypotheses of a sentence, V target vocabulary, D width.
"""

from __future__ import annotations

import abc
import inspect
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.layers.dropout import draw_seed
from t2t_lite.layers.functions import current
from t2t_lite.layers.matmul import matmul
from t2t_lite.layers.matrix import Matrix, matrices_of
from t2t_lite.models.recipe_layer import of_config, to_config


class Cost(abc.ABC):
    """Arithmetic and memory of a model. A multiply-add counts as 2 FLOPs; matrix products only."""

    @abc.abstractmethod
    def forward_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        """FLOPs from ids to logits of one pair, or the sum over pairs whose lengths are int arrays [pairs]."""

    @abc.abstractmethod
    def activation_bytes(self, rows: int, source_length: int, target_length: int, bytes_per_value: int) -> int:
        """Roughly the memory that the forward pass over some rows keeps for the backward pass."""

    def training_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        """FLOPs in training: the backward pass has two products for each of the forward pass."""
        return 3 * self.forward_flops(source_lengths, target_lengths)


class Model(keras.Model, abc.ABC):
    """A sequence-to-sequence model.

    A batch holds "source" int [B, S] and "target" int [B, T], padded with 0, each sentence ended by 1. Where the model
    `packs`, rows of several pairs add "source_segment", "source_position", "target_segment" and "target_position".
    In a graph B, S and T may be unknown: x.shape then has None, and keras.ops.shape(x) has arrays.

    A seed is int32 [3] in training, None in inference. Give it to `fold_in`, `Dropout` and `random_bits` of
    layers.dropout alone; arrays that these draw for have the batch's rows on axis 0, or on the axis they are given.
    So results do not depend on the devices that share a batch: the seed's last number is that of the first row in the
    global batch.

    No member changes a variable, as Keras' own Dropout and BatchNormalization do: a resumed run would be another run.

    An export of a bfloat16 or float16 model stores matrices in that precision, except those of layers of your own or
    Keras' that compute in float32, and those that a class names in `FLOAT32` (see `layers.matrix`), such as the model's
    own class.

    Attributes:
        packs: understands segments and positions; otherwise packing=true is refused.
        xla: XLA can compile its training. It cannot if the model uses `keras.ops.scan`: in TensorFlow the loop has no
            largest length, which XLA needs for gradients. Such a model is trained in plain graphs, on GPUs too.
        remat: computes activations again for the gradients, which then need variables instead of their values.
        balance_groups: how many groups of consecutive rows a global batch has, each with a `further_loss` of its own.
            A device takes whole groups, so no more than these devices have work. 0: there is no further loss.
        guided_alignment: weight of a loss by which the head of `alignment_attention` learns the alignments of training
            batches (training/guided_alignment.py). 0: there is none.
        attention_kinds: what `attention_maps` returns, some of "encoder", "decoder" and "memory".
        hparams: the recipe that it is built from.

    The constructor's arguments are those of `from_hparams`. Keras can save a model whose own constructor passes them
    on; its precision is then the recipe's.
    """

    packs: bool = False
    xla: bool = True
    remat: bool = False
    balance_groups: int = 0
    guided_alignment: float = 0.0
    attention_kinds: tuple[str, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        keras.saving.register_keras_serializable(cls.__module__.partition(".")[0])(cls)

    def __init__(
        self,
        hparams: Any = None,
        source_vocab_size: int = 0,
        target_vocab_size: int = 0,
        shared: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**({} if hparams is None else {"dtype": policy_of(hparams.precision)}), **kwargs)
        self.hparams, self.shared = hparams, shared
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size

    @classmethod
    @abc.abstractmethod
    def from_hparams(cls, hparams: Any, source_vocab_size: int, target_vocab_size: int, shared: bool) -> Model:
        """Builds the model of a recipe, in its precision, with all its weights, each of a path of its own.

        Args:
            shared: the problem has one vocabulary for both sides.
        """

    @property
    @abc.abstractmethod
    def cost(self) -> Cost:
        """Arithmetic and memory."""

    @abc.abstractmethod
    def encode(self, batch: Mapping[str, Any], seed: Any = None) -> Any:
        """Reads the source. Returns any nest of arrays whose first axis is B."""

    @abc.abstractmethod
    def hidden(self, batch: Mapping[str, Any], seed: Any = None) -> Any:
        """Returns what the softmax layer is given, [B, T, D]; position t has seen the targets before t."""

    def hidden_and_sums(self, batch: Mapping[str, Any], seed: Any = None) -> tuple[Any, Any]:
        """Returns `hidden`, and the sums that `further_loss` takes, or None if there is no further loss.

        The sums are a float32 array [B, ...], of each row over its symbols. Training adds up the rows of a group.
        """
        return self.hidden(batch, seed), None

    def further_loss(self, sums: Any) -> Any:
        """Returns the losses of groups besides cross entropy, float32 [G], from their sums [G, ...].

        Their unit is nats for each real target symbol of the group.
        """
        raise NotImplementedError(f"{type(self).__name__} has sums, and so needs a further_loss.")

    @abc.abstractmethod
    def output(self) -> tuple[Any, Any]:
        """Returns the softmax layer's table [V, D] and its bias [V] or None; logits = hidden x table^T + bias.

        They are weights of the model, or float32 arrays computed from its weights.
        """

    @abc.abstractmethod
    def start(self, memory: Any, beam_size: int, steps: Any) -> tuple[Any, Any, Any]:
        """Begins a search, which writes K hypotheses for each of B sentences, one symbol of each in every step.

        The search uses what `start` returns like this:

            fixed, state, step = model.start(model.encode(batch), beam_size, steps)
            ids = zeros [B, K]
            for index in 0, 1, 2, ...:
                logits, state = step(ids, index, fixed, state)
                ids, parents = the best K continuations in logits, and which hypothesis each of them continues
                state = model.reorder(state, parents)

        `fixed` is what never changes, such as attention's keys and values of the source: a nest of arrays whose first
        axis is B. All K hypotheses of a sentence read the same row, so nothing is copied K times.

        `state` is what each hypothesis remembers, such as an LSTM's state or a KV cache: a nest of arrays [B, K, ...],
        or [B, ...] with a `reorder` of the model's own; and of scalars, which are the same for all sentences. Its
        structure, dtypes and known sizes are the same in all steps.

        `step` computes one position of all hypotheses from its arguments, and from weights, but not from `memory`:
        sentences that are done leave the search, so B shrinks in `ids`, `fixed` and `state`, and not in `memory`.

            ids: int [B, K], the symbols before this position; 0 at position 0.
            index: int scalar, the position.
            fixed, state: the latter as the step before returned it, reordered.

        It returns float32 logits [B, K, V], equal to those of `call` at this position, and the state after it, with
        the hypotheses in their old order.

        Args:
            memory: from `encode`.
            beam_size: K.
            steps: the largest number of steps. An int if XLA compiles the search: sizes cannot change then, so the
                state needs room for all steps. Otherwise an int scalar of the graph, and the state may have room for
                fewer steps at first; see `is_full`.

        Returns:
            (fixed, state, step).
        """

    def reorder(self, state: Any, parents: Any) -> Any:
        """Returns the state in which hypothesis k is what hypothesis parents[:, k] was (int [B, K]).

        By default arrays of more than one axis are [B, K, ...], and their rows are gathered; others stay.
        """
        sentences, beam_size = ops.shape(parents)
        rows = parents + beam_size * ops.arange(sentences, dtype=parents.dtype)[:, None]

        def gather(value: Any) -> Any:
            if len(value.shape) < 2:
                return value
            return ops.take(ops.reshape(value, (-1, *ops.shape(value)[2:])), rows, axis=0)

        return keras.tree.map_structure(gather, state)

    def is_full(self, state: Any) -> Any:
        """Whether `state` has no room for another step, bool scalar; the search then calls `renew`.

        A search that XLA compiles asks neither.
        """
        return ops.convert_to_tensor(False)

    def renew(self, state: Any, steps: Any) -> Any:
        """Returns `state` with room for `steps` more steps, or some of them."""
        return state

    @property
    def xla_search(self) -> bool:
        """Whether XLA can compile its search; by default, if it has no `renew` of its own.

        If it has one, and `start` makes room for all steps where `steps` is an int, say True.
        """
        return type(self).renew is Model.renew

    def members(self) -> dict[str, Model]:
        """Returns the models that it consists of, by a prefix that makes their weights' paths unique.

        By default that is the model itself, with the prefix "".
        """
        return {"": self}

    def attention_maps(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns float32 weights by kind, with the target given.

        "encoder" is [B, L, H, S, S], "decoder" [B, L, H, T, T] and "memory" [B, L, H, T, S], of L layers and H heads.
        Row t of the latter two belongs to the step that predicts target t; it is zeros if that step attends to nothing.
        """
        return {}

    @property
    def alignment_attention(self) -> Any:
        """The layer whose first head is an alignment of the target with the source; None: there is no such head.

        It gives its float32 weights [B, H, T, S] to its `recorder` (layers/recording.py), as in "memory" above.
        """
        return None

    def call(self, batch: Mapping[str, Any], seed: Any = None) -> Any:
        """Returns float32 logits [B, T, V] of all positions at once (teacher forcing)."""
        return self.logits(self.hidden(batch, seed))

    def __call__(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
        """Calls `call`; with training=True and no `seed` it draws one, by `keras.utils.set_random_seed`."""
        if training and len(args) < 2 and kwargs.get("seed") is None:
            kwargs["seed"] = draw_seed()
        return super().__call__(*args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Raises UsageError: Keras' `fit` and `evaluate` know neither the model's loss nor its padding."""
        raise UsageError(
            f"Keras' losses of a {type(self).__name__} would count padding. Train with t2t_lite.train, and with "
            "warm_start_from=RUN from another run's weights; t2t-lite-eval evaluates."
        )

    fit = evaluate = train_on_batch = test_on_batch = compile

    def generate(self, *args: Any, **kwargs: Any) -> None:
        """Raises UsageError: outputs need the vocabularies and a search."""
        raise UsageError(
            f"A {type(self).__name__} has no vocabularies. Open the run: t2t_lite.load(RUN).generate(lines). With ids, "
            "t2t_lite.decoding.beam_search.beam_search searches."
        )

    def quantize(self, *args: Any, **kwargs: Any) -> None:
        """Raises UsageError: Keras knows no matrix of the model's."""
        raise UsageError(
            f"Keras cannot quantize a {type(self).__name__}. Load the run in 8 bits, with t2t_lite.load(RUN, "
            "precision='int8'), or give t2t-lite-decoder or t2t-lite-exporter --precision=int8."
        )

    def export(self, *args: Any, **kwargs: Any) -> None:
        """Raises UsageError: an export needs the vocabularies and a search."""
        raise UsageError(
            f"Keras cannot export a {type(self).__name__} with its vocabularies and search. Use t2t-lite-exporter "
            "--output_dir=RUN."
        )

    def get_config(self) -> dict[str, Any]:
        """What it is built from; raises UsageError if its constructor did not pass that on to `Model`."""
        if self.hparams is None:
            raise UsageError(
                f"Keras cannot save a {type(self).__name__}, whose constructor does not pass the recipe on to "
                "t2t_lite.models.base.Model. A run holds recipe and weights: open it with t2t_lite.load(RUN); or take "
                "save_weights and load_weights, for the weights alone."
            )
        sizes = {"source_vocab_size": self.source_vocab_size, "target_vocab_size": self.target_vocab_size}
        return {**to_config(self.hparams), **sizes, "shared": self.shared}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Model:
        """The inverse of `get_config`, with new weights."""
        return cls.from_hparams(**of_config(config))

    def save_own_variables(self, store: Any) -> None:
        """As Keras'; raises UsageError if matrices are int8, which it would leave out in silence."""
        if any(isinstance(getattr(layer, name), Matrix) for layer, name, _ in matrices_of(self._flatten_layers())):
            raise UsageError(
                f"Keras would save a {type(self).__name__} without its int8 matrices. Save the model of "
                "t2t_lite.load(RUN), without precision='int8'."
            )
        super().save_own_variables(store)

    def build_from_config(self, config: Any) -> None:
        """Does nothing: the constructor makes all weights."""

    def logits(self, hidden: Any) -> Any:
        """Returns float32 logits [..., V] for `hidden`; the product is computed in the precision of `hidden`.

        In a search with a shortlist they are [B, K, C], of the candidates of each sentence.
        """
        if (shortlisted := current(self)) is not self:
            return shortlisted(hidden)
        table, bias = self.output()
        logits = ops.cast(matmul(hidden, table, transposed=True), "float32")
        return logits if bias is None else logits + ops.cast(bias, "float32")


def weights_by_path(model: keras.Model) -> dict[str, Any]:
    """Returns a model's weights by path, as checkpoints and exports have them; UsageError if two share one."""
    weights: dict[str, Any] = {}
    for weight in model.weights:
        if weight.path in weights:
            raise UsageError(
                f"The model {type(model).__qualname__} has two weights that are called {weight.path}, of which a "
                "checkpoint would hold one. Give each layer a name of its own; a layer that is built in a constructor "
                "has its own name alone in the path of its weights."
            )
        weights[weight.path] = weight
    return weights


def policy_of(precision: str) -> str:
    """Returns the name of Keras' dtype policy for a recipe's precision (not auto): weights are float32 in each."""
    return "float32" if precision == "float32" else f"mixed_{precision}"


def check_model(name: str, model_class: Any) -> None:
    """Raises UsageError, with a sentence that names each fault, if a registered class does not keep the contract."""
    if not (inspect.isclass(model_class) and issubclass(model_class, Model)):
        raise UsageError(
            f"The model {name!r} ({model_class!r}) does not derive from t2t_lite.models.base.Model, which says what a "
            "model has."
        )
    missing = sorted(model_class.__abstractmethods__)
    faults = [f"it has no {', '.join(missing)}"] if missing else []
    for member in _METHODS:
        found, wanted = _arguments(model_class, member), _arguments(Model, member)
        if found != wanted:
            faults.append(f"{member} takes {found}, not {wanted}")
    if faults:
        raise UsageError(
            f"The model {name!r} ({model_class.__qualname__}) does not keep the contract of t2t_lite.models.base.Model:"
            f" {'; '.join(faults)}."
        )


_METHODS = (
    *("from_hparams", "encode", "hidden", "hidden_and_sums", "further_loss", "output", "start", "reorder", "is_full"),
    *("renew", "attention_maps", "call"),
)


def _arguments(model_class: Any, member: str) -> str:
    method = getattr(model_class, member)
    names = inspect.signature(method).parameters if callable(method) else ()
    return f"({', '.join(name for name in names if name != 'self')})"
