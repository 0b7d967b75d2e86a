"""Lines in blocks, read from files and, as they arrive, from pipes."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from t2t_lite.cli.line_source import BLOCK, LiveLines, file_blocks, parse_shard, shard_range
from t2t_lite.errors import DataError, UsageError


@pytest.mark.parametrize("number", [0, 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_blocks_hold_every_line_once(number: int) -> None:
    lines = [str(i) for i in range(number)]
    live = LiveLines(iter(lines))
    for blocks in (list(file_blocks(lines)), list(live.blocks(patience=5))):
        assert [line for block in blocks for line in block] == lines
        assert [len(block) for block in blocks[:-1]] == [BLOCK] * (len(blocks) - 1)
        assert all(blocks)


def test_a_line_that_waits_for_its_answer_gets_a_block_of_its_own() -> None:
    answered = threading.Event()

    def conversation() -> Iterator[str]:
        for word in "abc":
            answered.clear()
            yield word
            assert answered.wait(30)

    seen = []
    for block in LiveLines(conversation()).blocks(patience=0.01):
        seen.append(block)
        answered.set()
    assert seen == [["a"], ["b"], ["c"]]


def test_the_reader_is_never_far_ahead() -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "x"

    live = LiveLines(endless())
    assert live.count_waiting(30) == 2 * BLOCK
    time.sleep(0.05)
    assert read <= 2 * BLOCK + 1
    blocks = live.blocks()
    assert len(next(blocks)) == BLOCK


def test_a_fault_shows_after_the_lines_before_it_or_at_once_if_it_is_known() -> None:
    def faulty() -> Iterator[str]:
        yield "good"
        raise DataError("line 2 is bad")

    blocks = LiveLines(faulty()).blocks(patience=5)
    assert next(blocks) == ["good"]
    with pytest.raises(DataError, match="line 2 is bad"):
        next(blocks)
    with pytest.raises(DataError, match="line 2 is bad"):
        LiveLines(faulty()).count_waiting(30)


ENDS_EARLY = """
import sys
from t2t_lite.cli.line_source import LiveLines, lines_of
live = LiveLines(lines_of(None))
print(next(live.blocks()), flush=True)
sys.exit(2)
"""


def test_a_process_may_end_while_its_standard_input_is_open() -> None:
    command = [sys.executable, "-c", ENDS_EARLY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"a\nb")
        process.stdin.flush()
        assert process.wait(60) == 2
        assert process.stdout is not None
        assert process.stdout.read() == b"['a']\n"


@pytest.mark.parametrize(("total", "number"), [(0, 3), (1, 3), (10, 3), (11, 4), (1000, 7)])
def test_shards_are_the_whole_in_order(total: int, number: int) -> None:
    ranges = [shard_range(total, (i, number)) for i in range(1, number + 1)]
    assert [i for first, end in ranges for i in range(first, end)] == list(range(total))
    sizes = [end - first for first, end in ranges]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/0", "-1/2", "1/2/3", "1.5/2"])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(UsageError, match="is not of the form I/N with I from 1 to N, such as 1/4"):
        parse_shard(text)
    assert parse_shard("2/3") == (2, 3)
