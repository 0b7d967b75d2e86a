"""Encoding of pairs as arrays of ids, in one or several processes, in order and in bounded memory."""

import collections
import concurrent.futures
import dataclasses
import functools
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np

from t2t_lite.data.alignment_files import piece_links
from t2t_lite.data.vocabulary_files import Vocabularies, kind
from t2t_lite.errors import DataError
from t2t_lite.ids import EOS
from t2t_lite.problem import AlignedPair
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.unknown_pieces import UnknownPieces

Pair = tuple[str, str]

# A chunk ends at whichever comes first, so that a few very long lines do not make a very large chunk.
CHUNK_PAIRS = 2000
CHUNK_CHARS = 1_000_000
# Fewer chunks than this are encoded without starting processes, which takes longer than encoding them.
_FEW_CHUNKS = 8
_KILLED = (
    "A process that encodes text was killed, perhaps for want of memory. A script of your own must call t2t_lite.train "
    'under `if __name__ == "__main__":`, because each such process imports the script again. With num_workers=1 '
    "(--num_workers=1) no process is started."
)


@dataclasses.dataclass(frozen=True)
class Side:
    """One side of a chunk: `ids`, uint16 or uint32, each sequence with EOS at its end, and int64 `lengths`.

    Of alignments, `ids` are the links between pieces, source and target of each, one after the other. lost: how many
    pairs have no links because their pieces are of other words (alignment_files.py).
    """

    ids: np.ndarray
    lengths: np.ndarray
    unknown: UnknownPieces = dataclasses.field(default_factory=UnknownPieces)
    lost: int = 0


def encode_pairs(pairs: Iterable[Pair], vocabularies: Vocabularies, *, num_workers: int) -> Iterator[tuple[Side, ...]]:
    """Yields the encoded chunks of `pairs`, in order: source, target and, of `AlignedPair`s, their alignments.

    Args:
        vocabularies: of the source and of the target; the same object where they share one.
        num_workers: number of processes; with 1, or with few pairs, this process does everything.

    Raises:
        DataError: a process was killed.
    """
    chunks = in_chunks(pairs)
    first = list(itertools.islice(chunks, _FEW_CHUNKS))
    if num_workers <= 1 or len(first) < _FEW_CHUNKS:
        for chunk in itertools.chain(first, chunks):
            yield encode_chunk(chunk, vocabularies)
    else:
        yield from in_processes(Coder(to_files(vocabularies)), "encode", itertools.chain(first, chunks), num_workers)


def in_chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yields the pairs in lists that are encoded at once."""
    chunk: list[Pair] = []
    chars = 0
    for pair in pairs:
        chunk.append(pair)
        chars += len(pair[0]) + len(pair[1])
        if len(chunk) >= CHUNK_PAIRS or chars >= CHUNK_CHARS:
            yield chunk
            chunk, chars = [], 0
    if chunk:
        yield chunk


def encode_chunk(chunk: list[Pair], vocabularies: Vocabularies) -> tuple[Side, ...]:
    """Returns the sides of some pairs, at least one."""
    sources, targets = zip(*chunk, strict=True)
    source, target = vocabularies
    of_sources = source.encode_source([source.source_line(line) for line in sources])
    of_targets = target.encode_many([target.line(line) for line in targets])
    sides = _side(sources, of_sources, source), _side(targets, of_targets, target)
    aligned = [pair for pair in chunk if isinstance(pair, AlignedPair)]
    return (*sides, _encode_links(aligned, sides, vocabularies)) if aligned else sides


def _encode_links(pairs: list[AlignedPair], sides: tuple[Side, Side], vocabularies: Vocabularies) -> Side:
    pieces = [
        [vocabulary.display_pieces(ids) for ids in np.split(side.ids, np.cumsum(side.lengths)[:-1])]
        for side, vocabulary in zip(sides, vocabularies, strict=True)
    ]
    found = [piece_links(*row) for row in zip(pairs, *pieces, strict=True)]
    lost = sum(links is None and bool(pair.links) for pair, links in zip(pairs, found, strict=True))
    ends = [[(len(source) - 1, len(target) - 1)] for source, target in zip(*pieces, strict=True)]
    rows = [links or end for links, end in zip(found, ends, strict=True)]
    lengths = np.array([2 * len(links) for links in rows], np.int64)
    return Side(np.array([place for links in rows for link in links for place in link], np.uint32), lengths, lost=lost)


def _side(lines: tuple[str, ...], sequences: list[list[int]], vocabulary: AnyVocabulary) -> Side:
    for sequence in sequences:
        sequence.append(EOS)
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    dtype = np.uint16 if vocabulary.size <= 1 << 16 else np.uint32  # less to send to another process
    unknown = UnknownPieces()
    unknown.add(vocabulary, lines, sequences)
    return Side(np.fromiter(itertools.chain.from_iterable(sequences), dtype, int(lengths.sum())), lengths, unknown)


VocabularyFiles = tuple[tuple[str, bytes], ...]  # suffix and data; one where the two sides share a vocabulary


def to_files(vocabularies: Vocabularies) -> VocabularyFiles:
    """Returns what `from_files` makes the vocabularies from in another process."""
    shared = vocabularies[0] is vocabularies[1]
    return tuple((vocabulary.suffix, vocabulary.data) for vocabulary in vocabularies[: 1 if shared else 2])


def from_files(files: VocabularyFiles) -> Vocabularies:
    """Returns the vocabularies of `to_files`."""
    loaded = [kind(suffix)(data) for suffix, data in files]
    return loaded[0], loaded[-1]


@dataclasses.dataclass(frozen=True)
class Coder:
    """Encodes chunks, in whatever process."""

    files: VocabularyFiles

    @functools.cached_property
    def _vocabularies(self) -> Vocabularies:
        return from_files(self.files)

    def encode(self, chunk: list[Pair]) -> tuple[Side, ...]:
        return encode_chunk(chunk, self._vocabularies)


def in_processes(worker: Any, method: str, tasks: Iterable[Any], num_workers: int) -> Iterator[Any]:
    """Yields what a method of `worker` returns for each task, in order; processes do the tasks, of which few wait.

    Each process has a copy of `worker`, which is made once.

    Raises:
        DataError: a process was killed; or what the method raises.
    """
    pool = concurrent.futures.ProcessPoolExecutor(
        num_workers,
        # A fork of a process in which TensorFlow runs threads may hang.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(worker,),
    )
    pending: collections.deque[concurrent.futures.Future[Any]] = collections.deque()
    try:
        for task in tasks:
            pending.append(pool.submit(_work, method, task))
            # Taking results in turn keeps the order; a short queue keeps the memory bounded.
            if len(pending) > 2 * num_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise DataError(_KILLED) from error
    finally:
        pool.shutdown(cancel_futures=True)


_worker: Any  # set in worker processes only


def _start_worker(worker: Any) -> None:
    global _worker
    _worker = worker
    follow_parent()


def _work(method: str, task: Any) -> Any:
    return getattr(_worker, method)(task)


def follow_parent() -> None:
    """Ignores Ctrl-C, which the parent process handles, and ends the process when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A killed parent sends no message: its children would wait for work for ever.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
