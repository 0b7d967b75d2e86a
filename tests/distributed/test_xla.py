"""Flags and cache of XLA: set where there is a GPU, never over the user's; programs are taken from the cache."""

import logging
import os
from pathlib import Path

import pytest

from t2t_lite.distributed.xla import cache_folder, list_programs, read_flags, set_up_xla
from tests import commands

OURS = {"xla_gpu_enable_triton_gemm": "false", "xla_gpu_experimental_enable_fusion_autotuner": "false"}
KEPT = "tf_xla_persistent_cache_directory"


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """A folder as /proc/driver/nvidia is with a GPU."""
    folder = tmp_path / "driver"
    (folder / "gpus" / "0000:01:00.0").mkdir(parents=True)
    (folder / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06\n")
    (folder / "gpus" / "0000:01:00.0" / "information").write_text("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 3\n")
    return folder


def _set_up(driver: Path, **environment: str) -> dict[str, str]:
    given = {"XDG_CACHE_HOME": str(driver.parent / "cache"), **environment}
    set_up_xla(given, driver)
    return given


def test_without_a_gpu_nothing_is_set(tmp_path: Path) -> None:
    assert _set_up(tmp_path / "none") == {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_with_a_gpu_flags_and_cache_are_set_once(driver: Path) -> None:
    found = _set_up(driver)
    assert read_flags(found["XLA_FLAGS"]) == OURS
    assert cache_folder(found) == driver.parent / "cache" / "t2t-lite" / "xla"
    assert list_programs(found) == set()
    again = dict(found)
    set_up_xla(again, driver)
    assert again == found


def test_what_the_user_has_set_stays(driver: Path) -> None:
    found = _set_up(
        driver,
        XLA_FLAGS="--xla_gpu_enable_triton_gemm=true --xla_dump_to='my dumps'",
        TF_XLA_FLAGS=f"--{KEPT}=/elsewhere --tf_xla_auto_jit=2",
    )
    assert read_flags(found["XLA_FLAGS"]) == {
        "xla_gpu_enable_triton_gemm": "true",
        "xla_dump_to": "my dumps",
        "xla_gpu_experimental_enable_fusion_autotuner": "false",
    }
    assert found["TF_XLA_FLAGS"] == f"--{KEPT}=/elsewhere --tf_xla_auto_jit=2"
    assert not (driver.parent / "cache").exists()


def test_a_file_of_flags_stays(driver: Path) -> None:
    assert _set_up(driver, XLA_FLAGS="flags.txt")["XLA_FLAGS"] == "flags.txt"


@pytest.mark.parametrize("changed", ["version", "gpus/0000:01:00.0/information"])
def test_another_driver_or_gpu_or_flag_has_programs_of_its_own(driver: Path, changed: str) -> None:
    def prefix(**environment: str) -> str:
        return read_flags(_set_up(driver, **environment)["TF_XLA_FLAGS"])["tf_xla_persistent_cache_prefix"]

    before = prefix()
    assert prefix() == before
    assert prefix(XLA_FLAGS="--xla_gpu_autotune_level=0") != before
    file = driver / changed
    file.write_text(file.read_text().replace("580.65", "590.10").replace("H100", "H200"))
    assert prefix() != before


def test_the_cache_is_at_home_unless_xdg_names_a_folder(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(driver.parent / "home"))
    for other in ("", "relative"):  # which the XDG specification says to ignore
        assert cache_folder(_set_up(driver, XDG_CACHE_HOME=other)) == driver.parent / "home/.cache/t2t-lite/xla"


def test_a_folder_that_cannot_be_written_is_one_warning(driver: Path, caplog: pytest.LogCaptureFixture) -> None:
    (driver.parent / "cache").write_text("a file")
    with caplog.at_level(logging.WARNING):
        found = _set_up(driver)
    (warning,) = caplog.messages
    assert warning.startswith("XLA compiles its programs again at each start, as their cache cannot be written: ")
    assert "TF_XLA_FLAGS" not in found
    assert read_flags(found["XLA_FLAGS"]) == OURS


@pytest.mark.nightly
def test_programs_are_compiled_once_and_damaged_ones_are_removed(driver: Path) -> None:
    cache = driver.parent / "a cache"  # with a space, which separates flags
    environment = _set_up(driver, **{**os.environ, "XDG_CACHE_HOME": str(cache)})

    def trained() -> tuple[int, str, str]:
        done = commands.run("tests.distributed.xla_cache_worker", driver.parent / "run", env=environment)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    first, again = trained(), trained()
    assert [first[0], again[0]] == [0, 0]
    assert "program 1 of 1" in first[1]
    assert first[1].splitlines()[-1] == again[1].splitlines()[-1]  # the loss
    assert again[2] == ""
    programs = list_programs(environment)
    assert programs is not None
    assert len(programs) == 1
    for path in programs:
        path.write_bytes(path.read_bytes()[:-100])
    status, _, error = trained()
    assert status == 1
    assert "It has been emptied. Run the same command again." in error
    assert list_programs(environment) == set()
    assert trained()[0] == 0
