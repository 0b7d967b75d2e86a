"""The help on hparams: every field with its type, default and meaning, as config.py has them."""

import dataclasses
import re

import pytest

from t2t_lite import config, recipe_text, registry
from t2t_lite.models.convs2s_hparams import ConvS2SHParams
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer_hparams import TransformerHParams
from tests.commands import call

GROUPS = (
    *("Optimizer, schedule and loss (sections 5.3 and 5.4)", "Batches (section 5.1)", "The run"),
    "Decoding (section 6.1)",
)


def test_every_field_has_a_meaning() -> None:
    for cls in (TransformerHParams, RnnHParams):
        assert [field.name for field in config.fields(cls).values() if not field.meta.meaning] == []


@dataclasses.dataclass(frozen=True)
class OwnHParams(config.HParams):
    """A recipe with fields of its own."""

    beam_size: int = 5
    unique_layers: int = config.field(2, "with weights of their own", (1, 65_536))
    plain: bool = True


def test_a_recipes_own_fields_are_shown_too() -> None:
    text = recipe_text.help_text(OwnHParams(plain=False), "the values of mine")
    assert re.search(r"^Model:\n  unique_layers +int +2 +1 to 65,536 +with weights of their own\n", text, re.MULTILINE)
    assert re.search(r"^  plain +true\|false +false\n", text, re.MULTILINE)
    assert re.search(r"^  beam_size +int +5 +1 to 1,000 +hypotheses kept", text, re.MULTILINE)
    assert "    unique_layers=2, plain=false*\n" in recipe_text.recipe(OwnHParams(plain=False))


def test_the_whole_recipe_is_what_hparams_take() -> None:
    """Every field appears once, as --hparams takes it, with a star if it differs from the default."""
    for name in ("base", "tiny", "t2t_big"):
        hparams = registry.hparams(name)
        items = re.findall(r"(\w+=[^,*\s]+)(\*?)", recipe_text.recipe(hparams))
        changed = config.override(TransformerHParams(), ",".join(item for item, _ in items))
        assert changed == hparams
        starred = {item.partition("=")[0] for item, star in items if star}
        default = config.to_dict(TransformerHParams())
        assert starred == {name for name, value in config.to_dict(hparams).items() if value != default[name]}


def test_registry_help_of_hparams() -> None:
    out = call("trainer", "--registry_help=hparams").stdout
    models = ("bytenet", "convs2s", "moe", "rnn", "transformer", "transformer_moe")
    families = [f"Model {name}" for name in models]
    assert re.findall(r"^(\S.*):$", out, re.MULTILINE) == [*families, *GROUPS]
    for name in config.fields(TransformerHParams) | config.fields(RnnHParams) | config.fields(ConvS2SHParams):
        assert re.search(rf"^  {name} +\S+ +\S+ +\S", out, re.MULTILINE), name
    assert re.search(r"^  dropout +float +0\.1 +0 to below 1 +P_drop: ", out, re.MULTILINE)
    of_big = call("trainer", "--registry_help=hparams", "--hparams_set=big").stdout
    assert of_big.startswith("Hparams, with the values of big; ")
    assert re.search(r"^  dropout +float +0\.3 +0 to below 1 +P_drop: ", of_big, re.MULTILINE)
    assert re.findall(r"^(\S.*):$", of_big, re.MULTILINE) == ["Model transformer", *GROUPS]


@pytest.mark.commit
@pytest.mark.parametrize(
    ("kind", "title", "name"),
    [
        ("problems", "Problems", "toy_ende"),
        ("hparams_sets", "Hparams sets", "big"),
        ("models", "Models", "transformer"),
    ],
)
def test_registry_help_of_one_kind_is_a_part_of_the_whole(kind: str, title: str, name: str) -> None:
    out = call("trainer", f"--registry_help={kind}").stdout
    assert out.startswith(f"{title}:\n")
    assert re.search(rf"^  {name} ", out, re.MULTILINE)
    assert f"{out}\n" in f"{call('trainer', '--registry_help').stdout}\n"
