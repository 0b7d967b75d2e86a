"""Products of 8-bit integers against NumPy's."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.ops.int8_product import Columns, int8_product

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.usefixtures("int8_machine")
@pytest.mark.parametrize("prepack", [False, True])
@pytest.mark.parametrize(("inputs", "outputs"), [(5, 3), (64, 300), (512, 70)])
def test_products_are_exact_for_all_numbers_of_rows(inputs: int, outputs: int, prepack: bool) -> None:
    draw = np.random.default_rng(1)
    columns = draw.integers(-127, 128, (outputs, inputs)).astype(np.int8)
    scales = (2.0 ** draw.integers(-3, 4, outputs)).astype(np.float32)  # products with powers of two are exact

    @tf.function(input_signature=[tf.TensorSpec([None, inputs], tf.int8)], autograph=False)
    def product(rows: Any) -> Any:
        return int8_product(rows, Columns.make(tf.constant(columns), tf.constant(scales)), prepack=prepack)

    for number in (0, 1, 300, 4, 65, 1):
        rows = draw.integers(-127, 128, (number, inputs)).astype(np.int8)
        rows[:1] = 127  # the largest sums that can occur
        wanted = np.int64(rows) @ np.int64(columns).T * scales
        np.testing.assert_array_equal(product(rows).numpy(), np.float32(wanted))


CHECK = "from t2t_lite.ops.int8_product import is_exact_here; print(is_exact_here())"


@pytest.mark.nightly
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="takes a feature off x86")
def test_a_processor_that_would_add_wrongly_is_found() -> None:
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}  # as if the processor had nothing newer
    done = subprocess.run(
        [sys.executable, "-c", CHECK], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
