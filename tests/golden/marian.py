"""Writes tests/golden/marian/NAME: small models that Marian trained, and what it finds for some lines.

Needs pymarian 1.12.42 and sentencepiece, not this package:

    PYTHON_OF_MARIAN tests/golden/marian.py FOLDER

Marian trains each model in FOLDER/NAME on made-up sentences: each word has a translation; with labels, it has one for
each of two target languages. Then Marian translates the lines of test.txt, four outputs of each, with the
log-probability of each piece; and, for test.short, the most probable piece at each step, for outputs of at most so many
times the line's pieces. (From the second piece on, Marian's decoder does not compute of a pre-norm model what was
trained: docs/import.md.)
"""

import random
import sys
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
    "prenorm": "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n "
    "--enc-depth 2 --dec-depth 2 --transformer-ffn-activation relu --tied-embeddings-all",
}
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


def words(rng: random.Random, vowels: str) -> list[str]:
    return ["".join(rng.choice(letters) for letters in (CONSONANTS, vowels) * rng.choice((1, 2, 3))) for _ in range(30)]


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    rng = random.Random(1)
    source, *targets = words(rng, VOWELS), words(rng, UMLAUTS), words(rng, VOWELS[::-1])
    pairs = []
    for _ in range(3000):
        chosen = [rng.randrange(len(source)) for _ in range(rng.randint(2, 7))]
        pairs.append([" ".join(side[i] for i in chosen) + "." for side in (source, *targets)])
    for name, options in MODELS.items():
        make(Path(sys.argv[1], name), options, pairs, LABELS if name == "labels" else ())


def make(folder: Path, options: str, pairs: list[list[str]], labels: tuple[str, ...]) -> None:
    folder.mkdir(parents=True)
    number = max(len(labels), 1)
    texts = {"source": [pair[0] for pair in pairs], "target": [pair[1 + i % number] for i, pair in enumerate(pairs)]}
    pieces: set[str] = set(labels)
    for side, lines in texts.items():
        write(folder / side, lines)
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / side),
            model_prefix=str(folder / side),
            vocab_size=48,
            hard_vocab_limit=False,
            normalization_rule_name="identity",
            minloglevel=2,
        )
        Path(folder, f"{side}.model").rename(folder / f"{side}.spm")
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        pieces |= {model.id_to_piece(i) for i in range(3, len(model))}
        cut = [" ".join(row) for row in model.encode(lines, out_type=str)]
        if side == "source" and labels:
            cut = [f"{labels[i % number]} {line}" for i, line in enumerate(cut)]
        write(folder / f"{side}.pieces", cut)
    vocabulary = folder / "opus.spm.vocab.yml"
    write(vocabulary, [f'"{piece}": {i}' for i, piece in enumerate(["</s>", "<unk>", *sorted(pieces)])])
    model_file = folder / "opus.npz"
    files = f"--vocabs {vocabulary} {vocabulary}"
    data = f"--train-sets {folder}/source.pieces {folder}/target.pieces"
    pymarian.Trainer(f"{TRAINING} {SIZES} {options} --model {model_file} {files} {data}").train()
    lines = Path(folder, "source.pieces").read_text(encoding="utf-8").splitlines()[:12]
    tests = [texts["source"][i] if not labels else f"{labels[i % number]} {texts['source'][i]}" for i in range(12)]
    write(folder / "test.txt", tests)
    of_model = f"--models {model_file} {files} --normalize 1"
    translator = pymarian.Translator(f"{DECODING} {of_model} --beam-size 4")
    write(folder / "test.nbest", translator.translate(lines))
    if folder.name in SHORT:
        write_short(folder / "test.short", of_model, lines)
    (folder / "decoder.yml").write_text(
        "relative-paths: true\nmodels:\n  - opus.npz\nvocabs:\n  - opus.spm.vocab.yml\n  - opus.spm.vocab.yml\n"
        "beam-size: 4\nnormalize: 1\nword-penalty: 0\nmini-batch: 1\n"
    )


def write_short(path: Path, of_model: str, lines: list[str]) -> None:
    short = []
    for factor in FACTORS:
        decoding = f"{DECODING.partition('--n-best')[0]} {of_model} --beam-size 1 --max-length-factor {factor}"
        short += [f"{factor} ||| {line}" for line in pymarian.Translator(decoding).translate(lines)]
    write(path, short)


if __name__ == "__main__":
    main()
