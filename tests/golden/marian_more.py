"""Writes into folders of tests/golden/marian what Marian finds with models that exist.

Needs pymarian 1.12.42 and sentencepiece, not this package:

    PYTHON_OF_MARIAN tests/golden/marian_more.py tests/golden/marian/{toy,bpe,bytes,prenorm}

`odd.txt` holds lines of odd characters (tests/importers/odd_lines.py), `odd.nbest` Marian's best output of each, by
beam 1, with the log-probability of each piece, and `odd.out` its text where Marian itself joins pieces. So ids are
compared, too: another id gives other numbers. For a pre-norm model `costs.txt` holds the cost of each beginning of each
output of test.nbest, as the training computes it: "line<TAB>pieces<TAB>cost"; Marian's decoder computes another.
"""

import sys
import tempfile
from pathlib import Path

import pymarian
import sentencepiece

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.importers.odd_lines import odd_lines

LINES, LONGEST, SEED = 150, 60, 2
DECODING = "--cpu-threads 1 --mini-batch 1 --maxi-batch 1 --workspace 200 --quiet --beam-size 1 --max-length-factor 1"
PRENORM = (
    "--type transformer --dim-emb 16 --transformer-heads 2 --transformer-dim-ffn 24 --transformer-dropout 0 "
    "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n --enc-depth 2 "
    "--dec-depth 2 --transformer-ffn-activation relu --tied-embeddings-all --mini-batch 1 --after-batches 1 "
    "--learn-rate 0 "
    "--cpu-threads 1 --workspace 200 --overwrite --quiet --valid-metrics cross-entropy --valid-freq 1"
)


def read(path: Path) -> list[str]:
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def write(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def cut(folder: Path, lines: list[str]) -> list[str]:
    """The lines as Marian reads them: cut, unless it does so itself."""
    if not (folder / "source.spm").exists():
        return lines
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    return [" ".join(row) for row in model.encode(lines, out_type=str)]


def odd(folder: Path, vocabulary: Path) -> None:
    words = tuple(" ".join(read(folder / "test.txt")).split())
    lines = [line for line in odd_lines(20 * LINES, SEED, words) if line.strip() and len(line) <= LONGEST][:LINES]
    files = f"--models {folder}/opus.npz --vocabs {vocabulary} {vocabulary}"
    own = "" if (folder / "source.spm").exists() else " --no-spm-decode"
    write(folder / "odd.txt", lines)
    translator = pymarian.Translator(f"{DECODING}{own} --n-best --word-scores {files}")
    write(folder / "odd.nbest", translator.translate(cut(folder, lines)))
    if own:
        write(folder / "odd.out", pymarian.Translator(f"{DECODING} {files}").translate(lines))


def costs(folder: Path, vocabulary: Path) -> None:
    sources, found = cut(folder, read(folder / "test.txt")), {}
    for row in read(folder / "test.nbest"):
        line, pieces = (field.strip() for field in row.split("|||")[:2])
        for length in range(1, len(pieces.split()) + 1):
            found[int(line), " ".join(pieces.split()[:length])] = ""
    with tempfile.TemporaryDirectory() as work:
        for line, pieces in found:
            write(Path(work, "source"), [sources[line]])
            write(Path(work, "target"), [pieces])
            texts, log = f"{work}/source {work}/target", Path(work, "log")
            pymarian.Trainer(
                f"{PRENORM} --pretrained-model {folder}/opus.npz --model {work}/opus.npz --vocabs {vocabulary} "
                f"{vocabulary} --train-sets {texts} --valid-sets {texts} --valid-log {log}"
            ).train()
            found[line, pieces] = read(log)[-1].split(" : ")[3]
            for file in Path(work).glob("opus.npz*"):
                file.unlink()
    write(folder / "costs.txt", [f"{line}\t{pieces}\t{cost}" for (line, pieces), cost in found.items()])


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        vocabulary = next(folder / name for name in ("vocab.spm", "opus.spm.vocab.yml") if (folder / name).exists())
        (costs if folder.name == "prenorm" else odd)(folder, vocabulary)


if __name__ == "__main__":
    main()
