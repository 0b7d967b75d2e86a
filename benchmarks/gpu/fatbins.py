"""Overwrites with zeros what a library holds for other GPUs than one kind; it then compresses to less.

    python benchmarks/gpu/fatbins.py libtensorflow_cc.so.2 --keep=90

A library built by nvcc has fat binaries: for each source file machine code for several kinds of GPU, and PTX. The driver
takes the part that fits, so on a GPU of compute capability 9.0 nothing else is read.
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
        part, end = start + 16, start + 16 + struct.unpack_from("<Q", data, start + 8)[0]
        while part < end:
            kind, header, size, arch = struct.unpack_from("<H2xIQ12xI", data, part)
            if kind not in (PTX, CODE):
                raise SystemExit(f"An unknown kind of part, {kind}, at byte {part}.")
            kept = kind == CODE and arch == args.keep
            sizes["kept" if kept else "overwritten"] += size
            if not kept:
                data[part + header : part + header + size] = bytes(size)
            part += header + size
        start = data.find(MAGIC, end)
    args.library.write_bytes(data)
    print(f"{args.library.name}: " + ", ".join(f"{size / 1e6:.1f} MB {what}" for what, size in sizes.items()))


if __name__ == "__main__":
    main()
