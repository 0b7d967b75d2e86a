"""Imports a Marian folder of the size of a real OPUS-MT release: seconds, memory, exports, and latency of one line.

    python benchmarks/import_opus.py --folder=EMPTY [--transformers=PYTHON]

The model has 6 + 6 layers, d_model 512, d_ff 2048 and one table of 58,101 pieces, of random numbers; the bias of `</s>`
lets no output end, so that every engine makes the same number of pieces. Prints seconds and the most memory of the
import and of each export, then seconds of loading, and of one line of 32 pieces with 40 out, beam 4, by our exports, by
CTranslate2 from our own export, and, with a Python that has torch and transformers, by a MarianMTModel of that size.
Each engine has a process of its own, with two threads; engines take turns.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

LAYERS, D, F, V, HEADS = 6, 512, 2048, 58_101, 8
PIECES_IN, PIECES_OUT, BEAM, THREADS = 32, 40, 4, 2
WORDS = 30_000
SETTINGS = {
    "type": "transformer",
    "version": "v1.12.42",
    "dim-vocabs": [V, V],
    "dim-emb": D,
    "enc-depth": LAYERS,
    "dec-depth": LAYERS,
    "transformer-heads": HEADS,
    "transformer-dim-ffn": F,
    "transformer-ffn-activation": "swish",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "tied-embeddings-all": True,
}
TRANSFORMERS = """
import json, sys, time
import torch
from transformers import MarianConfig, MarianMTModel
given = json.loads(sys.argv[1])
torch.set_num_threads(given.pop("threads"))
pieces, out, beam = given.pop("pieces"), given.pop("out"), given.pop("beam")
model = MarianMTModel(MarianConfig(**given)).eval()
ids = torch.randint(2, given["vocab_size"] - 1, (1, pieces))
print("ready", flush=True)
for _ in sys.stdin:
    began = time.perf_counter()
    with torch.no_grad():
        model.generate(ids, num_beams=beam, min_new_tokens=out, max_new_tokens=out)
    print(time.perf_counter() - began, flush=True)
"""


def arrays() -> Iterator[tuple[str, Any]]:
    """Yields the arrays of the model by Marian's names."""
    draw = np.random.default_rng(1)

    def matrix(*shape: int) -> Any:
        return draw.standard_normal(shape, np.float32) * np.float32(D**-0.5)

    yield "Wemb", matrix(V, D)
    bias = np.zeros((1, V), np.float32)
    bias[0, 0] = -1e4
    yield "decoder_ff_logit_out_b", bias
    for stack, parts in (("encoder", ("self",)), ("decoder", ("self", "context"))):
        for layer in range(1, LAYERS + 1):
            start = f"{stack}_l{layer}_"
            for part in parts:
                for letter in "qkvo":
                    yield f"{start}{part}_W{letter}", matrix(D, D)
                    yield f"{start}{part}_b{letter}", matrix(1, D)
            for i, (rows, columns) in enumerate(((D, F), (F, D)), 1):
                yield f"{start}ffn_W{i}", matrix(rows, columns)
                yield f"{start}ffn_b{i}", matrix(1, columns)
            for norm in (*(f"{part}_Wo" for part in parts), "ffn_ffn"):
                yield f"{start}{norm}_ln_scale", np.ones((1, D), np.float32)
                yield f"{start}{norm}_ln_bias", np.zeros((1, D), np.float32)


def make(folder: Path) -> None:
    """Writes the folder; `line` is a text of PIECES_IN pieces with the end symbol."""
    import sentencepiece
    import yaml

    folder.mkdir(parents=True)
    settings = np.frombuffer(yaml.dump(SETTINGS).encode() + b"\0", np.int8)
    np.savez(folder / "opus.npz", **dict(arrays()), **{"special:model.yml": settings})
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 7))) for _ in range(WORDS)]
    (folder / "text").write_text("".join(f"{' '.join(words[i : i + 20])}\n" for i in range(0, WORDS, 20)))
    pieces: set[str] = set()
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text"), model_prefix=str(folder / side), vocab_size=12_000, minloglevel=2
        )
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        pieces |= {model.id_to_piece(i) for i in range(3, len(model))}
    names = ["</s>", "<unk>", *sorted(pieces)]
    names += [f"w{i}" for i in range(V - len(names))]
    (folder / "opus.spm.vocab.yml").write_text("".join(f"{json.dumps(n)}: {i}\n" for i, n in enumerate(names)))
    (folder / "decoder.yml").write_text(
        "models: [opus.npz]\nvocabs: [opus.spm.vocab.yml, opus.spm.vocab.yml]\nbeam-size: 4\nnormalize: 1\n"
    )
    whole = [word for word in words if len(model.encode(word)) == 1]
    (folder / "line").write_text(" ".join(whole[: PIECES_IN - 1]))


def run(what: str, module: str, *flags: str) -> None:
    """Runs a command, and prints its seconds, those of the processors, and the most memory of its process."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", f"t2t_lite.cli.{module}", *flags], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{what} ended with {code}.")
    seconds, memory = time.perf_counter() - began, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    processors = usage.ru_utime + usage.ru_stime
    print(f"| {what} | {seconds:.1f} | {processors:.1f} | {memory / 1e9:.2f} |", flush=True)


def size(folder: Path) -> float:
    """MB of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def answer(engine: str, folder: str, line: str, asked: Any) -> None:
    """Runs in a process of its own: loads the engine, then translates the line when asked."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    began = time.perf_counter()
    call = (ctranslate2_call if engine.startswith("CTranslate2") else our_call)(Path(folder), line)
    asked.send(time.perf_counter() - began)
    while asked.recv():
        began = time.perf_counter()
        call()
        asked.send(time.perf_counter() - began)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    asked.send(int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6)


def our_call(folder: Path, line: str) -> Callable[[], Any]:
    """Answers of an export, from text to text; the time of loading has TensorFlow's own start in it."""
    from t2t_lite.distributed.tensorflow_loading import load_tensorflow, quiet

    load_tensorflow()
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  # registers the ops of SentencePiece

    with quiet():
        model = tf.saved_model.load(str(folder))
    translate, inputs = model.signatures["serving_default"], tf.constant([line])
    translate.model = model  # otherwise it would be freed
    return lambda: translate(inputs=inputs)["outputs"].numpy()


def ctranslate2_call(folder: Path, line: str) -> Callable[[], Any]:
    """Answers of CTranslate2, from pieces to pieces."""
    import ctranslate2
    import sentencepiece

    engine = ctranslate2.Translator(str(folder), device="cpu", intra_threads=THREADS)
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder.parents[1] / "there" / "source.spm"))
    rows = [model.encode(line, out_type=str)]
    length = {"min_decoding_length": PIECES_OUT, "max_decoding_length": PIECES_OUT}

    def call() -> None:
        found = engine.translate_batch(rows, beam_size=BEAM, length_penalty=1, **length)
        if len(found[0].hypotheses[0]) != PIECES_OUT:
            raise SystemExit("CTranslate2 made an output of another length.")

    return call


class Side:
    """transformers in another Python, with the methods of a Connection that `measure` uses."""

    def __init__(self, python: str) -> None:
        given = {
            "d_model": D,
            "encoder_layers": LAYERS,
            "decoder_layers": LAYERS,
            "encoder_attention_heads": HEADS,
            "decoder_attention_heads": HEADS,
            "encoder_ffn_dim": F,
            "decoder_ffn_dim": F,
            "vocab_size": V + 1,
            "pad_token_id": V,
            "decoder_start_token_id": V,
            "eos_token_id": 0,
            "activation_function": "swish",
            "scale_embedding": True,
            "threads": THREADS,
            "pieces": PIECES_IN,
            "out": PIECES_OUT,
            "beam": BEAM,
        }
        command = [python, "-c", TRANSFORMERS, json.dumps(given)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def recv(self) -> float:
        """The next number that it prints; nan for the word that it is ready."""
        assert self._process.stdout
        word = self._process.stdout.readline().strip()
        return float("nan") if word in ("ready", "") else float(word)

    def send(self, more: bool) -> None:
        """Asks for another output, or ends the process."""
        assert self._process.stdin
        if more:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        else:
            self._process.stdin.close()
            self._process.wait()


def measure(engines: dict[str, Any], loaded: dict[str, float], rounds: int) -> None:
    """Prints a row for each engine: seconds of loading, of the first answer, and of a line, in turns."""
    taken: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds + 1):
        for name, engine in engines.items():
            engine.send(True)
            taken[name].append(engine.recv())
    print("\n| engine | load s | first s | a line s, median (min to max) | peak MB |\n|---|---|---|---|---|")
    for name, engine in engines.items():
        first, *rest = taken[name]
        engine.send(False)
        memory = engine.recv()
        spread = f"{statistics.median(rest):.3f} ({min(rest):.3f} to {max(rest):.3f})"
        print(f"| {name} | {loaded[name]:.1f} | {first:.2f} | {spread} | {memory:,.0f} |", flush=True)


def main() -> None:
    """The command; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--transformers", metavar="PYTHON", help="a Python that has torch and transformers")
    args = parser.parse_args()
    there, first = args.folder / "there", args.folder / "run"
    processes = multiprocessing.get_context("spawn")
    # In its own process: the peak memory of a child includes what its parent held when the child was made.
    maker = processes.Process(target=make, args=(there,))
    maker.start()
    maker.join()
    if maker.exitcode:
        raise SystemExit("The model could not be written; see above.")
    megabytes = (there / "opus.npz").stat().st_size / 1e6
    print(f"opus.npz has {megabytes:.0f} MB. Load of the machine before: {os.getloadavg()[0]:.2f}")
    print("\n| command | seconds | of processors | peak GB |\n|---|---|---|---|")
    for _ in range(3):
        shutil.rmtree(first, ignore_errors=True)
        length = ["--max_length_factor=1", f"--extra_length={PIECES_OUT - PIECES_IN}"]
        flags = [f"--checkpoint={there}", f"--output_dir={first}", *length]
        run("import", "importer", *flags)
    folders = {}
    for kind, name in (("saved_model", "t2t-lite"), ("ctranslate2", "CTranslate2")):
        for precision in ("float32", "int8"):
            base = args.folder / f"{kind}_{precision}"
            flags = [f"--output_dir={first}", f"--format={kind}", f"--precision={precision}", f"--export_dir={base}"]
            run(f"export, {kind} {precision}", "exporter", *flags)
            folders[f"{name} {precision}"] = base / "1"
    for name, folder in folders.items():
        print(f"{name}: {size(folder):.0f} MB on disk", flush=True)
    line = (there / "line").read_text()
    engines: dict[str, Any] = {}
    loaded: dict[str, float] = {}
    for name, folder in folders.items():
        engines[name], theirs = processes.Pipe()
        processes.Process(target=answer, args=(name, str(folder), line, theirs), daemon=True).start()
        loaded[name] = engines[name].recv()  # one after the other
    if args.transformers:
        engines["transformers float32"] = Side(args.transformers)
        loaded["transformers float32"] = engines["transformers float32"].recv()
    measure(engines, loaded, args.rounds)
    print(f"load of the machine after: {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
