"""Reads the kernels of a program that XLA optimised for a GPU, and estimates how long each would take.

The model: a kernel takes the longest of 4.5 us (its start), its bytes / bandwidth + 1 us, and its products' FLOPs at
the machine's rate, with the share of the processors that its tiles fill. The 4.5 us were fitted to one measurement: an
update of `base` in 8 micro-batches on an H200, 64 ms, for which the model gives 65.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Iterator

START = 4.5e-6  # seconds
CACHED, CACHED_FASTER = 40e6, 1.6  # bytes that the second-level cache holds, and how much faster it is
TENSOR_CORES = 132
# Sides of a product's tiles, with the share of the full rate that they reach.
TILES = ((128, 256, 1.0), (128, 128, 0.85), (64, 128, 0.7), (64, 64, 0.5))
BATCHED = 0.35  # share of the rate in products of small matrices, such as attention's
BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}
NO_KERNELS = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "after-all", "opt-barrier"}
VIEWS = {
    "parameter",
    "constant",
    "broadcast",
    "bitcast",
    "copy",
    "transpose",
    "reshape",
    "convert",
    "slice",
    "dynamic-slice",
}

_OF_A_PART = ("slice", "dynamic-slice", "gather", "dynamic-update-slice")  # touch only a part of their first operand


@dataclasses.dataclass(frozen=True)
class Machine:
    """bandwidth: bytes/s; rate: FLOP/s of large products by type."""

    bandwidth: float
    rate: dict[str, float]


_RATE = {"bf16": 766e12, "f32": 383e12}  # of bfloat16 measured, of TF32 half of it
MACHINES = {"H200": Machine(4.0e12, _RATE), "H100": Machine(2.9e12, _RATE)}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One kernel of a program.

    kind: what it is for. times: how often it runs. read, written: bytes. flops: of its products. shape: of its result.
    """

    name: str
    kind: str
    times: int
    read: int
    written: int
    flops: int
    shape: str

    def seconds(self, machine: Machine) -> float:
        """The model's time of one run on `machine`."""
        moved = self.read + self.written
        bandwidth = machine.bandwidth * (1 if moved > CACHED else CACHED_FASTER)
        seconds = max(START, moved / bandwidth + 1e-6)
        if self.flops:
            rate = machine.rate["bf16" if "bf16" in self.shape else "f32"]
            seconds = max(seconds, _product_seconds(self.shape, self.flops, rate, machine.bandwidth) + 1e-6)
        return seconds


@dataclasses.dataclass(frozen=True)
class _Instruction:
    name: str
    shape: str
    opcode: str
    operands: list[str]
    line: str

    def attribute(self, name: str) -> str:
        found = re.search(rf"\b{name}=%?([\w.\-]+)", self.line)
        return found[1] if found else ""

    def dims(self, name: str) -> list[int]:
        """A list of axes, as HLO's text or a custom call's JSON gives it."""
        found = re.search(rf'{name}s?"?[=:][{{\[]([\d,"]*)[}}\]]', self.line)
        return [int(d) for d in re.findall(r"\d+", found[1])] if found else []


class _Computations:
    """The computations of a module: instructions by name of the computation."""

    def __init__(self, text: str) -> None:
        self.entry, self._instructions = "", dict[str, list[_Instruction]]()
        name = ""
        for line in text.split("\n"):
            if head := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{$", line):
                name = head[2]
                self._instructions[name] = []
                self.entry = name if head[1] else self.entry
            elif found := re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ([a-z][a-z\d\-]*)\((.*?)\)", line):
                operands = re.findall(r"%([\w.\-]+)", found[4])
                self._instructions[name].append(_Instruction(found[1], found[2], found[3], operands, line))

    def __getitem__(self, name: str) -> list[_Instruction]:
        return self._instructions[name]

    @functools.cache  # noqa: B019 (lives as long as a report)
    def inside(self, name: str) -> tuple[int, dict[int, int], collections.Counter[str]]:
        """(FLOPs of products, bytes read of parameters that are only cut, operations) of a fused computation."""
        instructions, flops, opcodes = self[name], 0, collections.Counter[str]()
        shapes = {i.name: i.shape for i in instructions}
        readers: dict[str, list[_Instruction]] = collections.defaultdict(list)
        for each in instructions:
            opcodes[each.opcode] += 1
            opcodes["wide multiply"] += each.opcode == "multiply" and each.shape.startswith("u64")
            for operand in each.operands:
                readers[operand].append(each)
            if each.opcode == "dot":
                contracted = [_sizes(shapes[each.operands[0]])[d] for d in each.dims("lhs_contracting_dim")]
                flops += 2 * math.prod(_sizes(each.shape)) * math.prod(contracted)
            if called := each.attribute("calls"):
                more, _, others = self.inside(called)
                flops, opcodes = flops + more, opcodes + others
        parts = {}
        for each in instructions:
            users = readers[each.name]
            cut = all(u.opcode in _OF_A_PART and u.operands[0] == each.name for u in users)
            if each.opcode == "parameter" and users and cut:
                number = int(re.search(r"parameter\((\d+)", each.line)[1])  # type: ignore[index]
                parts[number] = sum(_size(u.shape) for u in users if u.opcode != "dynamic-update-slice")
        return flops, parts, opcodes

    def written(self, kernel: _Instruction) -> int:
        """The bytes that a kernel writes: of an array that it updates in place, only the part."""
        root = self[called][-1] if (called := kernel.attribute("calls")) else kernel
        if called and root.opcode == "dynamic-update-slice":
            return _size(next(each.shape for each in self[called] if each.name == root.operands[1]))
        return _size(kernel.shape)


def read_kernels(text: str, vocab_size: int, steps: int = 1) -> list[Kernel]:
    """The kernels of an optimised module's text.

    Args:
        vocab_size: by which the softmax layer's arrays are known.
        steps: how often a loop runs that ends by what it computes, such as a search's.
    """
    computations = _Computations(text)
    return list(_kernels(computations, computations.entry, 1, vocab_size, steps))


def _kernels(computations: _Computations, name: str, times: int, vocab_size: int, steps: int) -> Iterator[Kernel]:
    shapes: dict[str, str] = {}
    for each in computations[name]:
        shapes[each.name] = each.shape
        if each.opcode == "while":
            trips = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', each.line)
            turns = times * (int(trips[1]) if trips else steps)
            yield from _kernels(computations, each.attribute("body"), turns, vocab_size, steps)
        elif each.opcode == "call":
            yield from _kernels(computations, each.attribute("to_apply"), times, vocab_size, steps)
        elif each.opcode not in NO_KERNELS:
            given = [shapes.get(operand, "") for operand in each.operands]
            called = each.attribute("calls") if each.opcode == "fusion" else ""
            flops, parts, opcodes = (
                computations.inside(called) if called else (0, {}, collections.Counter([each.opcode]))
            )
            shape = each.shape
            if "__cublas" in each.line:
                shape = re.sub(r", s8\[\d+\].*", "", shape)  # without its work space
                contracted = [_sizes(given[0])[d] for d in each.dims("lhs_contracting_dimension")]
                flops = 2 * math.prod(_sizes(shape)) * math.prod(contracted)
            read = sum(min(_size(of), parts.get(number, 1 << 62)) for number, of in enumerate(given))
            label = re.search(r'op_name="([^"]*)"', each.line)
            kind = _kind(label[1] if label else "", opcodes, flops, shape, given, vocab_size)
            written = _size(shape) if "__cublas" in each.line else computations.written(each)
            yield Kernel(each.name, kind, times, read, written, flops, shape)


def _kind(
    label: str, opcodes: collections.Counter[str], flops: int, shape: str, given: list[str], vocab_size: int
) -> str:
    """What a kernel is for, told by its operations, its shapes and the name of the layer."""
    logits = any(vocab_size in _sizes(of) and math.prod(_sizes(of)) > 2048 * vocab_size for of in (shape, *given))
    work = set(opcodes) - VIEWS - {"fusion", "wide multiply"}
    if flops:
        of_output = any(vocab_size in _sizes(of) for of in (shape, *given))
        attention = len(_sizes(shape)) > 2
        return "products: logits" if of_output else "products: attention" if attention else "products: other layers"
    if opcodes["wide multiply"] or (not _sizes(shape) and "xor" in opcodes):
        return "random numbers"
    rules = (
        ("loss: passes over logits", logits),
        ("embedding", opcodes["scatter"] or opcodes["gather"]),
        ("dropout", "ropout" in label or opcodes["shift-right-logical"]),
        ("attention: softmax", "attention" in label and ("oftmax" in label or opcodes["exponential"])),
        ("casts, copies, transposes", not work),
        ("layer norm", opcodes["rsqrt"] or "layer_norm" in label),
        ("reductions", opcodes["reduce"]),
    )
    return next((kind for kind, found in rules if found), "other passes")


def summarise(kernels: Iterable[Kernel]) -> dict[str, dict[str, float]]:
    """Kernels, GB, TFLOP, and milliseconds on each machine, by kind and in all, the slowest kind first."""
    sums: dict[str, dict[str, float]] = collections.defaultdict(lambda: collections.defaultdict(float))
    for kernel in kernels:
        for kind in (kernel.kind, "in all"):
            sums[kind]["kernels"] += kernel.times
            sums[kind]["gb"] += kernel.times * (kernel.read + kernel.written) / 1e9
            sums[kind]["tflop"] += kernel.times * kernel.flops / 1e12
            for name, machine in MACHINES.items():
                sums[kind][f"ms_{name}"] += 1000 * kernel.times * kernel.seconds(machine)
    order = sorted(sums, key=lambda kind: (kind == "in all", -sums[kind]["ms_H200"]))
    return {kind: dict(sums[kind]) for kind in order}


def _product_seconds(shape: str, flops: int, rate: float, bandwidth: float) -> float:
    sizes = _sizes(shape)
    if len(sizes) != 2:
        return flops / (BATCHED * rate)
    inner, best = flops / 2 / math.prod(sizes), math.inf
    for rows, columns, share in TILES:
        tiles = math.ceil(sizes[0] / rows) * math.ceil(sizes[1] / columns)
        for cut in (1, 2, 4, 8, 16):  # parts of the inner axis, whose results must be added up
            if cut == 1 or inner / cut >= 256:
                waves = math.ceil(tiles * cut / TENSOR_CORES)
                seconds = waves * 2 * rows * columns * inner / cut / (share * rate / TENSOR_CORES)
                best = min(best, seconds + (2 * _size(shape) / bandwidth if cut > 1 else 0))
    return best


def _sizes(shape: str) -> list[int]:
    """The sizes of an array's axes, of a tuple's first array."""
    found = re.search(r"\[([\d,]*)\]", shape)
    return [int(size) for size in found[1].split(",") if size] if found else []


def _size(shape: str) -> int:
    """Bytes of an array, or of a tuple's arrays."""
    return sum(
        BYTES.get(kind, 0) * math.prod(int(size) for size in sizes.split(",") if size)
        for kind, sizes in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", shape)
    )
