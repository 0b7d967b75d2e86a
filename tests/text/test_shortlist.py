"""The file of a shortlist, and which pieces it has for a line."""

from pathlib import Path

import numpy as np
import pytest

from t2t_lite.errors import DamagedError, DataError
from t2t_lite.text.shortlist import NAME, Shortlist, copies
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary


@pytest.fixture(scope="module")
def vocabularies() -> tuple[Vocabulary, Vocabulary]:
    return train_vocabulary(["a b ab abc cab"] * 3, size=16), train_vocabulary(["a d ad dad"] * 3, size=12)


def _shortlist(source: Vocabulary, target: Vocabulary) -> Shortlist:
    rng = np.random.default_rng(1)
    of_piece = rng.integers(0, target.size, (source.size, 3)).astype(np.int32)
    return Shortlist(of_piece, np.array([4, 7], np.int32))


def test_candidates_are_those_of_the_pieces_of_any_output_end_and_padding() -> None:
    shortlist = Shortlist(np.array([[0, 0], [0, 0], [9, 2], [5, 9], [8, 0]], np.int32), np.array([6, 5], np.int32))
    found = shortlist.candidates([[2, 3, 3, 1], [1], [4, 1]], 3)
    assert found.dtype == np.int32
    assert found.tolist() == [[0, 1, 2, 5, 6, 9], [0, 1, 5, 6, -1, -1], [0, 1, 5, 6, 8, -1]]
    assert shortlist.candidates([[1]], 7).tolist() == [[0, 1, 5, 6, -1, -1, -1]]


def test_what_is_written_is_read(vocabularies: tuple[Vocabulary, Vocabulary], tmp_path: Path) -> None:
    written = _shortlist(*vocabularies)
    assert written.write(tmp_path, *vocabularies) == tmp_path / NAME
    content = (tmp_path / NAME).read_bytes()
    found = Shortlist.read(tmp_path, *vocabularies)
    assert np.array_equal(found.of_piece, written.of_piece)
    assert np.array_equal(found.always, written.always)
    written.write(tmp_path, *vocabularies)
    assert (tmp_path / NAME).read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_missing_file_is_named_with_the_command_that_makes_it(
    vocabularies: tuple[Vocabulary, Vocabulary], tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"has no shortlist\.npz\. Make it: t2t-lite-shortlist --output_dir=RUN\."):
        Shortlist.read(tmp_path, *vocabularies)


def test_a_file_of_other_vocabularies_is_refused(vocabularies: tuple[Vocabulary, Vocabulary], tmp_path: Path) -> None:
    source, target = vocabularies
    _shortlist(source, target).write(tmp_path, source, target)
    with pytest.raises(DataError, match=r"shortlist\.npz is of other vocabularies than those of the run\. Make it ag"):
        Shortlist.read(tmp_path, target, source)


def test_damage_is_found(vocabularies: tuple[Vocabulary, Vocabulary], tmp_path: Path) -> None:
    _shortlist(*vocabularies).write(tmp_path, *vocabularies)
    path = tmp_path / NAME
    content = path.read_bytes()
    middle = len(content) // 3
    broken = [b"", b"text", content[:-9], content[:middle] + bytes(9) + content[middle + 9 :]]
    for data in broken:
        path.write_bytes(data)
        with pytest.raises(DamagedError, match=r"shortlist\.npz is damaged \(.*\)\. Make it again: t2t-lite-shortlist"):
            Shortlist.read(tmp_path, *vocabularies)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"of_piece": np.zeros((5, 3), np.int32)}, r"is damaged \(it has pieces that the vocabularies do not have\)"),
        ({"always": np.array([99])}, r"is damaged \(it has pieces that the vocabularies do not have\)"),
        ({"always": np.array([0.5])}, r"is damaged \(always has numbers of another kind\)"),
        ({"always": np.array([{}])}, r"is damaged \(.*allow_pickle"),
        ({"format": np.array(2)}, r"has the format number 2; this version of t2t-lite reads format 1"),
    ],
)
def test_what_others_wrote_is_checked(
    vocabularies: tuple[Vocabulary, Vocabulary], tmp_path: Path, changes: dict[str, np.ndarray], error: str
) -> None:
    _shortlist(*vocabularies).write(tmp_path, *vocabularies)
    with np.load(tmp_path / NAME) as file:
        arrays = {**file, **changes}
    np.savez(tmp_path / NAME, **arrays)
    with pytest.raises(DataError, match=error):
        Shortlist.read(tmp_path, *vocabularies)


def test_copies_are_pieces_of_the_same_text(vocabularies: tuple[Vocabulary, Vocabulary]) -> None:
    source, target = vocabularies
    found = copies(source, target)
    assert copies(source, source).tolist() == [*range(source.size)]
    assert found.dtype == np.int32
    for i, piece in enumerate(source.pieces(range(source.size))):
        assert target.pieces([int(found[i])]) == [piece] or found[i] == 0
    assert (found > 2).any()
    assert (found[3:] == 0).any()
