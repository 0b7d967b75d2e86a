"""Overwrites with zeros what a library holds for other GPUs than one kind; it then compresses to less.

    python benchmarks/gpu/fatbins.py libtensorflow_cc.so.2 --keep=90

A library built by nvcc has fat binaries. Each holds machine code for several kinds of GPU, and PTX, which the driver
compiles where no machine code fits. What the driver takes on a GPU of compute capability 9.0 is kept: machine code for
9.0 if there is any, else the PTX. (TensorFlow 2.21's own kernels have it; those that MLIR generates are PTX alone.)
"""

from __future__ import annotations

import argparse
import collections
import struct
from pathlib import Path

MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)  # then the size of all parts, 8 bytes
PTX, CODE = 1, 2  # kinds of parts


def main() -> None:
    """Runs the script."""
    parser = argparse.ArgumentParser(description="Overwrites a library's code for other GPUs.")
    parser.add_argument("library", type=Path)
    parser.add_argument("--keep", type=int, default=90, help="compute capability, times 10")
    args = parser.parse_args()
    data = bytearray(args.library.read_bytes())
    sizes: collections.Counter[str] = collections.Counter()
    start = data.find(MAGIC)
    while start >= 0:
        parts, end = parts_of(data, start)
        fitting = [part for part in parts if part[:2] == (CODE, args.keep)] or [p for p in parts if p[0] == PTX]
        for part in parts:
            _, _, first, size = part
            sizes["kept" if part in fitting else "overwritten"] += size
            if part not in fitting:
                data[first : first + size] = bytes(size)
        start = data.find(MAGIC, end)
    args.library.write_bytes(data)
    print(f"{args.library.name}: " + ", ".join(f"{size / 1e6:.1f} MB {what}" for what, size in sizes.items()))


def parts_of(data: bytearray, start: int) -> tuple[list[tuple[int, int, int, int]], int]:
    """Returns ([(kind, compute capability, first byte, size)], the byte after the last) of the one at `start`."""
    parts = []
    place, end = start + 16, start + 16 + struct.unpack_from("<Q", data, start + 8)[0]
    while place < end:
        kind, header, size, arch = struct.unpack_from("<H2xIQ12xI", data, place)
        if kind not in (PTX, CODE):
            raise SystemExit(f"An unknown kind of part, {kind}, at byte {place}.")
        parts.append((kind, arch, place + header, size))
        place += header + size
    return parts, end


if __name__ == "__main__":
    main()
