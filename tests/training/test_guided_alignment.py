"""Guided alignment: its loss and gradients against the equation in NumPy, and a toy language whose links are known."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import t2t_lite
from t2t_lite.cli import decoder, trainer
from t2t_lite.config import replace
from t2t_lite.decoding.translate import pad
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.errors import UsageError
from t2t_lite.groups import OptimizerGroup
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.optimizers.adam import Adam
from t2t_lite.training.gradients import loss_and_gradients
from t2t_lite.training.guided_alignment import guided_alignment_loss
from t2t_lite.training.loss import batch_loss
from t2t_lite.training.step import TrainStep

V, TOKENS, WEIGHT = 50, 17.0, 0.3
SMOOTHING = (0.1, "all")
SEED = np.array([3, -4, 0], "int32")


def _batch() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(5)
    batch = {side: draw.integers(2, V, (5, length), "int32") for side, length in (("source", 7), ("target", 6))}
    batch["source"][1:, 5:] = 0
    batch["target"][2:, 4:] = 0
    links = draw.random((5, 6, 7)) < 0.3
    links &= (batch["target"][:, :, None] > 0) & (batch["source"][:, None, :] > 0)
    links[0, 2] = False  # a target without links
    return batch | {"alignment": links.reshape(5, -1).astype(np.int32)}


def _equation(weights: np.ndarray, links: np.ndarray) -> float:
    """Garg et al. (2019), as a sum: -sum_t sum_s G^p[t, s] log A[t, s], in loops and float64."""
    total = 0.0
    for row, linked in zip(weights.astype(np.float64), links.reshape(weights.shape), strict=True):
        for distribution, of_target in zip(row, linked, strict=True):
            places = np.flatnonzero(of_target)
            total -= sum(np.log(distribution[s] + 1e-6) / len(places) for s in places)
    return total


@pytest.fixture(scope="module")
def guided(make_model: Callable[..., Any]) -> Any:
    return make_model(V, num_layers=1, num_decoder_layers=2, guided_alignment=WEIGHT, alignment_layer=1)


def test_the_loss_is_that_of_the_equation() -> None:
    draw = np.random.default_rng(2)
    weights = draw.dirichlet(np.ones(7), (5, 6)).astype(np.float32)
    weights[3, 1] = np.eye(7)[2]  # the logarithm of zero
    links = (draw.random((5, 42)) < 0.4).astype(np.int32)
    np.testing.assert_allclose(float(guided_alignment_loss(weights, links)), _equation(weights, links), rtol=1e-6)


def test_the_head_that_learns_is_the_first_of_its_layer(guided: Any) -> None:
    batch = _batch()
    plain = float(batch_loss(guided, {name: batch[name] for name in ("source", "target")}, TOKENS, *SMOOTHING))
    added = float(batch_loss(guided, batch, TOKENS, *SMOOTHING)) - plain
    maps = np.asarray(guided.attention_maps(batch)["memory"])
    wanted = WEIGHT / TOKENS * _equation(maps[:, 0, 0], batch["alignment"])
    assert added == pytest.approx(wanted, rel=1e-5)
    for layer, head in ((0, 1), (1, 0)):
        assert added != pytest.approx(WEIGHT / TOKENS * _equation(maps[:, layer, head], batch["alignment"]), rel=1e-3)


def _loss_and_gradients(model: Any, shards: int = 1, jit: bool = False) -> list[np.ndarray]:
    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in _batch()}

    @tf.function(input_signature=[spec], autograph=False, jit_compile=jit)
    def run(batch: Any) -> Any:
        loss, gradients = loss_and_gradients(model, batch, SEED, TOKENS, SMOOTHING, groups=0, shards=shards, jit=jit)
        return [loss, *gradients]

    return [value.numpy() for value in run(_batch())]


@pytest.fixture(scope="module")
def computed(guided: Any) -> list[np.ndarray]:
    return _loss_and_gradients(guided)


@pytest.mark.nightly
@pytest.mark.parametrize(("shards", "jit"), [(2, False), (1, True)])
def test_shards_and_xla_give_the_same_gradients(guided: Any, computed: Any, shards: int, jit: bool) -> None:
    for one, other in zip(_loss_and_gradients(guided, shards, jit), computed, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * max(np.abs(other).max(), 1e-3))


def test_gradients_are_those_of_the_loss(guided: Any, computed: list[np.ndarray]) -> None:
    _, *gradients = computed
    key = next(
        i
        for i, w in enumerate(guided.trainable_weights)
        if w.path.endswith("layer_0/around_memory/memory_attention/key")
    )
    weight, direction = guided.trainable_weights[key], np.sign(gradients[key])
    start, step, losses = weight.numpy(), 3e-4, []
    for sign in (1, -1):
        weight.assign(start + sign * step * direction)
        losses.append(float(batch_loss(guided, _batch(), TOKENS, *SMOOTHING)))
    weight.assign(start)
    assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(float(np.abs(gradients[key]).sum()), rel=0.01)


@pytest.mark.nightly
def test_a_step_in_parts_has_the_loss_of_the_whole(guided: Any) -> None:
    adam, batch = Adam([w.value for w in guided.trainable_weights], 0.9, 0.98, 1e-9), _batch()
    parts = guided, adam, make_strategy(Devices(1)), OptimizerGroup()
    step = TrainStep(*parts, accumulate=3, seed=1, jit=False)
    step.warm_up(5, 7, 6)
    step(batch, 1, 0.0)  # with this rate the weights stay
    wanted = batch_loss(guided, batch, float(np.count_nonzero(batch["target"])), *SMOOTHING)
    assert step.outcome().loss == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alignment_layer": 7}, "alignment_layer=7: the decoder has 6 layers"),
        ({"guided_alignment": 0.1, "remat": True}, "guided_alignment=0.1 and remat=true exclude each other"),
        ({"guided_alignment": -1.0}, "guided_alignment"),
    ],
)
def test_settings_that_contradict_each_other(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(TransformerHParams(), **changes)


def test_the_layer_is_the_last_unless_it_is_given() -> None:
    layers = [
        replace(TransformerHParams(), **changes).aligning_layer
        for changes in ({}, {"guided_alignment": 0.1}, {"guided_alignment": 0.1, "alignment_layer": 5})
    ]
    assert layers == [0, 6, 5]


def test_a_run_without_alignments_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [f"--output_dir={tmp_path / 'run'}", "--hparams=guided_alignment=0.1"]
    assert trainer.main(["--problem=toy_ende", "--hparams_set=tiny", *flags]) == 2
    assert "guided_alignment=0.1 needs the alignments of the training text" in capsys.readouterr().err
    assert trainer.main(["--problem=toy_ende", "--hparams_set=rnn_tiny", *flags]) == 2
    assert "guided_alignment" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


CONSONANTS, VOWELS, UMLAUTS, WORDS = "bdgklmnr", "aeiou", "äöüáå", 24


def _write_language(folder: Path, pairs: int) -> None:
    """Writes pairs of made-up sentences: each word has a translation, and these stand in reverse order."""
    draw = random.Random(1)

    def words(vowels: str) -> list[str]:
        found: dict[str, None] = {}
        while len(found) < WORDS:
            found["".join(draw.choice(CONSONANTS) + draw.choice(vowels) for _ in range(draw.choice((1, 2))))] = None
        return list(found)

    source, target = words(VOWELS), words(UMLAUTS)

    def pair() -> tuple[str, str, str]:
        chosen = draw.sample(range(WORDS), draw.randint(2, 7))
        links = " ".join(f"{i}-{len(chosen) - 1 - i}" for i in range(len(chosen)))
        return " ".join(source[i] for i in chosen), " ".join(target[i] for i in reversed(chosen)), links

    folder.mkdir()
    for split, number in (("train", pairs), ("dev", 50), ("test", 100)):
        for name, lines in zip(("en", "de", "align"), zip(*(pair() for _ in range(number)), strict=True), strict=True):
            (folder / f"{split}.{name}").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _f1(run: Path, folder: Path) -> float:
    """F1 of the links of words in the references of test, which the model reads."""
    translator = t2t_lite.load(run)._run.translator  # type: ignore[union-attr]
    translator.start_aligning()
    source, target, links = (
        Path(folder, f"test.{end}").read_text("utf-8").splitlines() for end in ("en", "de", "align")
    )
    sides = ((translator.source_vocabulary, source), (translator.target_vocabulary, target))
    ids = [pad([[*row, 1] for row in vocabulary.encode_many(lines)]) for vocabulary, lines in sides]
    right = ours = theirs = 0
    for found, line in zip(translator.align(*ids), links, strict=True):
        s, t = (np.cumsum([piece.startswith("\u2581") for piece in side]) - 1 for side in (found.source, found.target))
        linked = {(s[i], t[j]) for i, j in found.links() if "</s>" not in (found.source[i], found.target[j])}
        wanted = {(int(i), int(j)) for i, j in (link.split("-") for link in line.split())}
        right, ours, theirs = right + len(linked & wanted), ours + len(linked), theirs + len(wanted)
    return 2 * right / (ours + theirs)


@pytest.mark.nightly
def test_a_toy_language_is_aligned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write_language(tmp_path / "text", 2000)
    sizes = "num_layers=1,num_decoder_layers=2,dropout=0,batch_tokens=512,max_length=32"
    recipe = f"{sizes},guided_alignment=1,warmup_steps=100,train_steps=600,eval_every=600,save_every=600,eval_lines=10"
    flags = ["--problem=text2text", f"--source_dir={tmp_path / 'text'}", "--languages=en-de", "--alignments=align"]
    run = tmp_path / "run"
    more = ["--vocab_size=80", "--hparams_set=tiny", f"--hparams={recipe}", f"--output_dir={run}"]
    assert trainer.main([*flags, *more]) == 0
    assert _f1(run, tmp_path / "text") >= 0.95
    capsys.readouterr()
    text = f"--input={tmp_path / 'text' / 'test.en'}"
    assert decoder.main([f"--output_dir={run}", text, f"--output={tmp_path / 'out'}", "--alignments=hard"]) == 0
    lines = (tmp_path / "out").read_text("utf-8").splitlines()
    assert len(lines) == 100
    assert all(re.fullmatch(r"[a-zäöüáå ]+ \|\|\| \d+-\d+( \d+-\d+)+", line) for line in lines)
