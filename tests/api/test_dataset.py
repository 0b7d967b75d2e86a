"""t2t_lite.dataset gives what the training loop gets; encode and decode are those of prepared data."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import t2t_lite
from t2t_lite import config, registry
from t2t_lite.api.load import LoadedRun
from t2t_lite.data.pipeline import batches, make_plan
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import Store
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problem import AlignedPair, Problem
from tests.api.conftest import RECIPE


def _equal(found: Any, wanted: Any) -> int:
    """Checks that two streams of batches are equal; returns how many batches there are."""
    number = 0
    for number, (one, other) in enumerate(zip(found, wanted, strict=True), start=1):
        assert list(one) == list(other)
        for name, array in one.items():
            assert array.dtype == np.int32
            np.testing.assert_array_equal(array, other[name], err_msg=f"{name} of batch {number}")
    return number


def _wanted(store: Store, hparams: Any, first_step: int, steps: int, aligned: bool = False) -> Any:
    """What trainer.py reads."""
    split = store.split("train")
    plan = make_plan(split, hparams.batch, hparams.seed)
    made = batches(split, plan, packing=hparams.packing, first_step=first_step, aligned=aligned)
    return itertools.islice(made, steps)


@pytest.mark.commit
@pytest.mark.parametrize("first_step", [1, 23])
def test_batches_are_those_of_the_run(run: LoadedRun, folder: Path, first_step: int) -> None:
    wanted = [*_wanted(run._run.members[0].store(), run._run.spec.hparams, first_step, 40)]
    found = t2t_lite.dataset(run, first_step=first_step, steps=40)
    assert _equal(found.as_numpy_iterator(), wanted) == 40 == found.cardinality()
    _equal(found.as_numpy_iterator(), wanted)  # each iteration starts from the first batch
    endless = t2t_lite.dataset(folder, "train", first_step=first_step)
    assert endless.cardinality() < 0
    _equal(endless.take(40).as_numpy_iterator(), wanted)
    epoch = t2t_lite.dataset(str(folder), first_step=first_step, epochs=2)
    of_training = make_plan(run._run.members[0].store().split("train"), run._run.spec.hparams.batch, 1)
    assert epoch.cardinality() == 2 * of_training.steps_per_epoch - first_step + 1


def _numbers(split: str) -> list[AlignedPair]:
    count = {"train": 400, "dev": 30, "test": 20}[split]
    return [AlignedPair(f"{i} {i % 7} x" * (1 + i % 3), f"{i % 5} {i}", [(0, 1)]) for i in range(count)]


class _Numbers(Problem):
    name, vocab_size, vocab_type, aligned = "numbers", 30, "char", True

    def samples(self, split: str) -> Any:
        return iter(_numbers(split))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return prepare(_Numbers(), tmp_path_factory.mktemp("data"), num_workers=1)


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize("guided_alignment", [0.0, 0.1])
def test_batches_of_prepared_data(store: Store, packing: bool, guided_alignment: float) -> None:
    changes = {"packing": packing, "guided_alignment": guided_alignment, "batch_tokens": 300, "seed": 5}
    hparams: Any = config.replace(registry.hparams("tiny"), **changes)
    for first_step in (1, 9):
        found = t2t_lite.dataset(store.folder, "train", "tiny", overrides=changes, first_step=first_step, steps=12)
        assert len(found.element_spec) == 2 + 4 * packing + (guided_alignment > 0)
        wanted = _wanted(store, hparams, first_step, 12, guided_alignment > 0)
        assert _equal(found.as_numpy_iterator(), wanted) == 12


def test_dev_and_test_are_read_once_by_length(store: Store) -> None:
    for split in ("dev", "test"):
        found = [*t2t_lite.dataset(store.folder, split, "tiny", overrides={"batch_tokens": 100}).as_numpy_iterator()]
        tokens = store.split(split)
        rows = [tuple(row[row > 0] for row in pair) for one in found for pair in zip(*one.values(), strict=True)]
        pairs = ((tokens.source[i], tokens.target[i]) for i in range(len(tokens)))
        assert sorted([side.tolist() for side in row] for row in rows) == sorted(
            [s.tolist(), t.tolist()] for s, t in pairs
        )
        longest = [max(map(len, row)) for row in rows]
        assert longest == sorted(longest, reverse=True)
        assert len(found) > 3
        assert all(max(one["source"].size, one["target"].size) <= 100 for one in found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "dev", "first_step": 2}, "are for the split 'train'; 'dev' is read once"),
        ({"first_step": 0}, "first_step=0 must be a whole number from 1 on"),
        ({"steps": 1.5}, r"steps=1\.5 must be a whole number"),
        ({"steps": 1, "epochs": 1}, "Give steps or epochs, not both"),
        ({"first_step": 10_000, "epochs": 1}, "first_step=10,000 is after epoch 1, which ends with update"),
        ({"hparams": None}, "is prepared data: name the hparams set of the batches"),
        ({"hparams": "tinny"}, "Did you mean 'tiny'"),
    ],
)
def test_settings_that_cannot_be(store: Store, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        t2t_lite.dataset(store.folder, **{"hparams": "tiny", **arguments})


def test_what_is_not_there(store: Store, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is neither a run nor prepared data, which are in data/NAME"):
        t2t_lite.dataset(tmp_path)
    with pytest.raises(DataError, match=r"has no split 'val'; it has train, dev, test"):
        t2t_lite.dataset(store.folder, "val", "tiny")


@pytest.mark.commit
def test_a_run_has_its_own_recipe(run: LoadedRun) -> None:
    with pytest.raises(UsageError, match="A run has its own recipe: leave out hparams"):
        t2t_lite.dataset(run, overrides=RECIPE)
    with pytest.raises(UsageError, match="An ensemble has no batches of its own; give one of its runs"):
        t2t_lite.dataset(t2t_lite.load([run._run.members[0].output_dir] * 2), "dev")


@pytest.mark.commit
def test_ids_are_those_of_prepared_data(run: LoadedRun) -> None:
    store = run._run.members[0].store()
    for side, texts in zip(("source", "target"), store.text("dev"), strict=True):
        tokens = getattr(store.split("dev"), side)
        ids = run.encode(texts, side)
        assert ids == [tokens[i].tolist() for i in range(len(tokens))]
        assert run.decode(ids, side) == texts
    padded = next(iter(t2t_lite.dataset(run, "dev")))["target"]
    assert set(run.decode(padded)) <= set(texts)
    assert run.encode(["", " "]) == [[1], [1]]
    assert run.decode([[], [0, 0], ids[0] + ids[1]]) == ["", "", texts[0]]


@pytest.mark.commit
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: run.encode("a house"), r"encode takes a list of lines, not one string\. Give \[line\]"),
        (lambda run: run.encode(["a"], "sources"), r"side='sources' is neither 'source' nor 'target'\. Did you mean"),
        (lambda run: run.encode(["a"], target_language="de"), "this model has no labels of target languages"),
        (lambda run: run.decode([5, 1]), r"decode takes rows of ids below [\d,]+, .* not a row 5\."),
        (lambda run: run.decode([[5, 10**6]]), r"not a row \[5, 1000000\]"),
        (lambda run: run.decode([[-1]]), r"not a row \[-1\]"),
        (lambda run: run.decode([["a"]]), r"not a row \['a'\]"),
    ],
)
def test_what_is_no_text_and_no_ids(run: LoadedRun, call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(run)


@pytest.mark.nightly
def test_sources_have_labels_as_in_prepared_data(tmp_path: Path) -> None:
    for language in ("de", "fr"):
        (tmp_path / f"en-{language}").mkdir()
        for split, number in (("train", 200), ("dev", 10)):
            for side in ("en", language):
                text = "".join(f"{side} {i}\n" for i in range(number))
                (tmp_path / f"en-{language}" / f"{split}.{side}").write_text(text)
    sizes = {"num_layers": 1, "d_model": 32, "d_ff": 32, "train_steps": 2, "batch_tokens": 512}
    corpus = {"source_dir": tmp_path, "languages": "en-de,en-fr", "vocab_size": 40, "num_workers": 1}
    run = t2t_lite.train("text2text", "tiny", tmp_path / "run", overrides=sizes, **corpus)
    store = run._run.members[0].store()
    sources, tokens = store.text("dev")[0], store.split("dev").source
    assert {source[:6] for source in sources} == {">>de<<", ">>fr<<"}
    ids = run.encode(sources)
    assert ids == [tokens[i].tolist() for i in range(len(tokens))]
    assert run.decode(ids, "source") == sources
    assert run.encode(["en 1"], target_language="fr") == run.encode([">>fr<< en 1"])
    with pytest.raises(DataError, match="does not begin with the label of a target language"):
        run.encode(["en 1"])
