"""Arrays that an export makes when it is loaded: packed weights, in each precision."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.ops.loaded_arrays import LoadedArrays
from t2t_lite.ops.outer_graph import OuterGraph
from t2t_lite.ops.packed import PackedMatrix
from tests import reference


class _Saved(tf.Module):
    """Multiplies with a table [O, I], and with two kernels [I, O] at once."""

    def __init__(self, seed: int, dtype: str) -> None:
        super().__init__()
        draw = np.random.default_rng(seed)
        # No size is a multiple of what the variable is aligned to.
        self.weights = [tf.Variable(np.float32(draw.standard_normal(shape))) for shape in ((7, 5), (5, 3), (5, 6))]
        self.packed = LoadedArrays(dtype)
        self.multiply = tf.function(
            self._multiply, input_signature=[tf.TensorSpec([None, 5], dtype, "rows")], autograph=False
        )

    def _multiply(self, rows: Any) -> Any:
        outer = OuterGraph()
        table, first, second = (
            PackedMatrix(weight, axes, outer) for weight, axes in zip(self.weights, ("OI", "IO", "IO"), strict=True)
        )
        with self.packed.in_use():
            return [*table.multiply(rows), *first.multiply(rows, second), *second.multiply(rows)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_loading_packs_the_weights_and_a_call_does_not(tmp_path: Path, dtype: str) -> None:
    saved = [_Saved(seed, dtype) for seed in (1, 2)]
    for i, each in enumerate(saved):
        tf.saved_model.save(each, str(tmp_path / str(i)))
    loaded = [tf.saved_model.load(str(tmp_path / str(i))) for i in (0, 1, 0)]  # a process may load several
    rows = tf.cast(np.float32(np.random.default_rng(3).standard_normal((4, 5))), dtype)
    for each, made in zip(loaded, [*saved, saved[0]], strict=True):
        table, first, second = (np.float64(weight.numpy()) for weight in made.weights)
        wanted = [np.float64(rows) @ matrix for matrix in (table.T, first, second, second)]
        for got, product in zip(each.multiply(rows), wanted, strict=True):
            assert got.dtype == dtype
            reference.assert_close(np.float32(got), product, 1e-6 if dtype == "float32" else 2**-6)
    operations = {operation.type for operation in saved[0].multiply.get_concrete_function().graph.get_operations()}
    assert operations & {"ConcatV2", "ReadVariableOp"} == {"ReadVariableOp"}
