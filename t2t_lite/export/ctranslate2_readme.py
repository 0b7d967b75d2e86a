"""README.txt of a CTranslate2 model: the Python that translates with it."""

from __future__ import annotations

from t2t_lite.decoding.rules import Rules
from t2t_lite.decoding.translate import Translator
from t2t_lite.text.vocabulary import Vocabulary

USUAL_LENGTH = 20  # pieces of an output; where the length penalties agree

_README = """\
A Transformer for CTranslate2, written by t2t-lite{imported}. {needs}

    pip install ctranslate2{packages}

What it is: model_card.json. Run in this folder:

{reading}
    translator = ctranslate2.Translator(".", device="cpu", intra_threads=2)
    lines = [line.strip() for line in sys.stdin]
    results = translator.translate_batch(
        {pieces},
        beam_size={beam_size},{unknown}
        length_penalty={penalty:.2f},
        max_input_length={max_input},
        max_decoding_length={max_output},
        min_decoding_length={min_length},{rules}
        max_batch_size=2048,
        batch_type="tokens",
    )
    for result in results:
        print({text})
"""
_OF_SENTENCEPIECE = {
    "imported": "",
    "needs": "It needs neither t2t-lite nor TensorFlow:",
    "packages": " sentencepiece",
    "reading": """\
    import sys
    import ctranslate2
    from sentencepiece import SentencePieceProcessor

    source = SentencePieceProcessor(model_file="{source}")
    target = SentencePieceProcessor(model_file="{target}")""",
    "pieces": "source.encode(lines, out_type=str)",
    "text": "target.decode(result.hypotheses[0])",
}
_OF_IMPORTED = {
    "imported": " from an imported model",
    "needs": "t2t-lite is needed for the vocabulary.\nInstall it from its repository (its README.md says how), and",
    "packages": "",
    "reading": """\
    import json
    import os
    import sys
    import ctranslate2
    from t2t_lite.data.vocabulary_files import load_pair

    def names(side):
        file = f"{side}_vocabulary.json"
        with open(file if os.path.exists(file) else "shared_vocabulary.json", encoding="utf-8") as names:
            return json.load(names)

    source, target = load_pair(".")
    source_names, target_ids = names("source"), {name: i for i, name in enumerate(names("target"))}""",
    "pieces": "[[source_names[i] for i in source.encode(source.line(line))] for line in lines]",
    "text": "target.decode(target_ids[name] for name in result.hypotheses[0])",
}
_OF_LABELS = """\
[
            [label, *source.encode(text, out_type=str)] if label else []
            for label, _, text in (line.partition(" ") for line in lines)
        ]"""
_GNMT = """
CTranslate2 divides a log-probability by length^A, t2t-lite by ((5 + length) / 6)^alpha, and this model was made for
alpha = {alpha}. A = alpha * L / (L + 5) weighs lengths near L alike; {penalty:.2f} is for L = {length} pieces, the end
symbol counted."""
_POWER = """
CTranslate2 and this model divide a log-probability by length^{alpha}, the end symbol counted."""
_SEARCH = """ CTranslate2 also ends a search with the first {beam_size} finished
outputs (patience=2 looks at more), and takes an end only from the {beam_size} best symbols of a step, t2t-lite from
twice as many. So with length_penalty=0 both find nearly always the same outputs. An output that does not end runs to
max_decoding_length, here {max_output} pieces for every input. t2t-lite stops {extra} pieces after {times}the input's
length.
"""
_LABELS = """
Each line begins with the label of its target language and a space: {labels}.
"""
_OF_TREES = """
This model is a parser. Its sentences are words separated by single spaces, with -LRB- and -RRB- for ( and ). The
program prints the symbols of a tree, such as (S (NP XX )NP (VP XX )VP )S, not the tree, and what a model writes need
not be one: `TreeText` of t2t_lite.text.trees.codec makes a tree of any symbols and a sentence; it takes the table that
`load_table` of t2t_lite.text.trees.tag_table reads from this folder. t2t-lite's own export, --format=saved_model,
gives trees.
"""


def engine_length_penalty(alpha: float, length: float) -> float:
    """The exponent A for which length^A weighs lengths near `length` as ((5 + length) / 6)^alpha does.

    There the derivatives of A log(length) and alpha log(5 + length) are equal. Both lengths count the end symbol.
    """
    return alpha * length / (length + 5)


def readme(translator: Translator, vocabularies: list[str]) -> str:
    """Returns the text of README.txt.

    Args:
        vocabularies: the names of their files in the folder.
    """
    rules = Rules.of(translator.decode).changed()
    alpha, is_power = translator.decode.length_penalty, translator.decode.length_penalty_form == "power"
    trained = isinstance(translator.source_vocabulary, Vocabulary)
    parts = dict(_OF_SENTENCEPIECE if trained else _OF_IMPORTED)
    labels = translator.source_vocabulary.labels
    if trained and labels:
        parts["pieces"] = _OF_LABELS
    for side, name in (("{source}", vocabularies[0]), ("{target}", vocabularies[-1])):
        parts["reading"] = parts["reading"].replace(side, name)
    text = _README + (_POWER if is_power else _GNMT) + _SEARCH + (_LABELS if labels else "")
    text += "" if translator.outputs.is_text else _OF_TREES
    return text.format(
        **parts,
        beam_size=translator.decode.beam_size,
        penalty=alpha if is_power else engine_length_penalty(alpha, USUAL_LENGTH),
        unknown="" if translator.decode.unknown_output else "\n        disable_unk=True,",
        min_length=translator.decode.min_length,
        rules="".join(f"\n        {name}={value:g}," for name, value in rules.items() if name != "min_length"),
        max_input=translator.decode.max_source_length,
        max_output=translator.longest_output(translator.decode.max_source_length),
        extra=translator.decode.extra_length,
        times="" if translator.decode.max_length_factor == 1 else f"{translator.decode.max_length_factor:g} times ",
        alpha=alpha,
        length=USUAL_LENGTH,
        labels=", ".join(labels),
    )
