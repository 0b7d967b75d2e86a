"""Checks an export of --format=huggingface with transformers, or one of --format=marian with pymarian.

Needs transformers, torch and sentencepiece, or pymarian and sentencepiece; not this package:

    PYTHON_OF_TRANSFORMERS tests/golden/exported.py huggingface FOLDER LINES EXPECTED.npz
    PYTHON_OF_MARIAN tests/golden/exported.py marian FOLDER LINES EXPECTED.json

FOLDER is a version that t2t-lite-exporter wrote. What is expected is written by tests/export/expected.py, which needs
this package: of transformers the logits of each line's target, of Marian the best outputs and their scores.
"""

import json
import sys
from pathlib import Path


def main() -> None:
    kind, folder, lines, expected = sys.argv[1:]
    texts = Path(lines).read_text("utf-8").splitlines()
    {"huggingface": check_huggingface, "marian": check_marian}[kind](Path(folder), texts, expected)


def check_huggingface(folder: Path, lines: list[str], expected: str) -> None:
    import numpy as np
    import torch
    from transformers import MarianMTModel, MarianTokenizer

    tokenizer = MarianTokenizer.from_pretrained(folder)
    model, info = MarianMTModel.from_pretrained(folder, output_loading_info=True)
    model = model.eval()
    print("loading:", {name: sorted(found) for name, found in info.items() if found})
    file = np.load(expected, allow_pickle=False)
    equal_ids, worst, size = 0, 0.0, 0.0
    for i, line in enumerate(lines):
        source, target = file[f"source_{i}"], file[f"target_{i}"]
        batch = tokenizer([line], return_tensors="pt")
        ids = batch["input_ids"][0].tolist()
        equal_ids += ids == source.tolist()
        start = [model.config.decoder_start_token_id]
        with torch.no_grad():
            logits = model(
                input_ids=torch.tensor([source.tolist()]),
                decoder_input_ids=torch.tensor([start + target[:-1].tolist()]),
            ).logits[0]
        wanted = file[f"logits_{i}"]
        kept = [j for j in range(wanted.shape[-1]) if j != tokenizer.pad_token_id]
        worst = max(worst, float(np.abs(logits.numpy()[:, kept] - wanted[:, kept]).max()))
        size = max(size, float(np.abs(wanted[:, kept]).max()))
    print(f"ids of {equal_ids} of {len(lines)} lines are equal; logits differ by {worst:.2e} at most, up to {size:.1f}")
    outputs, equal, score = json.loads(str(file["outputs"])), 0, 0.0
    for line, (text, wanted) in zip(lines, outputs, strict=True):
        batch = tokenizer([line], return_tensors="pt")
        row = model.generate(**batch, max_new_tokens=80, return_dict_in_generate=True, output_scores=True)
        found = tokenizer.batch_decode(row.sequences, skip_special_tokens=True)[0]
        same = found == text
        equal += same
        if same and hasattr(row, "sequences_scores") and row.sequences_scores is not None:
            score = max(score, abs(float(row.sequences_scores[0]) - wanted))
    print(f"best outputs of {equal} of {len(lines)} lines are equal; their scores differ by {score:.2e} at most")


def check_marian(folder: Path, lines: list[str], expected: str) -> None:
    import pymarian
    import sentencepiece

    settings = (folder / "decoder.yml").read_text("utf-8")
    names = [line.removeprefix("  - ") for line in settings.splitlines() if line.startswith("  - ")]
    values = dict(line.split(": ") for line in settings.splitlines() if ": " in line)
    files = f"--models {folder / names[0]} --vocabs {folder / names[1]} {folder / names[2]}"
    search = f"--beam-size {values['beam-size']} --normalize {values['normalize']}"
    search += " --allow-unk" if values["allow-unk"] == "true" else ""
    translator = pymarian.Translator(
        f"{files} {search} --cpu-threads 1 --mini-batch 1 --maxi-batch 1 --workspace 200 --quiet --n-best --word-scores"
    )
    cutter, joiner = (
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in ("source", "target")
    )
    cut = [" ".join(row) for row in cutter.encode(lines, out_type=str)]
    best: dict[int, str] = {}
    for row in translator.translate(cut):
        best.setdefault(int(row.partition("|||")[0]), row)
    equal, worst = 0, 0.0
    outputs = json.loads(Path(expected).read_text("utf-8"))
    for i, (text, wanted) in enumerate(outputs):
        _, pieces, *_, score = (field.strip() for field in best[i].split("|||"))
        same = joiner.decode(pieces.split()) == text
        equal += same
        worst = max(worst, abs(float(score) - wanted)) if same else worst
    print(f"best outputs of {equal} of {len(lines)} lines are equal; their scores differ by {worst:.2e} at most")


if __name__ == "__main__":
    main()
