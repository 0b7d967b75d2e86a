"""Encoding in processes: bounded memory, bounded chunks, no TensorFlow."""

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from t2t_lite.data import encode
from t2t_lite.errors import DataError
from t2t_lite.ids import EOS
from t2t_lite.importers.vocabularies import SubwordVocabulary, TokenVocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests.subword_files import PIECES, file_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_corpus() -> None:
    vocabulary = train_vocabulary(["ein zwei drei vier"], size=40)
    line = "ein zwei drei vier " * 10

    def peak(pairs: int) -> int:
        tracemalloc.start()
        for _ in encode.encode_pairs(((f"{line}{i}", line) for i in range(pairs)), (vocabulary,) * 2, num_workers=1):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert peak(48_000) < 1.2 * peak(24_000)


def test_text_is_read_only_a_little_ahead_of_the_processes() -> None:
    vocabulary = train_vocabulary(["ein zwei"], size=20)
    read = itertools.count()
    pairs = (("ein", "zwei") for _ in zip(read, range(200_000), strict=False))
    chunks = encode.encode_pairs(pairs, (vocabulary, vocabulary), num_workers=2)
    next(chunks)
    assert next(read) <= 9 * encode.CHUNK_PAIRS  # eight chunks are read before the processes start
    for _ in range(10):
        next(chunks)
    assert next(read) <= 17 * encode.CHUNK_PAIRS
    chunks.close()


@pytest.mark.commit
def test_processes_encode_as_this_one_does_with_vocabularies_of_two_kinds() -> None:
    """Worker processes give the same ids as this process.

    tensor2tensor's vocabularies strip a line; SentencePiece's takes it as it is.
    """
    vocabularies = SubwordVocabulary(file_of(PIECES)), TokenVocabulary(b"<pad>\n<EOS>\nUNK\ncat\n")
    pairs = [(f" the cats {i} ", f"\tcat {i} cat") for i in range(9 * encode.CHUNK_PAIRS)]
    one, two = (list(encode.encode_pairs(pairs, vocabularies, num_workers=number)) for number in (1, 2))
    for mine, theirs in zip(one, two, strict=True):
        for side, other in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(side.ids, other.ids)
            np.testing.assert_array_equal(side.lengths, other.lengths)
    source, target = one[0]
    assert source.ids[: source.lengths[0]].tolist() == [*vocabularies[0].encode("the cats 0"), EOS]
    assert target.ids[:4].tolist() == [3, 2, 3, EOS]


class _Killed:
    """A worker whose process is killed at the third task."""

    def work(self, task: int) -> int:
        if task == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return task


@pytest.mark.commit
def test_a_killed_process_is_an_error_and_ends_the_others() -> None:
    with pytest.raises(DataError, match=r"A process .* was killed, perhaps for want of memory"):
        list(encode.in_processes(_Killed(), "work", range(100), 2))
    assert multiprocessing.active_children() == []


def test_chunks_are_bounded_in_characters() -> None:
    chunks = list(encode.in_chunks(("x" * 300_000, "y" * 300_000) for _ in range(5)))
    assert [len(chunk) for chunk in chunks] == [2, 2, 1]


@pytest.mark.commit
def test_a_script_that_its_own_processes_import_again_gets_advice(tmp_path: Path) -> None:
    script = (
        "from t2t_lite.data import encode\n"
        "from t2t_lite.text.vocabulary_training import train_vocabulary\n"
        "vocabulary = train_vocabulary(['ein zwei'], size=20)\n"
        "pairs = [('ein', 'zwei')] * (9 * encode.CHUNK_PAIRS)\n"
        "{}list(encode.encode_pairs(pairs, (vocabulary, vocabulary), num_workers=2))\n"
    )
    path = tmp_path / "script.py"
    for guard, message in (("", "call t2t_lite.train under `if __name__"), ("if __name__ == '__main__': ", "")):
        path.write_text(script.format(guard))
        done = subprocess.run([sys.executable, path], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == (not message), done.stderr
        assert message in done.stderr
