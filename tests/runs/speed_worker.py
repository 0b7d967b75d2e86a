"""Prints how much faster all processors are than one, by utilisation's reference.

Usage: python -m tests.runs.speed_worker
"""

import statistics
import sys

from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.ops import threads
from t2t_lite.runs.utilisation import device_flops_per_second

if __name__ == "__main__":
    threads.set_inter_op_parallelism()
    strategy = make_strategy(Devices(1))
    processors, ratios = threads.num_parallel(), []
    for _ in range(5):
        speeds = []
        for number in (1, processors):
            threads.num_parallel = lambda number=number: number
            speeds.append(device_flops_per_second(strategy, "float32"))
        ratios.append(speeds[1] / speeds[0])
    sys.stdout.write(f"{processors} {statistics.median(ratios)}\n")
    sys.stdout.flush()
