"""benchmarks/gpu/kernels.py counts what a program of XLA does on a GPU, by hand-counted text."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parent.parent / "benchmarks" / "gpu" / "kernels.py"
MODULE = """\
HloModule step, is_scheduled=true

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

%fused_product (p0: bf16[64,32], p1: bf16[32,500]) -> bf16[64,500] {
  %p0 = bf16[64,32]{1,0} parameter(0)
  %p1 = bf16[32,500]{1,0} parameter(1)
  ROOT %dot = bf16[64,500]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%fused_slice (p0.1: f32[8,64], p1.1: s32[]) -> bf16[64] {
  %p0.1 = f32[8,64]{1,0} parameter(0)
  %p1.1 = s32[] parameter(1)
  %zero = s32[] constant(0)
  %slice = f32[1,64]{1,0} dynamic-slice(%p0.1, %p1.1, %zero), dynamic_slice_sizes={1,64}
  ROOT %convert = bf16[64]{0} convert(%slice)
}

%body (arg: (s32[], f32[8,64])) -> (s32[], f32[8,64]) {
  %arg = (s32[], /*index=1*/f32[8,64]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%arg), index=0
  %rows = f32[8,64]{1,0} get-tuple-element(%arg), index=1
  %one_row = bf16[64]{0} fusion(%rows, %i), kind=kLoop, calls=%fused_slice
  ROOT %out = (s32[], f32[8,64]{1,0}) tuple(%i, %rows)
}

ENTRY %main (x: bf16[64,32], w: bf16[32,500], v: bf16[500,16], rows: f32[8,64]) -> bf16[64,16] {
  %x = bf16[64,32]{1,0} parameter(0)
  %w = bf16[32,500]{1,0} parameter(1)
  %v = bf16[500,16]{1,0} parameter(2)
  %rows.1 = f32[8,64]{1,0} parameter(3)
  %h = bf16[64,500]{1,0} fusion(%x, %w), kind=kCustom, calls=%fused_product
  %y = (bf16[64,16]{1,0}, s8[4194304]{0}) custom-call(%h, %v), custom_call_target="__cublas$gemm", \
backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}
  %start = (s32[], f32[8,64]{1,0}) tuple(%x, %rows.1)
  %loop = (s32[], f32[8,64]{1,0}) while(%start), condition=%sum, body=%body, \
backend_config={"known_trip_count":{"n":"6"}}
  ROOT %result = bf16[64,16]{1,0} get-tuple-element(%y), index=0
}
"""


@pytest.fixture(scope="module")
def kernels() -> Any:
    spec = importlib.util.spec_from_file_location("gpu_kernels", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_kernels_bytes_and_flops_are_those_counted_by_hand(kernels: Any) -> None:
    fused, library, cut = kernels.read_kernels(MODULE, 500)
    assert (fused.kind, fused.times) == ("products: logits", 1)
    assert (fused.read, fused.written) == (2 * (64 * 32 + 32 * 500), 2 * 64 * 500)
    assert fused.flops == 2 * 64 * 32 * 500
    assert library.flops == 2 * 64 * 500 * 16
    assert library.written == 2 * 64 * 16  # without cuBLAS' work space
    # In the loop: one row of eight is read, and the index.
    assert (cut.kind, cut.times, cut.read, cut.written) == ("casts, copies, transposes", 6, 4 * 64 + 4, 2 * 64)


def test_small_kernels_take_their_start_and_large_ones_what_limits_them(kernels: Any) -> None:
    machine = kernels.Machine(bandwidth=2e12, rate={"bf16": 800e12, "f32": 400e12})
    kernel = kernels.read_kernels(MODULE, 500)[0]
    assert kernel.seconds(machine) == 4.5e-6
    copy = kernels.Kernel("copy", "", 1, 10**9, 10**9, 0, "f32[250000000]")
    assert copy.seconds(machine) == pytest.approx(1e-3 + 1e-6)
    side = 128 * 11 * 12  # tiles of 128 x 256 fill all 132 processors
    flops = 2 * side**3
    product = kernels.Kernel("dot", "", 1, 0, 0, flops, f"bf16[{side},{side}]")
    assert product.seconds(machine) == pytest.approx(flops / 800e12, rel=1e-3)
