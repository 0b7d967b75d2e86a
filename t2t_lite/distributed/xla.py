"""Settings of XLA on NVIDIA's GPUs: flags, and a cache of compiled programs in the user's cache folder.

TensorFlow reads them from two environment variables when it compiles for the first time. What the user has set there is
kept.
"""

import hashlib
import importlib.metadata
import logging
import re
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from t2t_lite.files import users_folder

FLAGS, TENSORFLOW_FLAGS = "XLA_FLAGS", "TF_XLA_FLAGS"  # environment variables
# Most of the minute that a program of `base` took to compile on an H200 goes into trying out kernels: 33 of Triton for
# each of 46 products, and two for each other kernel. Products in cuBLAS reach the full rate.
GPU_DEFAULTS = {"xla_gpu_enable_triton_gemm": "false", "xla_gpu_experimental_enable_fusion_autotuner": "false"}
_DIRECTORY, _PREFIX = "tf_xla_persistent_cache_directory", "tf_xla_persistent_cache_prefix"
_FLAG = re.compile(r"""--(\w+)(?:=(?:"([^"]*)"|'([^']*)'|(\S*)))?""")
_DRIVER = Path("/proc/driver/nvidia")

_log = logging.getLogger("t2t_lite")


def set_up_xla(environment: MutableMapping[str, str], driver: Path = _DRIVER) -> None:
    """Adds flags and cache to the environment, if there is a GPU; call it before TensorFlow compiles anything.

    If the cache's folder cannot be written, a warning says that programs are compiled at each start.

    Args:
        driver: where the system describes NVIDIA's driver.
    """
    machine = _describe(driver)
    if not machine:
        return
    _add(environment, FLAGS, GPU_DEFAULTS)
    if _DIRECTORY in read_flags(environment.get(TENSORFLOW_FLAGS, "")):
        return
    try:
        folder = users_folder(environment) / "xla"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        _log.warning("XLA compiles its programs again at each start, as their cache cannot be written: %s", error)
        return
    # Programs of other versions, drivers, GPUs or flags are others, which TensorFlow's own key does not tell.
    version = importlib.metadata.version("tensorflow")
    key = hashlib.sha256("\n".join([machine, version, environment.get(FLAGS, "")]).encode()).hexdigest()
    _add(environment, TENSORFLOW_FLAGS, {_DIRECTORY: str(folder), _PREFIX: f"tf{version}-{key[:16]}"})


def read_flags(text: str) -> dict[str, str]:
    """The flags in the text of an environment variable, by name."""
    return {name: double or single or plain for name, double, single, plain in _FLAG.findall(text)}


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """The folder of the programs that this process keeps and takes; None if it keeps none."""
    folder = read_flags(environment.get(TENSORFLOW_FLAGS, "")).get(_DIRECTORY)
    return Path(folder) if folder else None


def list_programs(environment: Mapping[str, str]) -> set[Path] | None:
    """The files of the programs that this process may take; None if it keeps none."""
    folder = cache_folder(environment)
    prefix = read_flags(environment.get(TENSORFLOW_FLAGS, "")).get(_PREFIX, "")
    return None if folder is None else {path for path in folder.glob("*.pb") if path.name.startswith(prefix)}


def _add(environment: MutableMapping[str, str], variable: str, flags: Mapping[str, str]) -> None:
    text = environment.get(variable, "").strip()
    if text and not text.startswith("-"):  # the name of a file with flags
        return
    given = read_flags(text)
    more = [f"--{name}={_quote(value)}" for name, value in flags.items() if name not in given]
    environment[variable] = " ".join([*([text] if text else []), *more])


def _quote(value: str) -> str:
    return f"'{value}'" if re.search(r"\s", value) else value


def _describe(driver: Path) -> str:
    """The driver's version and the GPUs' names; empty if there is no driver."""
    try:
        text = (driver / "version").read_text(encoding="utf-8", errors="replace")
        files = sorted(driver.glob("gpus/*/information"))
        described = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    except OSError:
        return ""
    names = {found[1] for each in described if (found := re.search(r"^Model:\s*(.*)", each, re.MULTILINE))}
    return "\n".join([text, *sorted(names)])
