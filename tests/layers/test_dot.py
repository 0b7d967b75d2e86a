"""Products with weight matrices, plain and laid out for the steps of a search."""

import numpy as np
import pytest

from t2t_lite.layers.dot import dot, step_dot
from tests import reference


@pytest.mark.parametrize("columns", [7, 256, 300, 512])  # 256 and 512 are laid out with columns more
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_both_are_the_product(columns: int, dtype: str) -> None:
    draw = np.random.default_rng(5)
    x, kernel = draw.standard_normal((2, 3, 16)).astype(dtype), draw.standard_normal((16, columns)).astype("float32")
    wanted = np.float64(x) @ np.float64(kernel)
    for got in (dot(x, kernel), step_dot(kernel, dtype)(x)):
        assert got.dtype == dtype
        assert tuple(got.shape) == (2, 3, columns)
        reference.assert_close(np.float32(got), wanted, 1e-6 if dtype == "float32" else 2**-7)
