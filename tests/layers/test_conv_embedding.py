"""ConvEmbedding: the sum of symbol vectors and position vectors."""

import numpy as np
import pytest

from t2t_lite.layers.conv_embedding import ConvEmbedding

IDS = np.array([[5, 9, 0], [1, 0, 0]], "int32")


def test_padding_has_its_position_alone_and_the_last_row_is_for_all_behind_it() -> None:
    layer = ConvEmbedding(11, 2, 4, name="embedding")
    layer.build()
    table, positions = np.asarray(layer.table), np.asarray(layer.positions)
    got = np.asarray(layer(IDS, np.arange(3)))
    for row, t in np.ndindex(2, 3):
        symbol = table[IDS[row, t]] if IDS[row, t] else 0
        np.testing.assert_array_equal(got[row, t], symbol + positions[min(t, 1)])
    np.testing.assert_array_equal(layer(IDS[:, 1:2], positions=1), got[:, 1:2])  # one position for all


def test_initial_numbers_have_a_standard_deviation_of_a_tenth_and_the_type_asked_for() -> None:
    layer = ConvEmbedding(300, 200, 64, "bfloat16", name="embedding")
    layer.build()
    for table in (layer.table, layer.positions):
        assert table.dtype == "float32"
        assert np.std(table) == pytest.approx(0.1, rel=0.03)
    assert layer(IDS, np.arange(3)).dtype.name == "bfloat16"
