"""Check of a model's shapes before a run begins: its members are traced on a tiny batch; nothing is computed.

Without it, a model that breaks the contract of `base.Model` would end in a traceback at the first update. A fault in
the search would appear only hours later, at the first evaluation. There are two traces: with known sizes, of which each
is checked, and with unknown sizes and a seed, as the graphs of training have them.

Legend: B sentences, S source length, T target length, K hypotheses, V target vocabulary, D width.
"""

from __future__ import annotations

import collections
import contextlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

# Keras has no other way than clear_session, which also takes from a program whatever else it has set there.
from keras.src.backend.common import global_state

from t2t_lite import config
from t2t_lite.errors import T2TError, UsageError
from t2t_lite.layers.recording import record
from t2t_lite.models.base import Cost, Model, weights_by_path
from t2t_lite.ops.batch_shards import batch_shards

B, S, T, K = 2, 5, 7, 3  # unequal, so that no axis can be mistaken for another
_KNOWN = ((B, S), (B, T), (B, K), (B, K), ())
_AS_IN_TRAINING = (*[(None, None)] * 2, *[(None, K)] * 2, (), (3,))  # the last is the seed
_MAPS = {"encoder": ((S, S), "S, S"), "decoder": ((T, T), "T, T"), "memory": ((T, S), "T, S")}  # rows and columns
# A model with more layers is traced with these sizes instead, by whether its two vocabularies have the same size.
LAYERS = 2
_KERAS = re.compile("\x1b\\[1m(.*?)\x1b\\[0m", re.DOTALL)  # the message, in bold; Keras adds a call's arguments to it
_SIZES = " It is traced with unknown sizes, as in training: keras.ops.shape(x) has them, x.shape has None."
_SEED = " A seed is int32 [3]: pass it to fold_in, Dropout or random_bits of t2t_lite.layers.dropout, to nothing else."
TWIN_SIZES = {True: (97, 97), False: (97, 89)}
_COUNTERS = "object_name_uids"
# Operations that change a variable; the last is TensorFlow's random generator, whose state is a variable.
_WRITES = ("Assign", "ResourceScatter", "ResourceStridedSliceAssign", "RngReadAndSkip")


def make_checked(
    name: str, model_class: Any, hparams: Any, sizes: tuple[int, int], shared: bool, *, training: bool = True
) -> Model:
    """Builds a registered model with `Model.from_hparams` and checks its shapes.

    Args:
        sizes: of the source vocabulary and of the target vocabulary.
        training: whether it is also traced as in training; runs are opened without that, as it takes seconds.

    Raises:
        UsageError: the message says which member broke the contract, what it gave and what it had to give.
    """
    file = getattr(sys.modules.get(model_class.__module__), "__file__", None) or ""
    check = _Check(f"The model {name!r} ({model_class.__qualname__})", file)
    with _number_again():
        model = check.call("from_hparams", model_class.from_hparams, hparams, *sizes, shared)
    if not isinstance(model, Model):
        raise check.fault(f"from_hparams returned a {type(model).__name__}, not a model")
    weights_by_path(model)
    cost = check.call("cost", lambda: model.cost)
    if not isinstance(cost, Cost):
        raise check.fault(f"cost is a {type(cost).__name__}, not a t2t_lite.models.base.Cost")
    if not set(model.attention_kinds) <= set(_MAPS):
        raise check.fault(f"attention_kinds is {model.attention_kinds!r}; there are {', '.join(_MAPS)}")
    check.output(model, sizes[1])
    if getattr(hparams, "num_layers", 0) > LAYERS:
        try:  # with fewer layers and symbols, as tracing `base` takes seconds
            twin_sizes = TWIN_SIZES[sizes[0] == sizes[1]]
            twin = model_class.from_hparams(config.replace(hparams, num_layers=LAYERS), *twin_sizes, shared)
            _trace(check, twin, twin_sizes[1], training)
            return model
        except Exception:  # then the model itself is traced, to find what is wrong or that nothing is
            pass
    _trace(check, model, sizes[1], training)
    return model


@contextlib.contextmanager
def _number_again() -> Iterator[None]:
    """Within it, Keras' counters of unnamed layers begin at 0; after it, they continue as if nothing had been made.

    Keras counts in the process: embedding, embedding_1. So the weights of a model that is made a second time, as for
    `t2t_lite.load` after `t2t_lite.train`, would not have the paths that the checkpoints have.
    """
    before = global_state.get_global_attribute(_COUNTERS)
    global_state.set_global_attribute(_COUNTERS, collections.defaultdict(int))
    try:
        yield
    finally:
        global_state.set_global_attribute(_COUNTERS, before)


def _trace(check: _Check, model: Model, vocab_size: int, training: bool) -> None:
    """Checks the members of a model whose target vocabulary has size `vocab_size`."""
    before = {weight.path for weight in model.weights}

    @tf.function(autograph=False)
    def trace(source: Any, target: Any, ids: Any, parents: Any, number: Any, seed: Any = None) -> None:
        batch = {"source": source, "target": target}
        if seed is not None:  # as where several processors share the rows
            batch, seed = next(batch_shards(batch, seed, 2))
        memory = check.call("encode", model.encode, {"source": source})
        check.sentences_first("encode's result", memory, scalars=False)
        table = check.output(model, vocab_size)
        aligns = training and model.guided_alignment > 0
        with record([model.alignment_attention] if aligns else []) as alignments:
            check.hidden("hidden's result", check.call("hidden", model.hidden, batch, seed), table.shape[1])
        if aligns:
            check.alignment(model, alignments)
        if training:
            check.sums(model, batch, seed, table.shape[1])
        check.maps(model, batch)
        check.search(model, memory, ids, parents, number, vocab_size)

    check.advice = ""
    try:
        trace.get_concrete_function(*(tf.TensorSpec(shape, tf.int32) for shape in _KNOWN))
        check.advice = _SIZES
        if training:
            concrete = trace.get_concrete_function(*(tf.TensorSpec(shape, tf.int32) for shape in _AS_IN_TRAINING))
            check.writes(concrete.graph)
    except UsageError:
        if late := sorted({weight.path for weight in model.weights} - before):
            raise check.fault(
                f"from_hparams has to make all weights; {', '.join(late)} came with a later call"
            ) from None
        raise


class _Check:
    """The checks of one model; see `make_checked`.

    Args:
        who: the model's name, which begins a sentence.
        file: the file that defines its class.

    Attributes:
        advice: a sentence, after a space, that ends the message on what a member raises.
    """

    def __init__(self, who: str, file: str) -> None:
        self._who, self._file = who, file
        self.advice = ""

    def fault(self, what: str) -> UsageError:
        """The error for a broken contract, as a sentence."""
        return UsageError(f"{self._who} does not keep the contract of t2t_lite.models.base.Model: {what}.")

    def call(self, member: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a member; what it raises becomes a sentence that names the line."""
        try:
            return function(*arguments)
        except T2TError:
            raise
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if frame.filename == self._file] or frames
            said = _KERAS.search(str(error))
            text = " ".join((said[1] if said else str(error)).split())
            advice = _SEED if "seed" in text else self.advice
            raise UsageError(
                f"{self._who}: {member} raised {type(error).__name__}: {text:.500} ({own[-1].filename}, line "
                f"{own[-1].lineno}).{advice}"
            ) from error

    def output(self, model: Model, vocab_size: int) -> Any:
        """Checks `output`, and returns its table."""
        output = self.call("output", model.output)
        if not (isinstance(output, tuple) and len(output) == 2):
            raise self.fault(f"output returned a {type(output).__name__}, not (table, bias or None)")
        for what, weight, axes in zip(("table", "bias"), output, ("[V, D]", "[V]"), strict=True):
            if weight is None and what == "bias":
                continue
            if not hasattr(weight, "shape") or _dtype(weight) != "float32":
                raise self.fault(
                    f"output's {what} is {_show(weight)}, not a float32 weight or array computed from weights"
                )
            wanted = (vocab_size, None)[: axes.count(",") + 1]
            self._shape(f"output's {what}", weight, wanted, axes)
        return output[0]

    def hidden(self, what: str, hidden: Any, width: int) -> None:
        """Checks the shape of `hidden`; `width` is that of output's table."""
        self._shape(what, hidden, (B, T, width), "[B, T, D], D as in output's table")

    def sums(self, model: Model, batch: dict[str, Any], seed: Any, width: int) -> None:
        """Checks `hidden_and_sums`, if the model has its own or groups, and `further_loss`."""
        if type(model).hidden_and_sums is Model.hidden_and_sums and not model.balance_groups:
            return
        found = self.call("hidden_and_sums", model.hidden_and_sums, batch, seed)
        if not (isinstance(found, tuple) and len(found) == 2):
            raise self.fault(f"hidden_and_sums returned {_show(found)}, not (hidden, sums or None)")
        hidden, sums = found
        self.hidden("hidden_and_sums' hidden", hidden, width)
        if (sums is None) != (model.balance_groups == 0):
            raise self.fault(f"hidden_and_sums' sums are {_show(sums)}, and balance_groups is {model.balance_groups}")
        if sums is None:
            return
        if _dtype(sums) != "float32":
            raise self.fault(f"hidden_and_sums' sums are {_show(sums)}, not a float32 array")
        self.sentences_first("hidden_and_sums' sums", sums, scalars=False)
        loss = self.call("further_loss", model.further_loss, sums)
        if _dtype(loss) != "float32" or len(loss.shape) != 1:
            raise self.fault(f"further_loss returned {_show(loss)}, not float32 [G]")

    def alignment(self, model: Model, found: Sequence[Any]) -> None:
        """Checks what `hidden` recorded of `alignment_attention`, of a model that learns alignments."""
        what = f"guided_alignment is {model.guided_alignment:g}"
        if model.alignment_attention is None:
            raise self.fault(f"{what}, and alignment_attention is None; it has to return the layer that learns them")
        if len(found) != 1:
            raise self.fault(
                f"{what}, and hidden gave the recorder of alignment_attention {len(found)} arrays, not one "
                "(t2t_lite.layers.recording: recorder(layer)(weights))"
            )
        self._shape("what alignment_attention records", found[0], (B, None, T, S), "[B, H, T, S]")

    def maps(self, model: Model, batch: dict[str, Any]) -> None:
        """Checks `attention_maps`, if the model says that it has some."""
        if not model.attention_kinds:
            return
        found = self.call("attention_maps", model.attention_maps, batch)
        if not isinstance(found, dict) or set(found) != set(model.attention_kinds):
            kinds = ", ".join(found) or "nothing" if isinstance(found, dict) else _show(found)
            raise self.fault(
                f"attention_maps returned {kinds}, and attention_kinds says {', '.join(model.attention_kinds)}"
            )
        for kind, weights in found.items():
            sizes, axes = _MAPS[kind]
            self._shape(f"attention_maps' {kind!r}", weights, (B, None, None, *sizes), f"[B, L, H, {axes}]")

    def search(self, model: Model, memory: Any, ids: Any, parents: Any, number: Any, vocab_size: int) -> None:
        """Checks `start`, its step, `reorder` and `is_full`."""
        begun = self.call("start", model.start, memory, K, number)
        if not (isinstance(begun, tuple) and len(begun) == 3 and callable(begun[2])):
            raise self.fault("start has to return (fixed, state, step), the last of them a function")
        fixed, state, step = begun
        self.sentences_first("start's fixed", fixed, scalars=False)
        self.sentences_first("start's state", state, scalars=True)
        if type(model).reorder is Model.reorder:
            for where, value in _leaves(state):
                if len(value.shape) > 1:
                    self._shape(f"start's state{where}", value, (B, K, *value.shape[2:]), "[B, K, ...]")
        stepped = self.call("step", step, ids, number, fixed, state)
        if not (isinstance(stepped, tuple) and len(stepped) == 2):
            raise self.fault("step has to return (logits, state)")
        logits, after = stepped
        self._shape("step's logits", logits, (B, K, vocab_size), "[B, K, V]")
        if _dtype(logits) != "float32":
            raise self.fault(f"step's logits are {_dtype(logits)}, not float32")
        self._same("step", state, after)
        if ids.shape[0]:
            self._one_sentence(step, ids, number, fixed, state, vocab_size)
        self._same("reorder", state, self.call("reorder", model.reorder, after, parents))
        full = self.call("is_full", model.is_full, state)
        if _dtype(full) != "bool" or len(full.shape):
            raise self.fault(f"is_full returned {_show(full)}, not a bool scalar")

    def _one_sentence(self, step: Any, ids: Any, number: Any, fixed: Any, state: Any, vocab_size: int) -> None:
        """Checks that `step` continues when a sentence has left the search: it uses what it is given, not start's."""
        ids, fixed, state = keras.tree.map_structure(lambda x: x[:1] if len(x.shape) else x, (ids, fixed, state))
        try:
            logits, after = step(ids, number, fixed, state)
            self._shape("", logits, (1, K, vocab_size), "")
            self._same("step", state, after)
        except Exception as error:
            raise self.fault(
                "step has to compute with the `fixed` and `state` that it is given, not with start's memory, which has "
                "all sentences: those that are done leave a search"
            ) from error

    def writes(self, graph: Any) -> None:
        """Checks that a graph changes no variable, in loops and branches too: a resumed run would be another run."""
        definition = graph.as_graph_def()
        nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
        # A name begins with those of the Keras layers that made the operation.
        if writes := sorted({node.name for node in nodes if node.op.startswith(_WRITES)}):
            raise self.fault(
                f"in training it changes variables by itself ({', '.join(writes[:3])}); only updates may change them. "
                "Take Dropout of t2t_lite.layers.dropout, and a norm without running statistics"
            )

    def _shape(self, what: str, value: Any, wanted: tuple[int | None, ...], axes: str) -> None:
        if not _fits(value, wanted):
            sizes = ", ".join("any" if size is None else str(size) for size in wanted)
            raise self.fault(
                f"{what} is {_show(value)}, not [{sizes}], which is {axes} with B={B}, S={S}, T={T} and K={K}"
            )

    def sentences_first(self, what: str, nest: Any, *, scalars: bool) -> None:
        """Checks that all arrays have sentences on their first axis; with `scalars`, they may have no axis at all."""
        for where, value in _leaves(nest):
            if not hasattr(value, "shape"):
                raise self.fault(f"{what}{where} is a {type(value).__name__}, not an array")
            if not (scalars and len(value.shape) == 0):
                wanted = (B, *value.shape[1:]) if len(value.shape) else (B,)
                self._shape(f"{what}{where}", value, wanted, "sentences on the first axis")

    def _same(self, member: str, state: Any, after: Any) -> None:
        """Checks that a state keeps its structure, dtypes and sizes."""
        try:
            keras.tree.assert_same_structure(state, after)
        except (TypeError, ValueError):
            raise self.fault(f"{member} has to return a state of the structure that it was given") from None
        for (where, one), (_, other) in zip(_leaves(state), _leaves(after), strict=True):
            if not _fits(other, tuple(one.shape)) or _dtype(one) != _dtype(other):
                raise self.fault(
                    f"{member} made {_show(other)} of state{where}, which was {_show(one)}; its sizes and dtype may "
                    "not change"
                )


def _fits(value: Any, wanted: tuple[int | None, ...]) -> bool:
    """Whether a shape is as wanted; None in either is any size."""
    shape = tuple(getattr(value, "shape", ("no array",)))
    return len(shape) == len(wanted) and all(None in (a, b) or a == b for a, b in zip(shape, wanted, strict=True))


def _leaves(nest: Any) -> list[tuple[str, Any]]:
    """(where, array) of a nest: ("['layers'][0]", h)."""
    return [("".join(f"[{key!r}]" for key in path), value) for path, value in keras.tree.flatten_with_path(nest)]


def _dtype(value: Any) -> str:
    return str(keras.backend.standardize_dtype(value.dtype)) if hasattr(value, "dtype") else type(value).__name__


def _show(value: Any) -> str:
    """ "float32 [2, 7, 16]"."""
    if not hasattr(value, "shape"):
        return f"a {type(value).__name__}"
    return f"{_dtype(value)} [{', '.join('any' if size is None else str(size) for size in value.shape)}]"
