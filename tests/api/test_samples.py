"""Outputs that the Python interface draws: those of the command, by the seed of each call."""

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.api.load import LoadedRun
from t2t_lite.decoding.translate import Translator
from t2t_lite.samplers.base import Sampler
from tests import commands
from tests.api.conftest import LINES
from tests.two_threads import Second, SpyLock

pytestmark = pytest.mark.commit


@pytest.mark.nightly
def test_samples_are_the_commands(run: LoadedRun, folder: Path) -> None:
    flags = ["--sampler=nucleus", "--sampler_options=top_p=0.95,temperature=1.5", "--seed=3", "--nbest=2"]
    done = commands.run("t2t_lite.cli.decoder", f"--output_dir={folder}", *flags, input="\n".join(LINES).encode())
    samples = run.nbest(LINES, 2, sampler="nucleus", top_p=0.95, temperature=1.5, seed=3)
    assert done.stdout.decode().splitlines() == [f"{h.score:.4f}\t{h.text}" for line in samples for h in line]
    [alone] = run.nbest(LINES[2:3], 2, sampler="nucleus", top_p=0.95, temperature=1.5, seed=3)
    assert [h.text for h in alone] == [h.text for h in samples[2]]
    assert run.translate(LINES, sampler="random") != run.translate(LINES, sampler="random", seed=2)
    assert run.translate(LINES, sampler="top_k", top_k=1) == run.translate(LINES, beam_size=1)


@pytest.mark.nightly
def test_one_graph_draws_with_all_seeds_and_few_searches_are_kept(
    run: LoadedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("t2t_lite.api.load._MOST_MADE", 3)
    run._made = {(): run._made[()]}
    drawn = [run.translate(LINES, sampler="random", temperature=2.0, seed=seed) for seed in (-1, 5, 2**63 + 7, 5)]
    assert drawn[1] == drawn[3]
    assert drawn[0] != drawn[1] != drawn[2]
    graphs = [each.search_graph.traces for each in run._made.values() if each.sampling]
    assert set(graphs) == {1}
    for length_penalty in range(3):
        run.translate(LINES[:1], beam_size=1, length_penalty=length_penalty / 5)
    assert len(run._made) == 3
    assert run._made[()] is run._run.translator


@pytest.mark.nightly
def test_a_sampler_that_is_registered_again_draws_by_its_new_code(run: LoadedRun) -> None:
    def register(most_likely: bool) -> None:
        @registry.register_sampler
        class Mine(Sampler):
            def restrict(self, logits: Any) -> Any:
                best = tf.reduce_max(logits, -1, keepdims=True)
                return tf.where(logits < best, -float("inf"), logits) if most_likely else logits

    register(False)
    drawn = run.translate(LINES, sampler="mine", temperature=3.0)
    register(True)
    assert run.translate(LINES, sampler="mine", temperature=3.0) == run.translate(LINES, beam_size=1) != drawn


@pytest.mark.nightly
def test_each_thread_draws_with_its_own_seed(run: LoadedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(seed: int) -> list[str]:
        return run.translate(LINES, sampler="random", temperature=2.0, seed=seed)

    alone = [drawn(seed) for seed in (5, 6)]
    lock = SpyLock()
    monkeypatch.setattr(run, "_sampling", lock, raising=False)
    later = Second(monkeypatch, Translator, "translate", lock, lambda: drawn(6))
    assert [drawn(5), later.result()] == alone
