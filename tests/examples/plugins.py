"""Loading of an example's plug-in as --usr_dir does, for the tests of one module."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from t2t_lite import registry


@contextlib.contextmanager
def load_plugin(folder: Path) -> Iterator[ModuleType]:
    """Context in which the names that a plug-in registers are known; afterwards they are not."""
    with pytest.MonkeyPatch.context() as patch:
        for table in (registry.PROBLEMS, registry.HPARAMS, registry.MODELS):
            table.load()
            for names in ("_things", "_lazy"):
                patch.setattr(table, names, dict(getattr(table, names)))
        patch.setattr(sys, "path", list(sys.path))
        registry.load_plugins(str(folder))
        yield sys.modules[folder.name]
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        del sys.modules[name]
