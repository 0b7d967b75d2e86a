"""Test sets of sacreBLEU: from its folder, which it reads when it is imported; the messages where one is not there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_lite.data.testsets import read_testset
from t2t_lite.errors import UsageError
from tests.data import testset_cache

_READ = (
    "import json, sys; from t2t_lite.data.testsets import read_testset; print(json.dumps(read_testset(*sys.argv[1:])))"
)


def _read(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The proxy, which nothing listens at, keeps the test from the network.
    env = os.environ | {"SACREBLEU": str(cache), "https_proxy": "http://127.0.0.1:9"}
    return subprocess.run([sys.executable, "-c", _READ, *arguments], capture_output=True, text=True, env=env)


def test_the_set_is_that_of_the_folder(tmp_path: Path) -> None:
    sources, references = ["A  dog.", "AT&amp;T"], ["Ein Hund.", "Größe \u2028 x"]
    cache = testset_cache.fill(tmp_path, sources, references)
    done = _read(cache, "wmt14/full", "en_US", "de")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["A dog.", "AT&amp;T"], [["Ein Hund.", "Größe x"]]]


def test_a_set_that_is_not_there_says_what_to_download_and_where_to_put_it(tmp_path: Path) -> None:
    done = _read(tmp_path, "wmt14/full", "en", "de")
    said = done.stderr.split("\n")[-2]
    assert said.startswith(f"t2t_lite.errors.DataError: --testset=wmt14/full is not in {tmp_path}, and sacreBLEU could")
    place = tmp_path / testset_cache.PLACE / testset_cache.ARCHIVE
    assert f"test-full.tgz and copy it to {place}, and unpack it in that folder. SACREBLEU=DIR names another" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wmt14/ful", "en", "de"), r"no such test set\. Did you mean 'wmt14/full'.* sacrebleu --list lists them"),
        (("wmt14/full", "en", "ja"), "--testset=wmt14/full is not for en-ja, but for cs-en, de-en, en-cs, en-de, "),
    ],
)
def test_names_that_are_not_there(arguments: tuple[str, str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_testset(*arguments)
