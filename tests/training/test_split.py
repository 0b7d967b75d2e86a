"""Split of rows over devices and accumulation steps, against cutting by hand."""

import numpy as np
import pytest

from t2t_lite.training.split import Split


@pytest.mark.parametrize(
    ("devices", "accumulate", "rows", "wanted"),
    [
        (1, 1, 7, [7]),
        (2, 1, 7, [4, 3]),
        (3, 2, 7, [2, 2, 2, 1, 0, 0]),
        (5, 1, 3, [1, 1, 1, 0, 0]),
        (1, 3, 9, [3, 3, 3]),
    ],
)
def test_parts_are_consecutive_rows_with_empty_ones_at_the_end(
    devices: int, accumulate: int, rows: int, wanted: list[int]
) -> None:
    split = Split(devices, accumulate)
    ids = np.arange(1, rows + 1, dtype=np.int32)[:, None] * np.ones(4, np.int32)
    cut = split.cut({"target": ids})["target"]
    assert cut.shape == (devices, accumulate, split.part_rows(rows), 4)
    parts = cut.swapaxes(0, 1).reshape(split.parts, -1, 4)  # part p is of device p mod R
    assert [int((part[:, 0] > 0).sum()) for part in parts] == wanted
    np.testing.assert_array_equal(parts.reshape(-1, 4)[:rows], ids)


@pytest.mark.parametrize(
    ("devices", "accumulate", "groups", "part_groups", "busy"),
    [
        (1, 1, 8, 8, 1),
        (2, 1, 8, 4, 2),
        (3, 1, 8, 3, 3),
        (5, 1, 8, 2, 4),
        (7, 1, 8, 2, 4),
        (3, 2, 8, 2, 3),
        (5, 2, 8, 1, 5),
        (9, 1, 8, 1, 8),
    ],
)
def test_a_part_has_whole_groups(devices: int, accumulate: int, groups: int, part_groups: int, busy: int) -> None:
    split = Split(devices, accumulate, groups)
    assert split.part_groups == part_groups
    assert split.part_rows(30) == part_groups * 4  # groups of 4 rows, the last one of 2
    warning = split.warning()
    assert (warning is None) == (busy == devices)
    if warning:
        assert warning.startswith(f"warning: {busy} of {devices} devices have work. ")


def test_parts_of_one_row_or_group_are_the_finest() -> None:
    assert Split(2, 3).is_finest(6)
    assert not Split(2, 3).is_finest(7)
    assert Split(1, 8, balance_groups=8).is_finest(100)
    assert not Split(1, 4, balance_groups=8).is_finest(100)
