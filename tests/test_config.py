"""HParams: defaults, ranges, typed overrides, and conversion to JSON and back."""

import dataclasses
import json
import re
from typing import Any, Literal

import pytest

from t2t_lite import config, registry
from t2t_lite.errors import UsageError
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer_hparams import TransformerHParams

DEFAULT = TransformerHParams()


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("d_model=1024", "d_model", 1024),
        ("batch_tokens=25e3", "batch_tokens", 25000),
        ("seed=9007199254740993", "seed", 9007199254740993),  # 2**53 + 1: must not become a float
        ("dropout=0.3", "dropout", 0.3),
        ("clip_norm=1", "clip_norm", 1.0),
        ("packing=true", "packing", True),
        ("share_embeddings=false", "share_embeddings", False),
        ("norm=pre", "norm", "pre"),
        (" jit = off , ", "jit", "off"),
    ],
)
def test_an_override_is_read_as_its_fields_type(text: str, name: str, value: Any) -> None:
    changed = config.override(DEFAULT, text)
    found = getattr(changed, name)
    assert found == value
    assert type(found) is type(value)
    assert config.replace(changed, **{name: getattr(DEFAULT, name)}) == DEFAULT  # nothing else has changed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("d_modle=1024", "there is no 'd_modle'. Did you mean 'd_model'"),
        ("d_model", "'d_model' is not of the form name=value"),
        ("d_model=512,d_model=256", "'d_model' is given twice"),
        ("d_model=big", "d_model=big is not an integer"),
        ("d_model=inf", "d_model=inf is not an integer"),
        ("dropout=much", "dropout=much is not a number"),
        ("dropout=nan", "dropout=nan is not a finite number"),
        ("packing=maybe", "packing=maybe is not true or false"),
        ("norm=prae", "norm=prae is not one of: post, pre, deep. Did you mean 'pre'"),
        ("num_layers=0", "num_layers=0 must be from 1 to 256"),
        ("norm_epsilon=0", "norm_epsilon=0.0 must be from 1e-12 to"),
        ("dropout=1", "dropout=1.0 must be from 0 to below 1"),
        ("d_model=513,num_heads=9", "d_model=513 must be even"),
        ("num_layers=100000000", "num_layers=100000000 must be from 1 to 256"),
        (f"beam_size=1{'0' * 400}", "beam_size=1e400 or so must be from 1 to 1,000"),
        (f"d_ff={'9' * 5000}", f"d_ff={'9' * 60} is not an integer"),  # more digits than Python reads
        (
            "num_layers=256,d_model=65536",
            "num_heads=8 and the like give a model of 1.3e+13 parameters; at most 100,000",
        ),
        (
            "max_positions=4096",
            "max_positions=4096 is for learned positions, and has no effect with positions=sinusoidal. Add positions=l",
        ),
        ("num_heads=7", "d_model=512 is not a multiple of num_heads=7"),
        (
            "attention_window=8,attention_score=additive",
            "attention_score=additive and attention_window=8 exclude each other",
        ),
        ("positions=rotary,max_relative_position=4", "positions=rotary and max_relative_position=4 exclude each other"),
        (
            "positions=rotary,attention_score=additive",
            "positions=rotary and attention_score=additive exclude each other",
        ),
        ("norm=deep,initial_weights=fairseq012", "norm=deep and initial_weights=fairseq012 exclude each other"),
        ("positions=rotary,d_k=5", "positions=rotary turns pairs of a head's numbers, and d_k=5 is odd"),
        (
            "attention_window=8,max_relative_position=4",
            "attention_window=8 and max_relative_position=4 exclude each other",
        ),
    ],
)
def test_a_bad_override_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^hparams: .*{re.escape(message)}") as caught:
        config.override(DEFAULT, text)
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 512.0}, "d_model=512.0 is not an integer"),
        ({"packing": 1}, "packing=1 is not true or false"),
        ({"dropout": "0.1"}, "dropout='0.1' is not a finite number"),
        ({"optimizer": None}, "optimizer=None is not a name"),
        ({"norm": None}, "norm=None is not one of"),
    ],
)
def test_a_value_of_another_type_is_refused_in_code_too(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        config.replace(DEFAULT, **changes)


@pytest.mark.parametrize("cls", [TransformerHParams, RnnHParams])
def test_every_number_has_a_range_and_no_recipe_comes_near_its_end(cls: type[config.HParams]) -> None:
    found = [registry.hparams(name) for name in registry.HPARAMS.names()]
    sets = [config.to_dict(hparams) for hparams in found if type(hparams) is cls]
    free = {"d_k": 8, "d_v": 8} if cls is TransformerHParams else {}  # allows any number of heads
    for name, field in config.fields(cls).items():
        assert (field.meta.within is not None) is (field.kind in (int, float)), name
        assert type(field.default) is field.kind or field.kind not in (int, float, bool, str), name
        if field.meta.within is None:
            continue
        least, largest, below = field.meta.within
        for value in (least - 1, largest if below else 2 * largest):
            with pytest.raises(UsageError, match=f"hparams: {name}=.* must be from "):
                cls(**{name: field.kind(value)})
        cls(**free | {name: field.kind(least) + (name == "d_model")})
        if field.kind is int:
            value = 10 * max(values[name] for values in sets)
            cls(**free | {name: value} | ({"beam_size": value} if name == "beam_groups" else {}))


def test_parameters_are_those_of_the_paper() -> None:
    """Table 3 has 65M and 213M, with 37,000 pieces; biases and norms are one hundredth of that."""
    assert DEFAULT.parameters(37_000) == pytest.approx(63e6, rel=0.02)
    assert registry.hparams("big").parameters(37_000) == pytest.approx(214e6, rel=0.02)


def test_to_json_and_back() -> None:
    changed = config.override(DEFAULT, "d_model=1024,norm=pre,dropout=0.3,packing=true,seed=7")
    text = json.dumps(config.to_dict(changed))
    assert config.from_dict(TransformerHParams, json.loads(text)) == changed


@dataclasses.dataclass(frozen=True)
class _MyHParams(TransformerHParams):
    """A recipe with its own field, as for a user's own model."""

    num_experts: int = 4


def test_a_subclass_keeps_its_class_and_its_fields() -> None:
    changed = config.override(_MyHParams(), "num_experts=8,d_model=256")
    assert changed == _MyHParams(num_experts=8, d_model=256)
    assert config.from_dict(_MyHParams, config.to_dict(changed)) == changed
    with pytest.raises(UsageError, match="num_experts=x is not an integer"):
        config.override(changed, "num_experts=x")


@dataclasses.dataclass(frozen=True)
class _Typed(config.HParams):
    """A recipe whose choices are numbers."""

    width: Literal[8, 16] = 8


def test_a_fields_choices_may_be_numbers() -> None:
    assert config.override(_Typed(), "width=16") == _Typed(width=16)
    with pytest.raises(UsageError, match="width=160 is not one of: 8, 16. Did you mean '16'"):
        config.override(_Typed(), "width=160")


@pytest.mark.parametrize("kind", ["int | None", "tuple[int, ...]", "list[str]"])
def test_a_field_of_a_type_that_no_value_can_be_read_as_is_refused(kind: str) -> None:
    cls = dataclasses.make_dataclass("Odd", [("sizes", kind, None)], bases=(config.HParams,), frozen=True)
    assert cls().sizes is None  # in Python, and in runs, it may be
    with pytest.raises(UsageError, match="hparams: sizes=5 is not read: only an int, float, bool, str or Lit"):
        config.override(cls(), "sizes=5")


def test_fields_come_group_by_group_and_the_model_has_its_own() -> None:
    for cls in (TransformerHParams, RnnHParams, config.HParams):
        groups = [field.group for field in config.fields(cls).values()]
        assert [*dict.fromkeys(groups)] == ["model", "optimization", "batch", "run", "decode"][cls is config.HParams :]
        assert [*config.to_dict(cls())] == [*config.fields(cls)]
        assert {field.name for field in dataclasses.fields(cls)} == config.fields(cls).keys()
    assert config.recipe_class("rnn") is RnnHParams
    assert config.recipe_class("of_nobody") is None


def test_a_group_has_the_recipes_values_of_its_fields_alone() -> None:
    hparams = TransformerHParams(train_steps=7, beam_size=3)
    assert (hparams.run.train_steps, hparams.decode.beam_size) == (7, 3)
    groups = [hparams.optimization, hparams.batch, hparams.run, hparams.decode]
    shared = {name: value for group in groups for name, value in dataclasses.asdict(group).items()}
    assert shared == {name: getattr(hparams, name) for name in config.fields(config.HParams)}
    assert config.replace(hparams, train_steps=8).run.train_steps == 8


def test_a_field_cannot_have_the_name_of_a_group() -> None:
    with pytest.raises(UsageError, match="Mine: batch is the name of a group of settings"):

        @dataclasses.dataclass(frozen=True)
        class Mine(config.HParams):
            batch: int = 3


def test_a_subclass_gives_another_default_and_keeps_the_rest() -> None:
    @dataclasses.dataclass(frozen=True)
    class Wider(TransformerHParams):
        """A recipe with another default, and a field without a description."""

        beam_size: int = 5
        plain: int = 3

    changed, usual = config.fields(Wider)["beam_size"], config.fields(TransformerHParams)["beam_size"]
    assert changed == dataclasses.replace(usual, default=5)
    with pytest.raises(UsageError, match="beam_size=0 must be from 1 to 1,000"):
        Wider(beam_size=0)
    assert (config.fields(Wider)["plain"].group, config.fields(Wider)["plain"].meta.resume) == ("model", "never")
    assert Wider(plain=-(10**40)).plain == -(10**40)


def test_a_models_own_class_stays_where_a_derived_one_names_the_model_again() -> None:
    @dataclasses.dataclass(frozen=True)
    class Derived(TransformerHParams):
        model = "transformer"
        rho: float = config.field(0.05, "size of the ascent", (0, 1))

    assert config.recipe_class("transformer") is TransformerHParams
    assert Derived().model == "transformer"


def test_the_name_of_another_model_is_refused() -> None:
    with pytest.raises(UsageError, match=r"have model = 'rnn': t2t_lite.models.rnn_hparams.RnnHParams and .*\.Mine\."):

        class Mine(config.HParams):
            model = "rnn"

    assert config.recipe_class("rnn") is RnnHParams


def test_a_setting_of_another_model_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    rnn = registry.hparams("rnn_tiny")
    monkeypatch.setattr(config, "_FAMILIES", {"rnn": type(rnn), "transformer": TransformerHParams})  # no test's own
    with pytest.raises(UsageError) as caught:
        config.override(rnn, "num_heads=8")
    assert str(caught.value) == (
        "hparams: the model rnn does not read 'num_heads', a setting of transformer; its own are num_layers, d_model, "
        "encoder, wiring, attention_score, input_feeding, softmax_bias, share_embeddings, dropout."
    )
    with pytest.raises(UsageError, match="the model transformer does not read 'input_feeding', a setting of rnn"):
        config.replace(DEFAULT, input_feeding=False)
    with pytest.raises(UsageError, match="a recipe of the class HParams does not read 'd_ff', a setting of tr"):
        config.override(config.HParams(), "d_ff=3")
    with pytest.raises(UsageError, match=r"there is no 'num_haeds'\."):
        config.override(rnn, "num_haeds=8")
    with pytest.raises(UsageError, match="num_layers=200, d_model=60000 and the like give a model of 1.2e"):
        config.override(rnn, "num_layers=200,d_model=60000")


def test_a_recipe_becomes_one_of_another_model() -> None:
    tiny = registry.hparams("tiny")
    as_rnn, left_out = config.convert(config.replace(tiny, seed=7), RnnHParams)
    assert left_out == {"d_ff": 512, "num_heads": 4, "norm": "pre"}
    assert type(as_rnn) is RnnHParams
    own = {"encoder": "uni", "wiring": "top", "attention_score": "general", "input_feeding": True, "softmax_bias": True}
    values = config.to_dict(tiny) | own | {"seed": 7}
    assert config.to_dict(as_rnn) == {name: values[name] for name in config.fields(RnnHParams)}
    assert config.convert(as_rnn, RnnHParams) == (as_rnn, {})
