"""Indexes of checkpoints as a stranger may write them: every checksum is right, and what they say is not.

As a module it reads such checkpoints as the commands do, in a process of its own, which must live to its end:
python -m tests.faults.hostile_index --cases=500 --seed=1
"""

import argparse
import random
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.faults.mutation import mutated

_MAGIC = 0xDB4775248B80FB57
NUMBERS = struct.pack("<6f", *range(6))  # the data of the variable "weights"


def crc32c(data: bytes) -> int:
    """The checksum that TensorFlow writes: CRC-32C, turned and shifted."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _entry_of_table(number: int) -> int:
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    return number


_TABLE = [_entry_of_table(number) for number in range(256)]


def varint(number: int) -> bytes:
    """A number in groups of seven bits; a negative one as 64 bits."""
    number %= 1 << 64
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protocol buffer: a number or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def shape(*sizes: int) -> bytes:
    return b"".join(field(2, field(1, size)) for size in sizes)


def entry(kind: int, sizes: bytes, offset: int, size: int, file: int = 0, data: bytes = b"") -> bytes:
    """A variable's entry."""
    checksum = varint(6 << 3 | 5) + struct.pack("<I", crc32c(data))
    return field(1, kind) + field(2, sizes) + field(3, file) + field(4, offset) + field(5, size) + checksum


def block(entries: Sequence[tuple[bytes, bytes]], restarts: Sequence[int] = (0,)) -> bytes:
    rows = b"".join(b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in entries)
    return rows + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def table(content: bytes, kind: int = 0) -> bytes:
    """A table with one block of entries; kind: that of its compression."""
    found, handles = b"", []
    for part, how in ((content, kind), (block([]), 0)):
        handles.append(varint(len(found)) + varint(len(part)))
        found += part + bytes([how]) + struct.pack("<I", crc32c(part + bytes([how])))
    index = block([(b"\xff", handles[0])])
    handle = varint(len(found)) + varint(len(index))
    found += index + b"\0" + struct.pack("<I", crc32c(index + b"\0"))
    return found + (handles[1] + handle).ljust(40, b"\0") + struct.pack("<Q", _MAGIC)


def texts(*lengths: int, data: bytes = b"abcde", written: bytes = b"") -> tuple[bytes, bytes]:
    """Data of texts, and what their checksum is of; written: the lengths in the file, if they are others."""
    words = b"".join(struct.pack("<I" if length >> 32 == 0 else "<Q", length) for length in lengths)
    checksum = struct.pack("<I", crc32c(words))
    return (written or b"".join(map(varint, lengths))) + checksum + data, words + checksum + data


TEXT, _SUMMED = texts(2, 3)
HEADER = field(1, 1) + field(3, field(1, 1))
GOOD = {
    b"": HEADER,
    b"step": entry(9, b"", 0, 8, data=bytes(8)),
    b"texts": entry(7, shape(2), 32, len(TEXT), data=_SUMMED),
    b"weights": entry(1, shape(2, 3), 8, 24, data=NUMBERS),
}
DATA = bytes(8) + NUMBERS + TEXT


def _with(**changes: bytes) -> bytes:
    return table(block(sorted((GOOD | {name.encode(): value for name, value in changes.items()}).items())))


def cases() -> dict[str, tuple[bytes, bytes]]:
    """Indexes, and the data that they are of, by what is wrong with them."""
    found = {}
    for lengths in ((1 << 60, 1), (1 << 31, 1), (2, 4), (0xFFFFFFFF, 0xFFFFFFFF), ((1 << 64) - 1, 6)):
        data, summed = texts(*lengths)
        index = _with(texts=entry(7, shape(2), 32, len(data), data=summed))
        found[f"texts of {lengths} bytes"] = index, bytes(8) + NUMBERS + data
    data, summed = texts(2, 3, written=b"\xff" * 20)
    found["lengths of texts without end"] = (
        _with(texts=entry(7, shape(2), 32, len(data), data=summed)),
        DATA[:32] + data,
    )
    return found | {name: (index, DATA) for name, index in _indexes().items()}


def _indexes() -> Mapping[str, bytes]:
    """Indexes of the same data, by what is wrong with them."""
    sizes = {
        "negative": shape(-1),
        "most negative": shape(-(1 << 63)),
        "overflowing": shape(1 << 62, 1 << 62),
        "huge": shape(1 << 40),
        "huge, and empty": shape(1 << 62, 1 << 62, 0),
        "300 dimensions": shape(*[1] * 300),
        "of an unknown rank": varint(3 << 3) + b"\1",
        "with a name of other bytes": field(2, field(1, 6) + field(2, b"\xff")),
        "cut off": shape(2, 3)[:-1],
    }
    found = {f"a shape that is {name}": _with(weights=entry(1, size, 8, 24)) for name, size in sizes.items()}
    found |= {
        f"type {kind}": _with(weights=entry(kind, shape(2, 3), 8, 24)) for kind in (0, -1, 20, 21, 99, 101, 1 << 32)
    }
    places = [(-8, 24), (8, -24), (1 << 62, 24), (8, 1 << 62), (40, 24), (8, 23)]
    found |= {f"place {place}": _with(weights=entry(1, shape(2, 3), *place)) for place in places}
    found |= {f"data file {file}": _with(weights=entry(1, shape(2, 3), 8, 24, file)) for file in (-1, 1)}
    found |= {
        "many texts": _with(texts=entry(7, shape(1 << 36), 32, len(TEXT))),
        "slices": _with(weights=entry(1, shape(2, 3), 8, 24) + field(7, field(1, field(1, -1)))),
        "an entry of garbage": _with(weights=b"\xff\x00garbage"),
        "an entry of nothing": _with(weights=b""),
        "a header of garbage": table(block([(b"", b"\xff" * 9)])),
        "a negative number of files": table(block([(b"", field(1, -1)), *sorted(GOOD.items())[1:]])),
        "no header": table(block(sorted(GOOD.items())[1:])),
        "no entries": table(block([])),
        "names that are not UTF-8": table(block([*sorted(GOOD.items()), (b"\xff\xfe", GOOD[b"weights"])])),
        "names with an escape": table(block([*sorted(GOOD.items()), (b"x\x1b[2J", GOOD[b"weights"])])),
        "a name of a megabyte": table(block([*sorted(GOOD.items()), (b"x" * 2**20, GOOD[b"weights"])])),
        "names that are not sorted": table(block(sorted(GOOD.items(), reverse=True))),
        "hidden entries": table(_hidden()),
        "no restarts": table(block(sorted(GOOD.items()), [])),
        "restarts outside": table(block(sorted(GOOD.items()), [0, 1 << 31])),
        "more restarts than bytes": table(b"\0" * 8 + struct.pack("<I", 1 << 30)),
        "compression": table(block(sorted(GOOD.items())), 1),
        "no bytes": b"",
        "a footer alone": table(block([]))[-48:],
        "a footer of garbage": b"\xff" * 40 + struct.pack("<Q", _MAGIC),
    }
    return found


def _hidden() -> bytes:
    """A block whose second place to start from lies inside of a value, where another entry waits."""
    inner = b"\0" + varint(7) + varint(40) + b"weights" + entry(1, shape(-1), 8, 24).ljust(40, b"\0")
    rows = [(b"", HEADER), (b"a", inner), *sorted(GOOD.items())[1:]]
    start = len(block(rows[:1])) - 8 + 3 + 1
    return block(rows, [0, start])


def _mutations(number: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Indexes whose entries are damaged and whose checksums are then made right."""
    seeds = [block(sorted(GOOD.items()))]
    for i in range(number):
        draw = random.Random(f"{seed} {i}")
        if draw.random() < 0.5:  # an entry alone, in a table that is whole
            name = draw.choice([b"step", b"texts", b"weights"])
            changed = {**GOOD, name: mutated(draw, [GOOD[name]])}
            yield f"mutation {i}", table(block(sorted(changed.items())))
        else:
            yield f"mutation {i}", table(mutated(draw, seeds))


def write(path: Path, index: bytes, data: bytes = DATA) -> str:
    """Writes a checkpoint; returns its path without the files' endings."""
    path.with_name(f"{path.name}.index").write_bytes(index)
    path.with_name(f"{path.name}.data-00000-of-00001").write_bytes(data)
    return str(path)


def read(path: str) -> str:
    """Reads all of a checkpoint; returns "read" or why it was not."""
    from t2t_lite.errors import DataError
    from t2t_lite.runs.checkpoint_reader import explain_unreadable, open_checkpoint

    try:
        with explain_unreadable(path):
            reader = open_checkpoint(path)
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
    except DataError as error:
        return str(error)
    return "read"


def main() -> None:
    """The command; see the module. It prints each case before it is read, so that the last one is the fatal one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        damaged = ((name, (index, DATA)) for name, index in _mutations(args.cases, args.seed))
        for i, (name, files) in enumerate([("nothing", (_with(), DATA)), *cases().items(), *damaged]):
            print(f"{name}: ", end="", flush=True)
            print(read(write(Path(folder, str(i)), *files)).replace(folder, ""), flush=True)


if __name__ == "__main__":
    sys.exit(main())
