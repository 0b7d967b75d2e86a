"""The help on hparams: every field with its type, default and meaning, as config.py has them."""

import dataclasses
import re

import pytest

from t2t_lite import config, recipe_text, registry
from tests.commands import call


def test_every_field_has_a_meaning_and_a_group() -> None:
    fields = recipe_text.fields(config.HParams)
    assert [field.name for field in fields] == [field.name for field in dataclasses.fields(config.HParams)]
    assert [field.name for field in fields if not field.meaning] == []
    groups = list(dict.fromkeys(field.group for field in fields))
    assert groups == [
        *("Model (section 3, Table 3)", "Regularisation (section 5.4)", "Optimizer (section 5.3)"),
        *("Batches (section 5.1)", "The run", "Decoding (section 6.1)"),
    ]


@dataclasses.dataclass(frozen=True)
class OwnHParams(config.HParams):
    """A recipe with fields of its own."""

    beam_size: int = 5

    # Sharing (Dehghani et al., 2019),
    # which the paper does not have.
    unique_layers: int = 2  # with weights of their own
    plain: bool = True


def test_a_recipes_own_fields_are_read_too() -> None:
    fields = {field.name: field for field in recipe_text.fields(OwnHParams)}
    assert fields["beam_size"].default == 5
    group = "Sharing (Dehghani et al., 2019), which the paper does not have"
    assert fields["unique_layers"] == recipe_text.Field("unique_layers", group, "int", 2, "with weights of their own")
    assert fields["plain"] == recipe_text.Field("plain", group, "true|false", True, "")
    assert fields["norm"].kind == "post|pre"


def test_the_whole_recipe_is_what_hparams_take() -> None:
    """Every field stands there once, as --hparams would take it, and a star where the paper's base differs."""
    for name in ("base", "tiny", "t2t_big"):
        hparams = registry.hparams(name)
        items = re.findall(r"(\w+=[^,*\s]+)(\*?)", recipe_text.recipe(hparams))
        changed = config.override(config.HParams(), ",".join(item for item, _ in items))
        assert changed == hparams
        starred = {item.partition("=")[0] for item, star in items if star}
        default = config.to_dict(config.HParams())
        assert starred == {name for name, value in config.to_dict(hparams).items() if value != default[name]}


def test_registry_help_of_hparams() -> None:
    out = call("trainer", "--registry_help=hparams").stdout
    for field in dataclasses.fields(config.HParams):
        assert re.search(rf"^  {field.name} +\S+ +\S+ +\S", out, re.MULTILINE), field.name
    assert re.search(r"^  dropout +float +0\.1 +P_drop: ", out, re.MULTILINE)
    of_big = call("trainer", "--registry_help=hparams", "--hparams_set=big").stdout
    assert of_big.startswith("Hparams, with the values of big; ")
    assert re.search(r"^  dropout +float +0\.3 +P_drop: ", of_big, re.MULTILINE)


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


def test_registry_help_of_another_kind() -> None:
    done = call("trainer", "--registry_help=flags")
    assert done.returncode == 2
    assert "invalid choice: 'flags'" in done.stderr
