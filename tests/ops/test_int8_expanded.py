"""Int8 matrices that an export expands to float32 when it is loaded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.ops import int8_expanded
from t2t_lite.ops.int8_expanded import ExpandedMatrices, expanded_matrices


class _Saved(tf.Module):
    """Answers with what its matrices expand to, alone and below each other; zeros where integers are exact."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = np.random.default_rng(seed)
        # No size is a multiple of what the variable is aligned to.
        self.arrays = [tf.Variable(draw.integers(-127, 128, shape).astype(np.int8)) for shape in ((3, 5), (4, 5))]
        self.expanded = ExpandedMatrices()

    @tf.function(input_signature=[])
    def read(self) -> Any:
        def compute() -> Any:
            expanded = expanded_matrices()
            if expanded is None:
                return tf.zeros([1, 5]), tf.zeros([1, 5])
            return expanded.read(self.arrays[1:]), expanded.read(self.arrays)

        return self.expanded.compute_anywhere(compute)


@pytest.mark.parametrize("exact", [False, True])
def test_loading_expands_them_where_products_are_not_exact(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exact: bool
) -> None:
    monkeypatch.setattr(int8_expanded, "is_exact", lambda: tf.constant(exact))
    saved = [_Saved(seed) for seed in (1, 2)]
    for i, each in enumerate(saved):
        tf.saved_model.save(each, str(tmp_path / str(i)))
    loaded = [tf.saved_model.load(str(tmp_path / str(i))) for i in (0, 1, 0)]
    for each, wanted in zip(loaded, [*saved, saved[0]], strict=True):
        first, second = (array.numpy().astype(np.float32) for array in wanted.arrays)
        one, both = each.read()
        np.testing.assert_array_equal(one, second if not exact else np.zeros((1, 5)))
        np.testing.assert_array_equal(both, np.concatenate([first, second]) if not exact else np.zeros((1, 5)))
