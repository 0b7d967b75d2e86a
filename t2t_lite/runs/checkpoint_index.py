"""A checkpoint's index, checked before TensorFlow reads it: TensorFlow ends the process on an odd one.

The index is a sorted table, as LevelDB writes it, of protocol buffers: blocks of (key, value), then a block that says
where the others lie, then a footer that says where that one lies. The key "" holds the number of data files. Each other
key is the name of a variable, with its type, its shape and where its bytes lie. TensorFlow compares the checksums of
all these, but whoever wrote the file wrote the checksums, too: a negative size or a text that is longer than memory
aborts TensorFlow.
"""

import math
import os
import stat
from collections.abc import Iterator

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto

_TEXT = 7  # TensorFlow's numbers of types: of texts, and below of those of numbers with so many bytes
_KINDS = {1: (4, 6, 10, 11, 12, 24, 25), 2: (5, 14, 15, 16, 17, 19), 4: (1, 3, 13, 22), 8: (2, 8, 9, 23), 16: (18,)}
_BYTES = {kind: size for size, kinds in _KINDS.items() for kind in kinds}
_MOST_BYTES, _MOST_FILES, _MOST_DIMENSIONS, _MOST_NUMBERS = 1 << 26, 1 << 16, 32, 1 << 48
_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER, _TRAILER, _LONGEST_KEY = 48, 5, 2000  # bytes


def check_index(path: str) -> None:
    """Raises ValueError if TensorFlow may not survive the checkpoint at `path`; OSError if it cannot be read."""
    found = _read_table(_read_regular(f"{path}.index", _MOST_BYTES))
    number = _number_of_files(*next(found, (b"no header", b"")))
    files = [f"{path}.data-{i:05d}-of-{number:05d}" for i in range(number)]
    sizes = [_size(file) for file in files]
    for key, value in found:
        name = key.decode("utf-8", "replace")
        if not name.isprintable() or "\ufffd" in name:
            raise ValueError(f"a variable has the name {key[:80]!r}")
        try:
            entry = BundleEntryProto.FromString(value)
            if not 0 <= entry.shard_id < number or entry.slices:
                raise ValueError("lies in another file, or in slices")
            _check_entry(entry, files[entry.shard_id], sizes[entry.shard_id])
        except (ValueError, DecodeError) as error:
            raise ValueError(f"{name} {error}") from None


def _number_of_files(key: bytes, value: bytes) -> int:
    try:
        header = BundleHeaderProto.FromString(value)
    except DecodeError:
        header = BundleHeaderProto()
    if key or header.endianness or not 1 <= header.num_shards <= _MOST_FILES:
        raise ValueError("its index has no header that is known")
    return int(header.num_shards)


def _check_entry(entry: BundleEntryProto, data: str, room: int) -> None:
    """Raises ValueError unless a variable has a type, a shape and a place in the file `data`, of `room` bytes."""
    if entry.dtype not in _BYTES and entry.dtype != _TEXT:
        raise ValueError(f"has the type {entry.dtype}, which no weights have")
    sizes = [dimension.size for dimension in entry.shape.dim]
    if (
        entry.shape.unknown_rank
        or len(sizes) > _MOST_DIMENSIONS
        or min(sizes, default=0) < 0
        or math.prod(max(size, 1) for size in sizes) > _MOST_NUMBERS
        or not all(dimension.name.isascii() for dimension in entry.shape.dim)
    ):
        raise ValueError("has a shape that no weights have")
    if min(entry.offset, entry.size) < 0 or entry.offset + entry.size > room:
        raise ValueError(f"lies outside of its file, {os.path.basename(data)}")
    numbers = math.prod(sizes)
    if entry.dtype != _TEXT:
        if numbers * _BYTES[entry.dtype] != entry.size:
            raise ValueError("has another number of bytes than its shape says")
    elif numbers > entry.size or (numbers and _text_bytes(data, entry.offset, entry.size, numbers) > entry.size):
        raise ValueError("holds texts that are longer than its bytes")


def _text_bytes(data: str, offset: int, size: int, number: int) -> int:
    """How many bytes texts take: their lengths, a checksum and themselves; their lengths come first."""
    with open(data, "rb") as file:
        file.seek(offset)
        read = file.read(min(size, 10 * number))
    place, whole = 0, 4
    for _ in range(number):
        length, place = _varint(read, place)
        whole += length
    return whole + place


def _read_regular(path: str, most: int) -> bytes:
    """Returns a file's content; ValueError for a pipe or a device, which may have no end, and for large ones."""
    size = _size(path)
    if size > most:
        raise ValueError(f"{os.path.basename(path)} has {size:,} bytes")
    with open(path, "rb") as file:
        return file.read(most)


def _size(path: str) -> int:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for its writer
    try:
        status = os.fstat(handle)
    finally:
        os.close(handle)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{os.path.basename(path)} is not a regular file")
    return status.st_size


def _read_table(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a table in their order; ValueError where it has another form."""
    if len(table) < _FOOTER or table[-8:] != _MAGIC:
        raise ValueError("its index is cut off or no table")
    place = len(table) - _FOOTER
    for _ in range(2):  # the place of the block of filters, which is not used, then that of the list of blocks
        offset, place = _varint(table, place)
        size, place = _varint(table, place)
    for _, handle in _of_block(_block(table, offset, size)):
        offset, after = _varint(handle, 0)
        size, _ = _varint(handle, after)
        yield from _of_block(_block(table, offset, size))


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Returns the number at `place`, of 64 bits in groups of seven, and the place after it."""
    if place < len(data) and data[place] < 0x80:  # most are small, and an index has thousands
        return data[place], place + 1
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                break
            return number, place
    raise ValueError("holds a number that is cut off")


def _block(table: bytes, offset: int, size: int) -> bytes:
    """Returns the content of a block."""
    if offset + size + _TRAILER > len(table):
        raise ValueError("a block of its index lies outside")
    if table[offset + size]:
        raise ValueError("its index is compressed, as TensorFlow writes none")
    return table[offset : offset + size]


def _of_block(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields a block's entries; each key leaves out what it shares with the one before.

    Where nothing is left out, a search may start; the end of the block lists such places. TensorFlow looks there first,
    so each must be the start of an entry, or it would find others than those that are read here.
    """
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * restarts
    if len(block) < 8 or end < 0 or not restarts:
        raise ValueError("a block of its index is cut off")
    listed = {int.from_bytes(block[i : i + 4], "little") for i in range(end, len(block) - 4, 4)}
    place, key, starts = 0, b"", {0}
    while place < end:
        start = place
        shared, place = _varint(block, place)
        unshared, place = _varint(block, place)
        size, place = _varint(block, place)
        if shared > len(key) or place + unshared + size > end or shared + unshared > _LONGEST_KEY:
            raise ValueError("an entry of its index lies outside")
        if not shared:
            starts.add(start)
        before, key = key, key[:shared] + block[place : place + unshared]
        if key <= before and start:
            raise ValueError("the names in its index are not sorted")
        place += unshared
        yield key, block[place : place + size]
        place += size
    if not listed <= starts or block[end : end + 4] != bytes(4):
        raise ValueError("a block of its index lists places that are no entries")
