"""Writes tests/golden/marian/NAME: small models that Marian trained, and what it finds for some lines.

Needs pymarian 1.12.42 and sentencepiece, not this package:

    PYTHON_OF_MARIAN tests/golden/marian.py FOLDER [NAME ...]

Marian trains each model in FOLDER/NAME on made-up sentences: each word has a translation; with labels, it has one for
each of two target languages. The words of `bpe` are of odd characters; some lines of `bytes` end in emoji that are
no pieces, and its vocabulary is a SentencePiece model, with which Marian itself cuts and joins text. Then Marian
translates the lines of test.txt, four outputs of each, with the log-probability of each piece; and, for test.short, the
most probable piece at each step, for outputs of at most so many times the line's pieces. (From the second piece on,
Marian's decoder does not compute of a pre-norm model what was trained: docs/import.md.)
"""

import contextlib
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pymarian
import sentencepiece

SIZES = "--dim-emb 16 --transformer-heads 2 --transformer-dim-ffn 24 --transformer-dropout 0"
POST = "--transformer-postprocess dan"
MODELS = {
    "relu_tied": f"{POST} --enc-depth 1 --dec-depth 2 --transformer-ffn-activation relu --tied-embeddings",
    "gelu_untied": f"{POST} --enc-depth 2 --dec-depth 1 --transformer-ffn-activation gelu",
    "tied_source": f"{POST} --enc-depth 1 --dec-depth 1 --transformer-ffn-activation relu --tied-embeddings-src",
    "labels": f"{POST} --enc-depth 1 --dec-depth 1 --transformer-ffn-activation swish --tied-embeddings-all",
    "bpe": f"{POST} --enc-depth 2 --dec-depth 1 --transformer-ffn-activation swish --tied-embeddings-all",
    "bytes": f"{POST} --enc-depth 1 --dec-depth 2 --transformer-ffn-activation gelu --tied-embeddings-all",
    "prenorm": "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n "
    "--enc-depth 2 --dec-depth 2 --transformer-ffn-activation relu --tied-embeddings-all",
    "aligned": f"{POST} --enc-depth 1 --dec-depth 2 --transformer-ffn-activation swish --tied-embeddings-all",
    "aligned_first": f"{POST} --enc-depth 1 --dec-depth 2 --transformer-ffn-activation relu --tied-embeddings-all "
    "--transformer-guided-alignment-layer 1",
}
ALIGNED = ("aligned", "aligned_first")  # with --guided-alignment; their targets have the words in reverse order
TRAINING = (
    "--type transformer --mini-batch 32 --maxi-batch 10 --after-batches 700 --save-freq 1000 --disp-freq 100 "
    "--learn-rate 0.01 --lr-warmup 50 --lr-decay-inv-sqrt 50 --optimizer-params 0.9 0.98 1e-09 --clip-norm 5 "
    "--label-smoothing 0.1 --cpu-threads 1 --seed 1 --workspace 200 --overwrite --quiet"
)
DECODING = "--cpu-threads 1 --mini-batch 1 --maxi-batch 1 --workspace 200 --quiet --n-best --word-scores"
SHORT = ("relu_tied", "labels")  # models with a test.short
FACTORS = ("0.3", "0.7", "1.1")
LABELS = (">>aaa<<", ">>bbb<<")
CONSONANTS, VOWELS, UMLAUTS = "bdgklmnr", "aeiou", "äöüáå"
ODD_CONSONANTS = ("ب", "ש", "日", "🙂", '"', "\\", "'", "#", ":", "½", "&", "ﬁ", "𐍈", "\u00ad", "\u200d", "~")
EMOJI = [chr(0x1F600 + i) for i in range(30)]
SENTENCEPIECE = {
    "bpe": {"model_type": "bpe", "vocab_size": 90, "character_coverage": 1.0},
    "bytes": {
        "byte_fallback": True,
        "vocab_size": 330,
        "character_coverage": 0.98,
        "bos_id": -1,
        "eos_id": 0,
        "unk_id": 1,
    },
}


def words(rng: random.Random, vowels: str, consonants: Sequence[str] = CONSONANTS) -> list[str]:
    return ["".join(rng.choice(letters) for letters in (consonants, vowels) * rng.choice((1, 2, 3))) for _ in range(30)]


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    rng = random.Random(1)
    sides = words(rng, VOWELS), words(rng, UMLAUTS), words(rng, VOWELS[::-1])
    chosen = [[rng.randrange(30) for _ in range(rng.randint(2, 7))] for _ in range(3000)]
    odd = random.Random(2)
    other = {"bpe": (words(odd, "aàe\u0301\u0308", ODD_CONSONANTS), words(odd, UMLAUTS, ODD_CONSONANTS[::-1]))}
    for name in sys.argv[2:] or MODELS:
        of_model = other.get(name, sides)
        ends = [EMOJI[row[0]] if name == "bytes" and len(row) % 3 == 0 else "." for row in chosen]
        pairs = [
            [" ".join(side[i] for i in row) + end for side in of_model] for row, end in zip(chosen, ends, strict=True)
        ]
        if name in ALIGNED:
            pairs = [[pair[0], " ".join(pair[1][:-1].split()[::-1]) + "."] for pair in pairs]
        make(Path(sys.argv[1], name), MODELS[name], pairs, LABELS if name == "labels" else ())


def link(source: str, target: str) -> str:
    """The alignment of a pair's pieces: each piece of a word with each of its translation, in reverse order."""
    words_of = []
    for line in (source, target):
        number, found = -1, []
        for piece in line.split():
            number += piece.startswith("\u2581")
            found.append(number if piece != "." else -1)
        words_of.append(found)
    first, second = words_of
    last = max(first)
    pairs = [(i, j) for i in range(len(first)) for j in range(len(second))]
    return " ".join(f"{i}-{j}" for i, j in pairs if first[i] + second[j] == (last if first[i] >= 0 else -2))


def make(folder: Path, options: str, pairs: list[list[str]], labels: tuple[str, ...]) -> None:
    folder.mkdir(parents=True)
    number = max(len(labels), 1)
    texts = {"source": [pair[0] for pair in pairs], "target": [pair[1 + i % number] for i, pair in enumerate(pairs)]}
    vocabulary = folder / "opus.spm.vocab.yml"
    pieces: set[str] = set(labels)
    segmented: dict[str, list[str]] = {}
    for side, lines in texts.items():
        write(folder / side, lines)
    if folder.name == "bytes":
        train_sentencepiece(folder, ["source", "target"], "vocab")
        vocabulary = folder / "vocab.spm"
    for side, lines in texts.items() if folder.name != "bytes" else ():
        model = train_sentencepiece(folder, [side], side)
        pieces |= {model.id_to_piece(i) for i in range(3, len(model))}
        cut = [" ".join(row) for row in model.encode(lines, out_type=str)]
        if side == "source" and labels:
            cut = [f"{labels[i % number]} {line}" for i, line in enumerate(cut)]
        write(folder / f"{side}.pieces", cut)
        segmented[side] = cut
    if pieces:
        names = [json.dumps(piece, ensure_ascii=False) for piece in ("</s>", "<unk>", *sorted(pieces))]
        write(vocabulary, [f"{name}: {i}" for i, name in enumerate(names)])
    ending = ".pieces" if pieces else ""
    model_file = folder / "opus.npz"
    files = f"--vocabs {vocabulary} {vocabulary}"
    data = f"--train-sets {folder}/source{ending} {folder}/target{ending}"
    aligned = folder.name in ALIGNED
    if aligned:
        links = [link(*pair) for pair in zip(segmented["source"], segmented["target"], strict=True)]
        write(folder / "alignments", links)
        options += f" --guided-alignment {folder}/alignments --guided-alignment-weight 1"
    pymarian.Trainer(f"{TRAINING} {SIZES} {options} --model {model_file} {files} {data}").train()
    lines = Path(folder, f"source{ending}").read_text(encoding="utf-8").split("\n")[:12]
    tests = [texts["source"][i] if not labels else f"{labels[i % number]} {texts['source'][i]}" for i in range(12)]
    write(folder / "test.txt", tests)
    whole = "" if pieces else " --no-spm-decode"
    of_model = f"--models {model_file} {files} --normalize 1"
    translator = pymarian.Translator(f"{DECODING}{whole} {of_model} --beam-size 4")
    write(folder / "test.nbest", translator.translate(lines))
    for form in ("hard", "soft") if aligned else ():
        how = DECODING.replace("--n-best --word-scores", f"--alignment {form}")
        translator = pymarian.Translator(f"{how} {of_model} --beam-size 4")
        write(folder / f"test.{form}", translator.translate(lines))
    if folder.name in SHORT:
        write_short(folder / "test.short", of_model, lines)
    (folder / "decoder.yml").write_text(
        f"relative-paths: true\nmodels:\n  - opus.npz\nvocabs:\n  - {vocabulary.name}\n  - {vocabulary.name}\n"
        "beam-size: 4\nnormalize: 1\nword-penalty: 0\nmini-batch: 1\n"
    )


def train_sentencepiece(folder: Path, sides: list[str], name: str) -> sentencepiece.SentencePieceProcessor:
    with contextlib.chdir(folder):  # the model holds these names
        sentencepiece.SentencePieceTrainer.train(
            input=sides,
            model_prefix=name,
            hard_vocab_limit=False,
            normalization_rule_name="identity",
            minloglevel=2,
            **{"vocab_size": 48, **SENTENCEPIECE.get(folder.name, {})},
        )
    Path(folder, f"{name}.model").rename(folder / f"{name}.spm")
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))


def write_short(path: Path, of_model: str, lines: list[str]) -> None:
    short = []
    for factor in FACTORS:
        decoding = f"{DECODING.partition('--n-best')[0]} {of_model} --beam-size 1 --max-length-factor {factor}"
        short += [f"{factor} ||| {line}" for line in pymarian.Translator(decoding).translate(lines)]
    write(path, short)


if __name__ == "__main__":
    main()
