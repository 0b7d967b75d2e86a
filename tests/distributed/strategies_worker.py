"""Adds numbers up with two strategies over the same two devices, in turns, in one process."""

import tensorflow as tf

from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.ops.graph import graph


def _add_up(strategy: tf.distribute.Strategy, size: int) -> float:
    def sums() -> list[tf.Tensor]:
        context = tf.distribute.get_replica_context()
        found: list[tf.Tensor] = context.all_reduce(tf.distribute.ReduceOp.SUM, [tf.ones([size]), tf.ones([2 * size])])
        return found

    results = strategy.experimental_local_results(graph(lambda: strategy.run(sums))())
    return float(tf.reduce_sum(results[0][0]))


if __name__ == "__main__":
    first, second = (make_strategy(Devices(2)) for _ in range(2))
    print(_add_up(first, 3), _add_up(second, 5), _add_up(first, 7))
