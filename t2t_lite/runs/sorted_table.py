"""Reader of LevelDB's sorted tables, the form of a checkpoint's index; takes only what a writer of them writes.

A table is blocks of (key, value), each followed by the kind of its compression and a checksum, then a block that says
where the others lie, then a footer that says where that one lies. TensorFlow compares the checksums.
"""

from __future__ import annotations

from collections.abc import Iterator

_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER, _TRAILER = 48, 5  # bytes
_PLAIN, _SNAPPY = 0, 1  # kinds of compression
_MOST_BYTES, _LONGEST_KEY = 1 << 26, 2000


def entries(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a table in their order; ValueError where it has another form."""
    if len(table) < _FOOTER or table[-8:] != _MAGIC:
        raise ValueError("its index is cut off or no table")
    place = len(table) - _FOOTER
    for _ in range(2):  # the place of the block of filters, which is not used, then that of the list of blocks
        offset, place = varint(table, place)
        size, place = varint(table, place)
    for _, handle in _of_block(_block(table, offset, size)):
        offset, after = varint(handle, 0)
        size, _ = varint(handle, after)
        yield from _of_block(_block(table, offset, size))


def varint(data: bytes, place: int) -> tuple[int, int]:
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
    content, kind = table[offset : offset + size], table[offset + size]
    if kind == _SNAPPY:
        return _unpack(content)
    if kind != _PLAIN:
        raise ValueError("its index is compressed in an unknown way")
    return content


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
        shared, place = varint(block, place)
        unshared, place = varint(block, place)
        size, place = varint(block, place)
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


def _unpack(data: bytes) -> bytes:
    """Unpacks Snappy's format: pieces that are given, and copies of what was unpacked before."""
    whole, place = varint(data, 0)
    if whole > _MOST_BYTES:
        raise ValueError("a block of its index is too large")
    found = bytearray()
    while place < len(data) and len(found) <= whole:
        tag = data[place]
        place += 1
        kind, length = tag & 3, (tag >> 2) + 1
        if kind == 0:  # given
            if length > 60:
                width = length - 60
                length = int.from_bytes(data[place : place + width], "little") + 1
                place += width
            found += data[place : place + length]
            place += length
            continue
        width = (1, 2, 4)[kind - 1]
        back = int.from_bytes(data[place : place + width], "little")
        place += width
        if kind == 1:
            length, back = (tag >> 2 & 7) + 4, back | tag >> 5 << 8
        if not 0 < back <= len(found):
            raise ValueError("a block of its index is not unpacked")
        while length > 0:  # a copy may overlap what it makes
            piece = found[-back:][:length] if back > length else found[-back:]
            found += piece[:length]
            length -= len(piece)
    if len(found) != whole or place != len(data):
        raise ValueError("a block of its index is not unpacked")
    return bytes(found)
