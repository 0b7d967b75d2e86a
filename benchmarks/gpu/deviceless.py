"""What a training step or a search would be on an H100, found without one: kernels, bytes, memory, compile time.

    python benchmarks/gpu/deviceless.py --xla_python=VENV/bin/python --hparams_set=base --rows=784
    python benchmarks/gpu/deviceless.py search --xla_python=VENV/bin/python --hparams_set=base --sentences=64

The project's own step or search is traced, and what it gives to XLA is compiled for an H100 by jaxlib's CUDA plugin,
which needs no GPU (compile_for_h100.py, in an environment of its own). kernels.py reads the optimised programs. The
programs and the processor time of compiling them, without autotuning, are measured. The milliseconds are a model's.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from kernels import MACHINES, Kernel, read_kernels, summarise

from t2t_lite import config, registry
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.distributed.xla import GPU_DEFAULTS


class Traced(Exception):  # noqa: N818 (no error: ends a call whose graph has been traced)
    """Raised where a graph would run."""


@dataclasses.dataclass
class Program:
    """What XLA made of one function of the step."""

    name: str
    hlo_bytes: int
    compile_seconds: float
    temporary_bytes: int
    kernels: list[Kernel]
    kernels_a_step: int = 0  # of a search


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description="Compiles a training step for an H100 that is not there.")
    parser.add_argument("what", nargs="?", choices=("step", "search"), default="step")
    parser.add_argument("--hparams_set", default="base")
    parser.add_argument("--hparams", default="", help="as in t2t-lite-trainer: precision=bfloat16,...")
    parser.add_argument("--rows", type=int, help="of a whole batch; default: the recipe's batch_tokens / target_length")
    parser.add_argument("--accumulate", type=int, default=1, help="parts of a batch, computed one after the other")
    parser.add_argument("--source_length", type=int, default=32)
    parser.add_argument("--target_length", type=int, default=32)
    parser.add_argument("--sentences", type=int, default=64, help="of a search")
    parser.add_argument("--steps", type=int, default=40, help="of a search; its loop has no count of its own")
    parser.add_argument("--vocab_size", type=int, default=37000)
    parser.add_argument("--xla_python", default=os.environ.get("T2T_LITE_XLA_PYTHON"), help="see compile_for_h100.py")
    parser.add_argument("--xla_flags", default="", help="besides the trainer's, with spaces between them")
    parser.add_argument("--keep", type=Path, help="folder for XLA's dumps; default: none is kept")
    parser.add_argument("--largest", type=int, default=0, help="also lists so many kernels that take longest")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not args.xla_python:
        parser.error("--xla_python or T2T_LITE_XLA_PYTHON is needed")
    load_tensorflow()
    hparams = config.override(config.replace(registry.hparams(args.hparams_set), jit="on"), args.hparams)
    rows = args.rows or math.ceil(hparams.batch_tokens / args.target_length / 8) * 8
    lengths = {"source": args.source_length, "target": args.target_length}
    with tempfile.TemporaryDirectory(prefix="t2t-lite-deviceless-") as name:
        folder = args.keep or Path(name)
        usual = [f"--{flag}={value}" for flag, value in GPU_DEFAULTS.items()]
        flags = ["--xla_gpu_autotune_level=0", *usual, *args.xla_flags.split()]
        if args.what == "search":
            rows = args.sentences
            lowered = [lower_search(args.hparams_set, hparams, rows, args.source_length, args.vocab_size)]
        else:
            lowered = lower_step(args.hparams_set, hparams, rows, lengths, args.vocab_size, args.accumulate)
        sizes = args.vocab_size, args.steps
        programs = [compile_program(name, hlo, folder / name, args.xla_python, flags, *sizes) for name, hlo in lowered]
    if not programs:
        sys.exit(f"XLA compiles no training of {args.hparams_set}'s model.")
    if args.json:
        print(json.dumps([dataclasses.asdict(p) | {"kernels": summarise(p.kernels)} for p in programs]))
        return
    length = f"{args.steps} steps" if args.what == "search" else args.target_length
    print(f"{args.hparams_set} {args.hparams}: {rows} x ({args.source_length} + {length}) pieces")
    for program in programs:
        print_program(program, args.largest)


def lower_step(
    hparams_set: str,
    hparams: config.HParams,
    rows: int,
    lengths: Mapping[str, int],
    vocab_size: int,
    accumulate: int,
) -> list[tuple[str, bytes]]:
    """Returns (name, serialised HLO before optimisation) of each program of a training step."""
    import numpy as np
    import tensorflow as tf

    from t2t_lite.distributed.devices import Devices, make_strategy
    from t2t_lite.optimizers.choices import make_optimizer
    from t2t_lite.training.build import uses_xla
    from t2t_lite.training.step import TrainStep

    model: Any = registry.MODELS.get(registry.model_of(hparams_set)).from_hparams(hparams, vocab_size, vocab_size, True)
    optimizer = make_optimizer(hparams, [w.value for w in model.trainable_weights])
    kinds = ("", "_segment", "_position") if hparams.packing else ("",)
    batch = {side + kind: np.ones((rows, length), np.int32) for side, length in lengths.items() for kind in kinds}
    functions: list[Recorder] = []
    original = tf.function

    def recorded(function: Any, *, jit_compile: bool | None = None, **options: Any) -> Any:
        made = original(function, jit_compile=jit_compile, **options)
        if not jit_compile:
            return Tracer(made)
        functions.append(Recorder(function, made))
        return functions[-1]

    with mock.patch.object(tf, "function", recorded):
        how = {"seed": hparams.seed, "jit": uses_xla(hparams, model), "packed": hparams.packing}
        parts = (model, optimizer, make_strategy(Devices(1)), hparams.optimization)
        step = TrainStep(*parts, accumulate=accumulate, **how)
        with contextlib.suppress(Traced):
            step(batch, 1, 1e-4)
    cut = step.split.cut(batch)  # [1, accumulate, rows, length]
    return [(f.name, f.lower(cut)) for f in functions if f.arguments]


def lower_search(
    hparams_set: str, hparams: config.HParams, sentences: int, length: int, vocab_size: int
) -> tuple[str, bytes]:
    """Returns the name and the serialised HLO, before optimisation, of a beam search as GPUs run it."""
    import tensorflow as tf

    from t2t_lite.decoding.beam_search import beam_search

    model: Any = registry.MODELS.get(registry.model_of(hparams_set)).from_hparams(hparams, vocab_size, vocab_size, True)

    def search(source: Any, early_stop: Any) -> Any:
        return beam_search(
            model,
            source,
            beam_size=hparams.beam_size,
            alpha=hparams.length_penalty,
            extra_length=hparams.extra_length,
            early_stop=early_stop,
            jit=True,
        )

    arguments = tf.TensorSpec([sentences, length], tf.int32), tf.TensorSpec([], tf.bool)
    lowered = tf.function(search, jit_compile=True, autograph=False).experimental_get_compiler_ir(*arguments)
    return "search", bytes(lowered(stage="hlo_serialized"))


class Tracer:
    """Stands for a graph: traces it, and does not run it."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        self._function.get_concrete_function(*args)
        raise Traced


class Recorder:
    """Stands for a function that XLA compiles: remembers the arguments with which a graph calls it."""

    def __init__(self, function: Any, compiled: Any) -> None:
        self._function, self._compiled, self.name = function, compiled, function.__name__
        self.arguments: tuple[Any, ...] = ()

    def __call__(self, *args: Any) -> Any:
        self.arguments = args
        return self._compiled(*args)

    def lower(self, batch: Mapping[str, Any]) -> bytes:
        """Serialised HLO; what the graph left open in the shapes of a batch is filled in."""
        import tensorflow as tf

        def spec(argument: Any, sizes: Sequence[int]) -> Any:
            filled = [size if own is None else own for own, size in zip(argument.shape, sizes, strict=True)]
            return tf.TensorSpec(filled, argument.dtype)

        given = [
            {name: spec(value, batch[name].shape) for name, value in argument.items()}
            if isinstance(argument, Mapping)
            else tf.nest.map_structure(lambda value: spec(value, value.shape), argument)
            for argument in self.arguments
        ]

        def flat(*values: Any) -> Any:  # all that `experimental_get_compiler_ir` takes
            return self._function(*tf.nest.pack_sequence_as(given, values))

        compiled = tf.function(flat, jit_compile=True, autograph=False)
        return bytes(compiled.experimental_get_compiler_ir(*tf.nest.flatten(given))(stage="hlo_serialized"))


def compile_program(
    name: str, hlo: bytes, folder: Path, python: str, flags: list[str], vocab_size: int, steps: int
) -> Program:
    """Compiles one program for an H100; `steps` as in `read_kernels`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.pb").write_bytes(hlo)
    command = [python, str(Path(__file__).with_name("compile_for_h100.py")), str(folder / "program.pb"), str(folder)]
    done = subprocess.run(
        [*command, *flags], capture_output=True, text=True, check=False, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    )
    if done.returncode:
        sys.exit(f"{name} was not compiled:\n{done.stderr[-3000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    (text,) = folder.glob("*gpu_after_optimizations.txt")
    kernels, fewer = (read_kernels(text.read_text(encoding="utf-8"), vocab_size, number) for number in (steps, 0))
    of_steps = sum(kernel.times for kernel in kernels) - sum(kernel.times for kernel in fewer)
    return Program(name, len(hlo), told["seconds"], told["temporary"], kernels, of_steps // steps)


def print_program(program: Program, largest: int) -> None:
    """Prints a program's table, and the kernels that take longest."""
    print(
        f"\n{program.name}: HLO {program.hlo_bytes / 1e6:.2f} MB, compiled in {program.compile_seconds:.1f} s of "
        f"processor time, temporary memory {program.temporary_bytes / 1e9:.2f} GB"
        + (f"; {program.kernels_a_step} kernels a step" if program.kernels_a_step else "")
    )
    print(f"{'':30}{'kernels':>9}{'GB':>9}{'TFLOP':>9}" + "".join(f"{'ms ' + name:>10}" for name in MACHINES))
    for kind, sums in summarise(program.kernels).items():
        times = "".join(f"{sums['ms_' + name]:10.2f}" for name in MACHINES)
        print(f"{kind:30}{sums['kernels']:9,.0f}{sums['gb']:9.2f}{sums['tflop']:9.3f}{times}")
    seconds = lambda kernel: kernel.times * kernel.seconds(MACHINES["H200"])  # noqa: E731
    for kernel in sorted(program.kernels, key=seconds, reverse=True)[:largest]:
        print(
            f"  {1000 * seconds(kernel):7.3f} ms = {kernel.times} x {(kernel.read + kernel.written) / 1e6:8.1f} MB  "
            f"{kernel.kind:28} {kernel.name:40} {kernel.shape[:80]}"
        )


if __name__ == "__main__":
    main()
