"""Reading TensorFlow Datasets when it is not installed; tests/system tests the rest with whole commands."""

import sys

import pytest

from t2t_lite.data.tfds import read_tfds
from t2t_lite.errors import UsageError


@pytest.mark.parametrize("module", ["tensorflow_datasets", "importlib_resources"])
def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    wanted = rf"{module.replace('_', '-')} is not installed\. .*pip install 't2t-lite\[tfds\]'\), .* --raw_dir=DIR"
    with pytest.raises(UsageError, match=wanted):
        next(read_tfds("wmt14_translate/de-en", "test", "en", "de"))
