"""One update of a small model with XLA, watched as the trainer does; prints the loss."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.cli import common
from t2t_lite.distributed.tensorflow_loading import load_tensorflow


def main() -> int:
    """Makes the update."""
    load_tensorflow()
    import keras

    from t2t_lite.distributed.devices import Devices, make_strategy
    from t2t_lite.models.transformer import Transformer
    from t2t_lite.models.transformer_hparams import TransformerHParams
    from t2t_lite.optimizers.choices import make_optimizer
    from t2t_lite.runs.metrics_log import Report
    from t2t_lite.training.compilations import Compilations
    from t2t_lite.training.step import TrainStep

    sizes: dict[str, Any] = {"num_layers": 1, "d_model": 8, "d_ff": 8, "num_heads": 2, "dropout": 0.0}
    hparams = TransformerHParams(**sizes, jit="on")
    keras.utils.set_random_seed(1)
    model = Transformer.from_hparams(hparams, 9, 9, True)
    optimizer = make_optimizer(hparams, [w.value for w in model.trainable_weights])
    parts = model, optimizer, make_strategy(Devices(1)), hparams.optimization
    step = TrainStep(*parts, accumulate=1, seed=1, jit=True)
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    report = Report(folder, 1, 30, cost=model.cost, flops=0, device_flops_per_second=1e9)
    compilations = Compilations(report, 1)
    batch = {side: np.full((2, 3), 5, np.int32) for side in ("source", "target")}
    with compilations.watch(2, 3, 3):
        step(batch, 1, 1e-3)
    report.close()
    print(step.outcome().loss)
    return 0


if __name__ == "__main__":
    sys.exit(common.run(main))
