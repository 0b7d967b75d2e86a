"""A model whose members give wrong shapes is refused before a run begins, in a sentence that names the member."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import ops

from t2t_lite import config, registry
from t2t_lite.errors import UsageError
from t2t_lite.layers.recording import recorder
from t2t_lite.models import base
from t2t_lite.models.bytenet import ByteNet
from t2t_lite.models.convs2s import ConvS2S
from t2t_lite.models.cost import CostPerSymbol
from t2t_lite.models.moe import Moe
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_moe import TransformerMoe
from t2t_lite.runs.checkpoint import Checkpoints
from t2t_lite.runs.model_check import make_checked
from t2t_lite.runs.run_dir import make_model

V, D = 23, 4


class _Sound(base.Model):
    """Adds the mean of the source's vectors to each target's."""

    cost = CostPerSymbol(1, 1)

    def __init__(self, vocab_size: int) -> None:
        super().__init__(name="sound", autocast=False)
        self.table = self.add_weight(name="table", shape=(vocab_size, D))
        self.built = True

    @classmethod
    def from_hparams(cls, hparams: Any, source_vocab_size: int, target_vocab_size: int, shared: bool) -> Any:
        return cls(target_vocab_size)

    def encode(self, batch: Any, seed: Any = None) -> Any:
        return ops.mean(ops.take(self.table, batch["source"], axis=0), 1)  # [B, D]

    def hidden(self, batch: Any, seed: Any = None) -> Any:
        return ops.take(self.table, batch["target"], axis=0) + self.encode(batch)[:, None]

    def output(self) -> Any:
        return self.table, None

    def start(self, memory: Any, beam_size: int, steps: Any) -> Any:
        def step(ids: Any, index: Any, fixed: Any, state: Any) -> Any:
            h = state["h"] + ops.take(self.table, ids, axis=0) + fixed[:, None]
            return self.logits(h), {"h": h, "seen": state["seen"] + 1}

        h = ops.zeros((*ops.shape(memory)[:1], beam_size, D))
        return memory, {"h": h, "seen": ops.convert_to_tensor(0)}, step


def _with_step(change: Any) -> Any:
    """A `start` whose step passes its result through `change`."""

    def start(self: Any, memory: Any, beam_size: int, steps: Any) -> Any:
        fixed, state, step = _Sound.start(self, memory, beam_size, steps)
        return fixed, state, lambda *arguments: change(*step(*arguments))

    return start


def _begun(state: Any) -> Any:
    """A `start` that returns another state."""

    def start(self: Any, memory: Any, beam_size: int, steps: Any) -> Any:
        fixed, _, step = _Sound.start(self, memory, beam_size, steps)
        return fixed, state, step

    return start


def _begun_with_memory(self: Any, memory: Any, beam_size: int, steps: Any) -> Any:
    fixed, state, step = _Sound.start(self, memory, beam_size, steps)
    return fixed, state, lambda ids, index, _, state: step(ids, index, memory, state)


def _raises(*_: Any, **__: Any) -> Any:
    raise KeyError("units")


def _called(cls: Any, hparams: Any, source_vocab_size: int, target_vocab_size: int, shared: bool) -> Any:
    model = cls(target_vocab_size)
    model({"source": ops.zeros((1, 2), "int32"), "target": ops.zeros((1, 2), "int32")})
    return model


def _late(self: Any, batch: Any, seed: Any = None) -> Any:
    self.late = self.add_weight(name="late", shape=(D,))
    return _Sound.hidden(self, batch) + self.late


def _with_sums(sums: Any, groups: int = 2, **members: Any) -> dict[str, Any]:
    """Members of a model whose `hidden_and_sums` returns `sums`."""
    return {
        "hidden_and_sums": lambda self, batch, seed=None: (_Sound.hidden(self, batch), sums),
        "balance_groups": groups,
        **members,
    }


def _with_noise(self: Any, batch: Any, seed: Any = None) -> Any:
    hidden = _Sound.hidden(self, batch)
    return hidden if seed is None else hidden + tf.random.stateless_normal(tf.shape(hidden), seed), None


def _with(layer: Callable[[], Any], call: Any = lambda layer, x: layer(x, training=True)) -> dict[str, Any]:
    """Members of a model whose `hidden` passes through `call` with a layer of its own, where it is given a seed."""

    def init(self: Any, vocab_size: int) -> None:
        _Sound.__init__(self, vocab_size)
        self.own = layer()
        self.own.build((None, None, D))

    def hidden(self: Any, batch: Any, seed: Any = None) -> Any:
        found = _Sound.hidden(self, batch)
        return found if seed is None else call(self.own, found)

    return {"__init__": init, "hidden": hidden}


def _in_a_loop(layer: Any, x: Any) -> Any:
    return ops.fori_loop(0, 2, lambda _, x: layer(x, training=True), x)


def _from_hparams(make: Callable[[Any, int], Any]) -> dict[str, Any]:
    def from_hparams(cls: Any, hparams: Any, source_vocab_size: int, target_vocab_size: int, shared: bool) -> Any:
        return make(cls, target_vocab_size)

    return {"from_hparams": classmethod(from_hparams)}


def _hidden(change: Callable[[Any, Any, Any], Any], name: str = "hidden") -> dict[str, Any]:
    """A `hidden`, or `hidden_and_sums`, that returns change(model, batch, what it would return)."""
    return {name: lambda self, batch, seed=None: change(self, batch, _Sound.hidden(self, batch))}


def _relogit(change: Any) -> dict[str, Any]:
    return {"start": _with_step(lambda logits, state: (change(logits), state))}


LAYER = keras.layers.Layer()


def _recording(weights: Callable[[Any], Any]) -> dict[str, Any]:
    """Members of a model that learns alignments and records `weights(batch)` as those of its head."""

    def hidden(self: Any, batch: Any, seed: Any = None) -> Any:
        if give := recorder(LAYER):
            give(weights(batch))
        return _Sound.hidden(self, batch)

    return {"guided_alignment": 0.1, "alignment_attention": LAYER, "hidden": hidden}


LEFT = "step has to compute with the `fixed` and `state` that it is given, not with start's memory"
CHANGES = "in training it changes variables by itself ("
SIZES = "It is traced with unknown sizes, as in training: keras.ops.shape(x) has them, x.shape has None."
# For each fault: the members of a class derived from `_Sound`, and part of the message.
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "from_hparams raises": ({"from_hparams": classmethod(_raises)}, "from_hparams raised KeyError: 'units' ({file}, "),
    "no model": (_from_hparams(lambda cls, size: 7), "from_hparams returned a int, not a model."),
    "cost": ({"cost": 12}, "cost is a int, not a t2t_lite.models.base.Cost."),
    "output alone": ({"output": lambda self: self.table}, "output returned a Variable, not (table, bias or None)."),
    "a table in the precision": (
        {"output": lambda self: (ops.cast(self.table, "bfloat16"), None)},
        "output's table is bfloat16 [23, 4], not a float32 weight",
    ),
    "vocabulary": (
        _from_hparams(lambda cls, size: cls(31)),
        f"output's table is float32 [31, 4], not [{V}, any], which is [V, D] with B=2, S=5, T=7 and K=3",
    ),
    "width": (
        _hidden(lambda self, batch, hidden: ops.pad(hidden, ((0, 0), (0, 0), (0, 1)))),
        "hidden's result is float32 [2, 7, 5], not [2, 7, 4], which is [B, T, D], D as in output's table",
    ),
    "sentences elsewhere": (
        {"encode": lambda self, batch, seed=None: ops.transpose(_Sound.encode(self, batch))},
        "encode's result is float32 [4, 2], not [2, 2], which is sentences on the first axis",
    ),
    "a number": ({"encode": lambda self, batch, seed=None: [1.5]}, "encode's result[0] is a float, not an array."),
    "a length that is known in the check alone": (
        _hidden(lambda self, batch, hidden: hidden * ops.ones((batch["target"].shape[1], 1))),
        SIZES,
    ),
    "a seed for TensorFlow": ({"hidden_and_sums": _with_noise}, "A seed is int32 [3]: pass it to fold_in, Dropout or"),
    "running statistics": (_with(lambda: keras.layers.BatchNormalization(name="norm")), f"{CHANGES}norm"),
    "a seed of its own in a loop": (_with(lambda: keras.layers.Dropout(0.5, name="drop"), _in_a_loop), CHANGES),
    "late weights": ({"hidden": _late}, "from_hparams has to make all weights; sound/late came with a later call."),
    "start": ({"start": lambda self, memory, beam_size, steps: memory}, "start has to return (fixed, state, step)"),
    "state of the beam": (
        {"start": _begun(state={"h": ops.zeros((2, 4, 3))})},
        "start's state['h'] is float32 [2, 4, 3], not [2, 3, 3], which is [B, K, ...]",
    ),
    "step": ({"start": _with_step(lambda logits, state: logits)}, "step has to return (logits, state)."),
    "a step with start's memory": ({"start": _begun_with_memory}, LEFT),
    "logits": (_relogit(lambda x: x[:, :, :-1]), f"step's logits is float32 [2, 3, 22], not [2, 3, {V}]"),
    "precision": (_relogit(lambda x: ops.cast(x, "bfloat16")), "step's logits are bfloat16, not float32."),
    "a state that grows": (
        {"start": _with_step(lambda logits, state: (logits, {**state, "h": ops.tile(state["h"], (1, 1, 2))}))},
        "step made float32 [2, 3, 8] of state['h'], which was float32 [2, 3, 4]; its sizes and dtype may not change.",
    ),
    "a state of other parts": (
        {"start": _with_step(lambda logits, state: (logits, {"h": state["h"]}))},
        "step has to return a state of the structure that it was given.",
    ),
    "reorder": (
        {"reorder": lambda self, state, parents: {**state, "h": state["h"][:, :1]}},
        "reorder made float32 [2, 1, 4] of state['h'], which was float32 [2, 3, 4];",
    ),
    "is_full": ({"is_full": lambda self, state: state["seen"]}, "is_full returned int32 [], not a bool scalar."),
    "sums alone": (
        _hidden(lambda self, batch, hidden: hidden, "hidden_and_sums"),
        "hidden_and_sums returned float32 [2, 7, 4], not (hidden, sums or None).",
    ),
    "whole sums": (
        {**_hidden(lambda self, batch, h: (h, ops.sum(batch["target"], 1)), "hidden_and_sums"), "balance_groups": 1},
        "hidden_and_sums' sums are int32 [2], not a float32 array.",
    ),
    "sums of the whole batch": (_with_sums(ops.zeros(3)), "hidden_and_sums' sums is float32 [3], not [2], which is "),
    "groups without sums": (_with_sums(None), "hidden_and_sums' sums are a NoneType, and balance_groups is 2."),
    "sums without a loss": (
        _with_sums(ops.zeros((2, 3))),
        "NotImplementedError: Mine has sums, and so needs a further_loss. (",
    ),
    "maps of other kinds": ({"attention_kinds": ("memory",)}, "attention_maps returned nothing, and attention_kinds"),
    "maps of another shape": (
        {"attention_kinds": ("memory",), "attention_maps": lambda self, batch: {"memory": ops.zeros((2, 1, 1, 5, 7))}},
        "attention_maps' 'memory' is float32 [2, 1, 1, 5, 7], not [2, any, any, 7, 5], which is [B, L, H, T, S]",
    ),
    "a call within Keras": (
        {"from_hparams": classmethod(_called), "hidden": lambda self, batch, seed=None: [][3]},
        "from_hparams raised IndexError: list index out of range ({file}, line ",
    ),
    "no head that learns alignments": (
        {"guided_alignment": 0.1},
        "guided_alignment is 0.1, and alignment_attention is None; it has to return the layer that learns them.",
    ),
    "alignments that nothing records": (
        {"guided_alignment": 0.1, "alignment_attention": LAYER},
        "hidden gave the recorder of alignment_attention 0 arrays, not one (t2t_lite.layers.recording: recorder(layer)",
    ),
    "alignments of another shape": (
        _recording(lambda batch: ops.zeros((2, 1, 5, 7))),
        "what alignment_attention records is float32 [2, 1, 5, 7], not [2, any, 7, 5], which is [B, H, T, S] with B=2",
    ),
    "kinds": ({"attention_kinds": ("self",)}, "attention_kinds is ('self',); there are encoder, decoder, memory."),
}


def _make(members: dict[str, Any]) -> Any:
    return make_checked("mine", type("Mine", (_Sound,), {**members, "__module__": __name__}), None, (V, V), True)


def test_a_sound_model_passes_and_is_returned() -> None:
    assert type(_make({})).__name__ == "Mine"


@pytest.mark.parametrize("fault", ["a seed for TensorFlow", "sums of the whole batch"])
def test_a_run_opens_although_its_model_could_not_be_trained(fault: str) -> None:
    taking = type("Mine", (_Sound,), {**FAULTS[fault][0], "__module__": __name__})
    assert isinstance(make_checked("mine", taking, None, (V, V), True, training=False), taking)


def test_two_weights_of_one_path_are_refused_when_a_model_is_made_and_by_checkpoints(tmp_path: Path) -> None:
    def make(cls: Any, size: int) -> Any:
        model = cls(size)
        model._tracker.unlock()
        model.parts = [keras.layers.Dense(D, name="inner") for _ in range(2)]
        for part in model.parts:
            part.build((None, D))
        return model

    message = r"The model Mine has two weights that are called inner/kernel, .* Give each layer a name of its own; "
    with pytest.raises(UsageError, match=message):
        _make(_from_hparams(make))
    twice = make(type("Mine", (_Sound,), {}), V)
    with pytest.raises(UsageError, match=message):
        Checkpoints(tmp_path, twice)


def test_unnamed_layers_have_the_same_names_whenever_a_model_is_made() -> None:
    def make(cls: Any, size: int) -> Any:
        model = cls(size)
        model._tracker.unlock()
        model.norms = [keras.layers.LayerNormalization(center=False) for _ in range(2)]
        for norm in model.norms:
            norm.build((None, D))
        return model

    names = [keras.layers.LayerNormalization().name]
    for _ in range(2):
        model = _make(_from_hparams(make))
        paths = [weight.path for weight in model.weights[1:]]
        assert paths == ["layer_normalization/gamma", "layer_normalization_1/gamma"]
    names.append(keras.layers.LayerNormalization().name)
    first, second = (int("0" + re.sub(r"\D", "", name)) for name in names)
    assert second == first + 1  # the counters of the process go on


def test_the_softmax_layers_table_may_be_computed_from_weights() -> None:
    assert _make({"output": lambda self: (self.table * 2, None)}).output()[0].shape == (V, D)


def test_a_further_loss_and_none_pass() -> None:
    _make(_with_sums(None, groups=0))
    _make(_with_sums(ops.ones((2, 3)), further_loss=lambda self, sums: ops.sum(sums, 1)))


def test_a_head_that_learns_alignments_passes() -> None:
    def weights(batch: Any) -> Any:
        return ops.einsum("bt,bs->bts", ops.ones_like(batch["target"]), batch["source"])[:, None]

    _make(_recording(weights))


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_one_sentence(fault: str) -> None:
    members, words = FAULTS[fault]
    with pytest.raises(UsageError) as caught:
        _make(members)
    message = str(caught.value)
    assert message.startswith("The model 'mine' (Mine)")
    assert words.replace("{file}", str(Path(__file__))) in message
    assert "\n" not in message
    assert "Arguments received" not in message


def _deep(**members: Any) -> tuple[Any, list[int]]:
    """Checks a model with a recipe of six layers; returns it, and the depth of each model made or traced."""
    seen = []

    def from_hparams(cls: Any, hparams: Any, source_vocab_size: int, target_vocab_size: int, shared: bool) -> Any:
        model = cls(target_vocab_size)
        seen.append(hparams.num_layers)
        if hparams.num_layers < members.get("least", 0):
            raise KeyError(hparams.num_layers)
        model.layers_ = hparams.num_layers
        return model

    def encode(self: Any, batch: Any, seed: Any = None) -> Any:
        seen.append(self.layers_)
        return _Sound.encode(self, batch)

    own = {"from_hparams": classmethod(from_hparams), "encode": encode, **members, "__module__": __name__}
    hparams = config.replace(registry.hparams("tiny"), num_layers=6)
    return make_checked("mine", type("Mine", (_Sound,), own), hparams, (V, V), True), seen


def test_of_a_deep_model_two_layers_are_traced() -> None:
    model, seen = _deep()
    assert (model.layers_, model.table.shape[0]) == (6, V)
    assert seen == [6, 2, 2, 2, 2, 2]  # made, made, and in both traces encode, and encode in hidden


def test_a_model_that_cannot_have_two_layers_is_traced_itself() -> None:
    assert _deep(least=3)[1] == [6, 2, 6, 6, 6, 6]


def test_what_is_wrong_is_said_of_the_model_itself() -> None:
    with pytest.raises(UsageError, match=rf"step's logits is float32 \[2, 3, 22\], not \[2, 3, {V}\]"):
        _deep(start=FAULTS["logits"][0]["start"])


@pytest.mark.commit("float32-tiny-Transformer-size0")
@pytest.mark.parametrize(
    ("name", "model", "size"),
    [
        *(("tiny", Transformer, {"num_layers": 1}), ("parsing_small", Transformer, {"num_layers": 1})),
        *(("rnn_tiny", Rnn, {"num_layers": 1}), ("convs2s_tiny", ConvS2S, {}), ("bytenet_tiny", ByteNet, {})),
        *(("moe_tiny", Moe, {}), ("transformer_moe_tiny", TransformerMoe, {"num_layers": 2})),
    ],
)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_our_own_models_pass(name: str, model: type, size: dict[str, int], precision: str) -> None:
    hparams = config.replace(registry.hparams(name), d_model=16, precision=precision, **size)
    make_checked(name, model, hparams, (V, V), True)


def test_a_registered_model_is_checked_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.MODELS, "_things", {**registry.MODELS._things})
    registry.register_model("wide")(type("Wide", (_Sound,), {**FAULTS["width"][0], "__module__": __name__}))
    with pytest.raises(UsageError, match="'wide' .*hidden's result is float32"):
        make_model("wide", registry.hparams("tiny"), V, V, shared=True)
