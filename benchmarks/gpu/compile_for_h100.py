"""Compiles a program of XLA for an H100, on a machine without one: the second half of deviceless.py.

    python compile_for_h100.py PROGRAM.pb FOLDER [XLA FLAG ...]

PROGRAM.pb is an HLO module, serialised, before optimisation. FOLDER gets XLA's dumps. The last line of the output is
JSON: seconds of processor time, and the bytes of temporary memory.

It runs in an environment of its own, because TensorFlow's XLA cannot compile without the GPU:

    pip install jaxlib==0.9.0 jax-cuda12-pjrt==0.9.0 nvidia-cuda-nvcc-cu12
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from pathlib import Path

# What a driver says of an "NVIDIA H100 80GB HBM3".
TARGET = """
gpu_device_info {
  cuda_compute_capability { major: 9 }
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  memory_bandwidth: 3352320000000
  device_memory_size: 84929347584
  l2_cache_size: 52428800
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
}
platform_name: "CUDA"
device_description_str: "NVIDIA H100 80GB HBM3"
dnn_version_info { major: 9 minor: 7 }
runtime_version { major: 12 minor: 9 }
"""


def main() -> None:
    """Compiles one program."""
    program, folder, *flags = sys.argv[1:]
    import nvidia.cuda_nvcc

    nvcc = nvidia.cuda_nvcc.__path__[0]
    os.environ["PATH"] = f"{nvcc}/bin{os.pathsep}{os.environ['PATH']}"  # ptxas
    os.environ["XLA_FLAGS"] = " ".join(
        [f"--xla_gpu_cuda_data_dir={nvcc}", f"--xla_dump_to={folder}", "--xla_dump_hlo_as_text", *flags]
    )
    import jax_plugins
    import numpy as np
    from jaxlib import _jax, xla_client
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import mhlo, stablehlo

    library = Path(jax_plugins.__path__[0]) / "xla_cuda12" / "xla_cuda_plugin.so"  # whose Python would import jax
    plugin = xla_client.load_pjrt_plugin_dynamically("cuda", str(library))
    xla_client.initialize_pjrt_plugin("cuda")
    topology = xla_client.make_c_api_device_topology(plugin, "", target_config=TARGET, topology="1x1x1")
    device, *_ = topology._make_compile_only_devices()
    text = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(Path(program).read_bytes()))
    text = text.decode() if isinstance(text, bytes) else text
    # StableHLO has no copy; a conversion to the same type is one.
    text = re.sub(r"mhlo\.copy (%\w+) : ", r"stablehlo.convert \1 : ", text)
    options = xla_client.CompileOptions()
    options.executable_build_options.device_assignment = xla_client.DeviceAssignment.create(np.array([[0]]))
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    with ir.Context() as context:
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        stablehlo.register_dialect(context)
        mhlo.register_mhlo_dialect(context)
        module = ir.Module.parse(text)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        executable = device.client.compile(module, xla_client.DeviceList((device,)), options)
    seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    memory = executable.get_compiled_memory_stats()
    print(json.dumps({"seconds": seconds, "temporary": memory.temp_size_in_bytes}))


if __name__ == "__main__":
    main()
