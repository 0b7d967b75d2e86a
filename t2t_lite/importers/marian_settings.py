"""Settings of a Marian model that decide what it computes: `special:model.yml` in the .npz file.

Names and values are those of marian-dev 1.12 (src/common/config_parser.cpp, src/models/transformer.h).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from t2t_lite.errors import DataError

_OF_TRAINING = "d"  # dropout, in the strings that say what surrounds a sub-layer

_AROUND = {"preprocess": "", "postprocess": "dan", "postprocess-top": ""}  # and their defaults
# (before, after each sub-layer, after the last layer), without dropout -> `norm` here.
_NORMS: Mapping[tuple[str, ...], str] = {("", "an", ""): "post", ("n", "a", "n"): "pre"}

# Setting -> the values that a Transformer of this package has.
_EXPRESSED: Mapping[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-ffn-activation": ("relu", "swish", "gelu"),
    "transformer-ffn-depth": ("2",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-tied-layers": ([],),
    "transformer-attention-mask": ("default",),
    "input-types": ([], ["sequence", "sequence"]),
    "lemma-dim-emb": ("0",),
    "factors-dim-emb": ("0",),
    **dict.fromkeys(
        (
            "transformer-no-projection",
            "transformer-no-bias",
            "transformer-no-affine",
            "transformer-rnn-projection",
            "transformer-pool",
            "transformer-train-position-embeddings",
            "transformer-disable-position-embeddings",
            "right-left",
            "ulr",
        ),
        ("false",),
    ),
}
# Settings that `describe` of importers/marian.py reads.
_READ = {
    *("dim-vocabs", "dim-emb", "enc-depth", "dec-depth", "transformer-heads", "transformer-dim-ffn", "version"),
    *(
        "transformer-decoder-dim-ffn",
        "transformer-preprocess",
        "transformer-postprocess",
        "transformer-postprocess-top",
    ),
    *("transformer-guided-alignment-layer", "guided-alignment"),
    *("tied-embeddings", "tied-embeddings-src", "tied-embeddings-all", "output-omit-bias"),
}
# Settings of other networks, of training and of decoding, which change nothing here.
_HARMLESS = re.compile(
    r"bert-.*|dec-cell.*|enc-cell.*|enc-type|char-.*|dim-rnn|skip|layer-normalization|separator-symbol|"
    r"factors-combine|lemma-dependency|ulr-.*|output-approx-knn|lsh.*|transformer-aan-.*|transformer-dim-aan|"
    r"transformer-depth-scaling|transformer-alibi-.*|transformer-dropout.*|"
    r"transformer-learn-(query|key).*|original-type"
)
_MOST, _MOST_LAYERS = 10_000_000, 256
_FIRST_OF_TODAY = (1, 11)  # releases before this one trained other pre-norm models


class Settings:
    """Settings by Marian's names.

    Args:
        values: texts and lists of texts.

    Raises:
        DataError: the model cannot be expressed here, or a setting is not known.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)
        self._check("type", values.get("type", "transformer"))  # first: other types have other settings
        for name, value in values.items():
            if name in _EXPRESSED:
                self._check(name, value)
            elif name not in _READ and not _HARMLESS.fullmatch(name):
                raise DataError(f"This model of Marian has the setting {name}={value}, which is not known here.")
        around = [str(values.get(f"transformer-{name}", usual)) for name, usual in _AROUND.items()]
        norm = _NORMS.get(tuple(text.replace(_OF_TRAINING, "") for text in around))
        if norm is None:
            raise DataError(
                "This model of Marian cannot be expressed here: transformer-preprocess, -postprocess and "
                f"-postprocess-top are {', '.join(map(repr, around))}; those of a post-norm model are '', 'dan', '', "
                "and those of a pre-norm model 'n', 'da', 'n'."
            )
        self.norm = norm
        inner, of_decoder = (values.get(f"transformer-{name}dim-ffn", "0") for name in ("", "decoder-"))
        if of_decoder not in ("0", inner):
            raise DataError(
                "This model of Marian cannot be expressed here: its decoder has another size of feed-forward networks "
                f"(transformer-decoder-dim-ffn={of_decoder}) than its encoder ({inner})."
            )
        if norm == "pre" and self.version < _FIRST_OF_TODAY:
            raise DataError(
                f"This pre-norm model is of Marian {values.get('version', 'before 1.7')}; before 1.11, keys and values "
                "of self-attention were not normalized, which cannot be expressed here."
            )

    def _check(self, name: str, value: Any) -> None:
        if value not in (allowed := _EXPRESSED[name]):
            raise DataError(
                f"This model of Marian cannot be expressed here: {name}={value} "
                f"(only {' or '.join(str(choice) or 'none' for choice in allowed)})."
            )

    @property
    def version(self) -> tuple[int, int]:
        """Of the Marian that wrote the file; (0, 0) if nothing says it."""
        match = re.match(r"v(\d{1,4})\.(\d{1,4})", str(self.values.get("version", "")))
        return (int(match[1]), int(match[2])) if match else (0, 0)

    @property
    def one_table(self) -> bool:
        """Whether source and target have one table."""
        return self.flag("tied-embeddings-all") or self.flag("tied-embeddings-src")

    @property
    def tied(self) -> bool:
        """Whether the softmax has the target's table."""
        return self.flag("tied-embeddings-all") or self.flag("tied-embeddings")

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Pieces of source and target; DataError if these are not said."""
        match self.values.get("dim-vocabs"):
            case [source, target] if source == target or not self.one_table:
                return _count("dim-vocabs", source), _count("dim-vocabs", target)
            case sizes:
                raise DataError(f"The settings of Marian say dim-vocabs={sizes}: not two numbers, equal for one table.")

    @property
    def alignment_layer(self) -> int:
        """The decoder's layer, from 1, whose first head over the source is an alignment; 0: none was trained to be."""
        layer, depth = self.values.get("transformer-guided-alignment-layer", "last"), self.count("dec-depth")
        if self.values.get("guided-alignment", "true") != "true":
            return 0
        if layer != "last" and not (isinstance(layer, str) and layer.isdecimal() and 0 < int(layer[:9]) <= depth):
            raise DataError(
                f"The settings of Marian say transformer-guided-alignment-layer={layer}, which is neither last nor a "
                f"number from 1 to {depth}."
            )
        return depth if layer == "last" else int(layer)

    def flag(self, name: str) -> bool:
        """Whether a setting is true."""
        return bool(self.values.get(name) == "true")

    def count(self, name: str) -> int:
        """Returns a number; DataError if it is missing or none."""
        return _count(name, self.values.get(name))


def _count(name: str, value: Any) -> int:
    if not isinstance(value, str) or not value.isdecimal() or not 0 < (number := int(value[:9])) <= _MOST:
        raise DataError(f"The settings of Marian say {name}={value}, which is no number from 1 to {_MOST:,}.")
    if name.endswith("-depth") and number > _MOST_LAYERS:
        raise DataError(f"The settings of Marian say {name}={value}; a model has at most {_MOST_LAYERS} layers.")
    return number
