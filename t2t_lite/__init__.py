"""t2t-lite: the Transformer of "Attention Is All You Need" on TensorFlow 2 and Keras 3.

Importing this package does not load TensorFlow. `load`, `train` and `dataset` load it, and so do the commands once they
know what to run.
"""

import os as _os
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

# An installed package holds problems/ and hparams/. In a checkout both are beside the package.
_package = _os.path.dirname(__file__)
if not _os.path.isdir(_os.path.join(_package, "problems")):
    __path__.append(_os.path.dirname(_package))

if _TYPE_CHECKING:
    from t2t_lite.api.dataset import dataset as dataset
    from t2t_lite.api.load import load as load
    from t2t_lite.api.train import train as train
    from t2t_lite.config import HParams as HParams
    from t2t_lite.problem import Problem as Problem
    from t2t_lite.registry import register_hparams as register_hparams
    from t2t_lite.registry import register_model as register_model
    from t2t_lite.registry import register_problem as register_problem

    __version__: str

# The public names of this package, and the module that defines each. A module is imported on first use.
_PUBLIC = {
    "dataset": "api.dataset",
    "load": "api.load",
    "train": "api.train",
    "HParams": "config",
    "Problem": "problem",
    "register_hparams": "registry",
    "register_model": "registry",
    "register_problem": "registry",
}


def __getattr__(name: str) -> object:
    if name == "__version__":  # asks git in a checkout
        return _import_module(f"{__name__}.version").local_version()
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC, "__version__"])
