"""Leaves that are no words: notes, references and empty elements of treebanks of the Penn-Helsinki kind."""

import pytest

from t2t_lite.text.trees.odd_leaves import odd_name, without
from t2t_lite.text.trees.tree import Leaf, normalize, parse

TREE = (
    "( (IP-MAT (NP-SBJ *con*) (CODE <P_3>) (VBD saw) (NP-OB1 (PRO it))"
    " (CP-ADV (WADVP-1 0) (C 0) (IP-SUB (ADVP *T*-1) (VBD was) (NUM 0))) (METADATA (AUTHOR malory)) (. .)) (ID M,2.3))"
)


@pytest.mark.parametrize(
    ("tag", "word", "name"),
    [
        ("NP-SBJ", "*con*", "*con*"),
        ("NP", "*T*-12", "*T*"),
        ("NP", "*-1", "*"),
        ("C", "0", "0"),
        ("WNP-1", "0", "0"),
        ("CODE", "{COM:x}", "CODE"),
        ("ID-2", "x", "ID"),
        *(("CD", "0", None), ("NUM", "0", None), ("SYM", "*", None), ("SYM", "**", None), ("SYM", "***", None)),
        *(("NN", "*nix", None), ("NN", "id", None), ("C", "that", None), ("IDX", "a", None)),
    ],
)
def test_what_is_no_word(tag: str, word: str, name: str | None) -> None:
    assert odd_name(Leaf(tag, word)) == name


def test_what_is_dropped() -> None:
    def words(*names: str) -> str:
        tree = normalize(without(parse(TREE), names))
        return "" if tree is None else " ".join(tree.words)

    assert words() == "*con* <P_3> saw it 0 0 *T*-1 was 0 malory . M,2.3"
    assert words("CODE", "ID", "*con*", "*T*", "0", "METADATA") == "saw it was 0 ."
    assert words("CP", "METADATA") == "*con* <P_3> saw it . M,2.3"
    assert words("IP-MAT", "ID") == ""
    dropped = normalize(without(parse(TREE), ["CODE", "ID", "*con*", "*T*", "0", "METADATA"]))
    assert str(dropped) == "(IP (VBD saw) (NP (PRO it)) (CP (IP (VBD was) (NUM 0))) (. .))"
