"""Where the time of one command goes until its first result: wall and processor seconds of each phase.

    python benchmarks/phases.py decoder --output_dir=RUN --input=FILE --output=/dev/null
    python benchmarks/phases.py trainer --output_dir=RUN
    python benchmarks/phases.py load EXPORT/1

The trainer is ended after its second update. `load` is the plain SavedModel of TensorFlow, without this package. A
phase is indented under the one that it is a part of. Run it twice: the first time may write compiled modules and traced
graphs.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What is timed, by module; modules are imported when TensorFlow has been.
PHASES = {
    "t2t_lite.runs.open_run": ("read_run", "make_model"),
    "t2t_lite.runs.checkpoint": ("Checkpoints.load_weights", "Checkpoints.load_training"),
    "t2t_lite.ops.prepacked": ("is_supported",),
    "t2t_lite.decoding.graph_store": ("GraphStore._load", "GraphStore._save"),
    "t2t_lite.decoding.sized_graph": ("SizedGraph.keep", "SizedGraph.__call__"),
}
OF_TRAINING = {
    "t2t_lite.training.trainer": ("build_model", "make_optimizer", "device_flops_per_second", "Report"),
    "t2t_lite.training.step": ("TrainStep.keep", "TrainStep.warm_up"),
    "t2t_lite.training.loop": ("Updates.make",),
}
_start = time.perf_counter()
_depth = 0
_rows: list[str] = []


def _timed(name: str, function: Callable[..., Any], times: int = sys.maxsize) -> Callable[..., Any]:
    """Returns a function whose calls are noted; the process ends after `times` of them."""

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        nonlocal times
        global _depth
        begun, used = time.perf_counter(), time.process_time()
        place, _depth = len(_rows), _depth + 1
        try:
            return function(*args, **kwargs)
        finally:
            _depth, times = _depth - 1, times - 1
            seconds = f"{begun - _start:8.2f} {time.perf_counter() - begun:8.2f} {time.process_time() - used:8.2f}"
            _rows.insert(place, f"{seconds}  {'  ' * _depth}{name}")
            if times == 0:
                _report()
                os._exit(0)

    return timed


def _time_phases(phases: dict[str, tuple[str, ...]]) -> None:
    for module, names in phases.items():
        for name in names:
            owner: Any = importlib.import_module(module)
            *owners, last = name.split(".")
            for part in owners:
                owner = getattr(owner, part)
            setattr(owner, last, _timed(name, getattr(owner, last), 2 if name == "Updates.make" else sys.maxsize))


def _report() -> None:
    print(f"{'at':>8} {'seconds':>8} {'of CPUs':>8}")
    print(*_rows, sep="\n")
    used = time.process_time()
    print(f"{0:8.2f} {time.perf_counter() - _start:8.2f} {used:8.2f}  all, from the first line of Python", flush=True)


def main() -> None:
    command, *rest = sys.argv[1:]
    if command == "load":
        _load(*rest)
        return
    from t2t_lite.distributed import tensorflow_loading

    load = _timed("load_tensorflow", tensorflow_loading._import_tensorflow)
    missing = [True]

    def load_and_time() -> None:
        if missing:
            missing.clear()
            load()
            _timed("this package's modules", _time_phases)(PHASES | (OF_TRAINING if command == "trainer" else {}))

    tensorflow_loading._import_tensorflow = load_and_time
    module = _timed("the command's modules", importlib.import_module)(f"t2t_lite.cli.{command}")
    module.main(rest)
    _report()


def _load(folder: str) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

    def of_libraries() -> Any:
        import tensorflow as tf

        return tf

    tf = _timed("import tensorflow", of_libraries)()
    _timed("import tensorflow_text", importlib.import_module)("tensorflow_text")
    model = _timed("tf.saved_model.load", tf.saved_model.load)(str(Path(folder)))
    answer = model.signatures["serving_default"]
    for name in ("first answer", "second answer"):
        _timed(name, answer)(inputs=tf.constant(["a"]))
    _report()


if __name__ == "__main__":
    main()
