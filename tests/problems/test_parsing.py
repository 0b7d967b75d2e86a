"""Parsing problems: the user's own trees, the Penn Treebank's sections, extra trees; faults and messages."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.cli.flags import read_options
from t2t_lite.data.prepare import prepare
from t2t_lite.data.sources import read_lines
from t2t_lite.data.store import open_store
from t2t_lite.errors import DataError, UsageError
from t2t_lite.metrics.evalb_parameters import Parameters
from t2t_lite.option_values import problem_options
from t2t_lite.problem import Problem
from t2t_lite.problems.parsing import Treebank
from t2t_lite.text.trees.codec import TreeCodec
from t2t_lite.text.trees.linearize import restore
from t2t_lite.text.trees.tree import normalize, read_trees
from tests.tag_sets import TAG_SETS

_MRG = "( (S (NP-SBJ-1 (PRP {})) (VP (VBZ sleeps) (NP (-NONE- *T*-1))) (. .)) )\n"
_PAIR = ("{} sleeps .", "(S (NP PRP )NP (VP VBZ )VP . )S")
_ONLY_A_TRACE = "( (X (-NONE- *)) )\n"


def _section(root: Path, number: int, *files: str) -> None:
    """Makes a section whose files hold one tree each; the tree's subject is the file name up to the first dot."""
    folder = root / f"{number:02}"
    folder.mkdir(parents=True)
    for name in files or (f"wsj_{number:02}01.mrg",):
        text = _MRG.format(name.partition(".")[0]).encode()
        (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)


@pytest.fixture
def wsj(tmp_path: Path) -> Path:
    for number in range(25):
        _section(tmp_path / "wsj", number)
    return tmp_path / "wsj"


def _subjects(problem: Problem, split: str) -> list[str]:
    pairs = list(problem.samples(split))
    words = [source.split(" ")[0] for source, _ in pairs]
    assert pairs == [(_PAIR[0].format(word), _PAIR[1]) for word in words]
    return words


@pytest.mark.parametrize(
    ("name", "options", "size", "hparams"),
    [
        ("wsj_parsing", {}, 16000, "parsing"),
        ("wsj_parsing_semi", {"extra_dir": "y"}, 32000, "parsing_semi"),
        ("treebank", {}, 8000, "parsing"),
    ],
)
def test_the_settings_of_section_6_3(name: str, options: dict[str, str], size: int, hparams: str) -> None:
    problem = registry.problem(name, source_dir="x", **options)  # does not look for files yet
    assert (problem.vocab_size, problem.default_hparams) == (size, hparams)
    assert (problem.settings()["target_kind"], problem.shared_vocab, problem.metric) == ("tree", False, "evalb")
    again = registry.problem(name, **problem.options())
    assert again.settings() == problem.settings()
    assert registry.problem(name, source_dir="x", vocab_size=500, **options).settings()["vocab_size"] == 500


def test_the_sections_of_the_wall_street_journal(wsj: Path) -> None:
    problem = registry.problem("wsj_parsing", source_dir=str(wsj))
    assert problem.splits() == ("train", "dev", "test")
    assert _subjects(problem, "train") == [f"wsj_{n:02}01" for n in range(2, 22)]
    assert _subjects(problem, "dev") == ["wsj_2201"]
    assert _subjects(problem, "test") == ["wsj_2301"]


def test_a_file_that_is_there_packed_and_unpacked_is_refused(wsj: Path, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    for folder, names in {
        wsj / "22": ("._wsj_2201.mrg", "wsj_2201.mrg.gz"),
        extra / "deep": ("c.gz", "c", "d"),
    }.items():
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / name).write_bytes(gzip.compress(b"(NN x)") if name.endswith(".gz") else b"(NN x)")
    problem = registry.problem("wsj_parsing_semi", source_dir=str(wsj), extra_dir=str(extra))
    for folder, one, other in ((extra / "deep", "c", r"c\.gz"), (wsj / "22", r"wsj_2201\.mrg", r"wsj_2201\.mrg\.gz")):
        with pytest.raises(
            DataError, match=rf"{folder} has both {one} and {other}, which would be read twice\. Keep one"
        ):
            problem.splits()
        (folder / other.replace("\\", "")).unlink()
    assert problem.source_files("dev") == [wsj / "22" / "wsj_2201.mrg"]  # not the hidden file of macOS
    assert problem.source_files("train")[-2:] == [extra / "deep" / "c", extra / "deep" / "d"]


@pytest.mark.parametrize("inside", ["wsj", "combined/wsj", "parsed/mrg/wsj", "package/treebank_3/parsed/mrg/wsj"])
def test_the_folders_of_the_discs(tmp_path: Path, inside: str) -> None:
    for number in range(25):
        _section(tmp_path / inside, number)
    assert _subjects(registry.problem("wsj_parsing", source_dir=str(tmp_path)), "test") == ["wsj_2301"]


def test_more_trees_come_after_the_sections(wsj: Path, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    (extra / "deep").mkdir(parents=True)
    (extra / "b.txt").write_text(_MRG.format("b1") + "(())\n" + _MRG.format("b2"))
    (extra / "deep" / "c.gz").write_bytes(gzip.compress(_MRG.format("c").encode()))
    (extra / ".hidden").write_text("no tree")
    problem = registry.problem("wsj_parsing_semi", source_dir=str(wsj), extra_dir=str(extra))
    assert problem.splits() == ("train", "dev", "test")
    assert _subjects(problem, "train")[20:] == ["b1", "b2", "c"]
    assert problem.source_files("train")[19:] == [wsj / "21" / "wsj_2101.mrg", extra / "b.txt", extra / "deep" / "c.gz"]
    assert problem.source_files("dev") == [wsj / "22" / "wsj_2201.mrg"]
    assert _subjects(problem, "dev") == ["wsj_2201"]


def test_ones_own_trees(tmp_path: Path) -> None:
    (tmp_path / "train.mrg").write_text(_MRG.format("a") + _ONLY_A_TRACE + _MRG.format("b"))
    (tmp_path / "valid.trees.gz").write_bytes(gzip.compress(_MRG.format("c").encode()))
    problem = registry.problem("treebank", source_dir=str(tmp_path))
    assert problem.splits() == ("train", "dev")
    assert (_subjects(problem, "train"), _subjects(problem, "dev")) == (["a", "b"], ["c"])
    assert problem.source_files("dev") == [tmp_path / "valid.trees.gz"]
    assert "source_dir" not in problem.settings()["options"]


def test_trees_without_words_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "t2t_lite")
    (tmp_path / "train.trees").write_text(_MRG.format("a") * 3 + _ONLY_A_TRACE)
    (tmp_path / "dev.trees").write_text(_MRG.format("a") + "(())\n" + _ONLY_A_TRACE + "()\n")
    (tmp_path / "test.trees").write_text(_MRG.format("a"))
    problem = registry.problem("treebank", source_dir=str(tmp_path), phrases=True, vocab_size=30)
    store = prepare(problem, tmp_path / "data", num_workers=1)
    left_out = {split: facts["left_out"] for split, facts in store.manifest["splits"].items()}
    assert left_out == {split: {"without words": n} for split, n in {"train": 1, "dev": 3, "test": 0}.items()}
    assert [message for message in caplog.messages if "without words" in message] == [
        "dev: trees without words are left out: 3, first tree 2, ( ()).",
        "train: trees without words are left out: 1, first tree 4, ( (X (-NONE- *))).",
    ]


def test_what_is_no_word_is_named_and_may_be_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = "( (IP (NP-SBJ *con*) (CODE <P_{0}>) (VBD saw) (CP (C 0) (NP *T*-{0})) (NUM 0)) (ID M,2.{0}))\n"
    (tmp_path / "train.trees").write_text(tree.format(1) + tree.format(2) + "((CODE <P_9>) (ID M))")
    problem = registry.problem("treebank", source_dir=str(tmp_path))
    assert next(problem.samples("train"))[0] == "*con* <P_1> saw 0 *T*-1 0 M,2.1"
    list(problem.samples("train"))
    assert [message for message in caplog.messages if "look like" in message] == [
        "train: 12 leaves look like notes or empty elements of the treebank, but are taken for words: CODE 3 (first "
        "(CODE <P_1>) in tree 1), ID 3 (first (ID M,2.1) in tree 1), *con* 2 (first (NP-SBJ *con*) in tree 1), 0 2 "
        "(first (C 0) in tree 1), *T* 2 (first (NP *T*-1) in tree 1). To leave them out: "
        "--problem_options='drop=CODE,ID,*con*,0,*T*'."
    ]
    caplog.clear()
    options = problem_options(
        "treebank", read_options("", [f"source_dir={tmp_path},drop=CODE,ID,*con*,0,*T*,vocab_size=99"])
    )
    problem = registry.problem("treebank", **options)
    assert list(problem.samples("train")) == [("saw 0", "(IP VBD NUM )IP")] * 2
    assert problem.left_out == {"train": {"without words": 1}}
    assert "look like" not in caplog.text
    assert problem.settings()["options"]["drop"] == "CODE,ID,*con*,0,*T*"
    assert list(registry.problem("treebank", **problem.options()).samples("train")) == list(problem.samples("train"))


def _no_trees(folder: Path) -> None:
    (folder / "train.trees").unlink()


def _two_files(folder: Path) -> None:
    (folder / "dev.mrg").write_text("")


def _unbalanced(folder: Path) -> None:
    (folder / "train.trees").write_text(_MRG.format("a") + "(S (NP (DT the))\n" + _MRG.format("b"))


def _binary(folder: Path) -> None:
    (folder / "train.trees").write_bytes(bytes(range(256)))


def _empty(folder: Path) -> None:
    (folder / "dev.trees").write_text("")


def _wrong_encoding(folder: Path) -> None:
    (folder / "test.trees").write_bytes(_MRG.format("a").encode() + _MRG.format("caf\u00e9").encode("latin-1"))


def _half_a_gzip(folder: Path) -> None:
    (folder / "test.trees").unlink()
    (folder / "test.trees.gz").write_bytes(gzip.compress(_MRG.format("a").encode() * 1000)[:-20])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_no_trees, "has no train trees. Looked for a file called train.trees (or .mrg, "),
        (_two_files, "several files could be the dev trees: dev.mrg, dev.trees"),
        (_unbalanced, "train.trees, line 3: a tree starts here, but the one of line 2 is not closed"),
        (_binary, "train.trees, line 1: '\\x00\\x01"),
        (_empty, "dev.trees holds no trees"),
        (_wrong_encoding, "test.trees, line 2: byte 0xe9"),
        (_half_a_gzip, "test.trees.gz is not a whole gzip file"),
    ],
)
def test_broken_files_of_trees_are_reported_and_nothing_is_written(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    folder, data = tmp_path / "trees", tmp_path / "data"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        (folder / f"{split}.trees").write_text(_MRG.format(split))
    spoil(folder)
    with pytest.raises(DataError) as error:
        prepare(registry.problem("treebank", source_dir=str(folder), vocab_size=50), data, num_workers=1)
    assert message in str(error.value)
    assert list(data.glob("[!.]*")) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("treebank", {"source_dir": "nowhere"}, "nowhere is not a folder"),
        ("wsj_parsing", {"source_dir": "nowhere"}, "there is no folder 23 in it"),
        ("wsj_parsing_semi", {"source_dir": "{wsj}", "extra_dir": "nowhere"}, "there is no such folder"),
    ],
)
def test_folders_that_are_not_there(wsj: Path, name: str, options: dict[str, str], message: str) -> None:
    options = {key: value.format(wsj=wsj) for key, value in options.items()}
    with pytest.raises(DataError) as error:
        registry.problem(name, **options).splits()
    assert message in str(error.value)


def test_options() -> None:
    with pytest.raises(UsageError, match="wsj_parsing_semi' needs --extra_dir"):
        registry.problem("wsj_parsing_semi", source_dir="x")
    with pytest.raises(UsageError, match="has no option 'extra_dir'"):
        registry.problem("wsj_parsing", source_dir="x", extra_dir="y")
    with pytest.raises(UsageError, match="There is no wsj_parsing_rev: wsj_parsing gives trees"):
        registry.problem("wsj_parsing_rev", source_dir="x")


def test_each_symbol_is_one_piece_and_words_are_cut(tmp_path: Path) -> None:
    problem = registry.problem("toy_parsing", train_size=300)
    problem.dev_size, problem.test_size = 20, 10  # type: ignore[attr-defined]
    problem.vocab_size = 200
    store = prepare(problem, tmp_path, num_workers=1)
    source, target = store.source_vocabulary, store.target_vocabulary
    assert source.size == 200
    for sentence, tree in zip(*store.text("dev"), strict=True):
        words, symbols = sentence.split(" "), tree.split(" ")
        assert target.decode(target.encode(tree)) == tree
        assert len(target.encode(tree)) == len(symbols)
        assert len(source.encode(sentence)) > len(words)
        assert restore(symbols, words).words == words


def test_phrases_are_sentences_as_well(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        (tmp_path / f"{split}.trees").write_text("(S (NP (DT the) (NN cat)) (VP (VP (VBZ sleeps))) (. .))\n")
    problem = registry.problem("treebank", source_dir=str(tmp_path), phrases=True)
    sentence = ("the cat sleeps .", "(S (NP DT NN )NP (VP (VP VBZ )VP )VP . )S")
    assert list(problem.samples("train")) == [("the cat", "(NP DT NN )NP"), sentence]
    assert list(problem.samples("dev")) == [sentence]
    (tmp_path / "train.trees").write_text("(INTJ (UH Yes))\n")
    assert list(problem.samples("train")) == [("Yes", "(INTJ UH )INTJ")]


def test_words_are_exchanged_for_others_of_their_part_of_speech(tmp_path: Path) -> None:
    trees = [
        f"(S (NP (DT the) (NN {noun})) (VP (VBZ {verb})))\n" for noun, verb in (("cat", "sleeps"), ("dog", "barks"))
    ]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.trees").write_text("".join(trees))
    plain, problem = (registry.problem("treebank", source_dir=str(tmp_path), exchanges=n) for n in (None, 40))
    pairs = list(problem.samples("train"))
    assert pairs[:2] == list(plain.samples("train"))
    assert {words for words, _ in pairs} == {
        f"the {noun} {verb}" for noun in ("cat", "dog") for verb in ("sleeps", "barks")
    }
    assert {symbols for _, symbols in pairs} == {"(S (NP DT NN )NP (VP VBZ )VP )S"}
    assert len(pairs) == 82
    assert pairs == list(problem.samples("train"))
    assert list(problem.samples("dev")) == list(plain.samples("dev"))


def test_the_sample_of_the_penn_treebank_in_its_sections(shared_data: Callable[[str], Path], tmp_path: Path) -> None:
    """All trees of the sample are read, with their words, from folders like those of the LDC."""
    trees = shared_data("wsj") / "wsj_sample.dev.trees.gz"
    lines = list(read_lines(trees))
    for number in range(2, 24):
        (tmp_path / f"{number:02}").mkdir()
        (tmp_path / f"{number:02}" / "wsj.mrg").write_text("\n".join(lines[number::25]))
    problem = registry.problem("wsj_parsing", source_dir=str(tmp_path))
    expected = [normalize(next(read_trees([line], trees))) for number in range(2, 22) for line in lines[number::25]]
    assert [words for words, _ in problem.samples("train")] == [" ".join(tree.words) for tree in expected if tree]


def _trees_of(name: str, folder: Path) -> str:
    return str(TAG_SETS[name].write(folder))


def test_a_treebank_names_its_parameters_of_evalb(tmp_path: Path) -> None:
    folder = _trees_of("ctb", tmp_path / "ctb")
    prm = tmp_path / "ctb" / "evalb.prm"
    plain, problem = (registry.problem("treebank", source_dir=folder, prm=p) for p in (None, str(prm)))
    assert "prm" not in plain.options()  # so runs from before this option existed can continue
    assert (plain.evalb, "prm" in plain.settings()) == (None, False)
    assert problem.evalb.delete_label == ("TOP", "PU")
    prm.unlink()
    options = json.loads(json.dumps(problem.options()))  # as a run keeps them: the content, not the path
    again = registry.problem("treebank", **options)
    assert (again.evalb, again.options(), again.settings()) == (problem.evalb, problem.options(), problem.settings())
    store = prepare(problem, tmp_path / "data", num_workers=1)
    assert store.outputs.table.deleted == {"TOP", "PU"}
    with pytest.raises(UsageError, match="prepared with other settings:\n  prm: "):
        prepare(plain, tmp_path / "data", num_workers=1)


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = _trees_of("ctb", tmp_path / "ctb")
    problem = registry.problem("treebank", source_dir="~/ctb", prm="~/ctb/evalb.prm")
    assert (problem.source_dir, problem.evalb.delete_label) == (folder, ("TOP", "PU"))
    more = registry.problem("wsj_parsing_semi", source_dir="~", extra_dir="~/ctb")
    assert (more.source_dir, more.extra_dir) == (str(tmp_path), folder)


def test_prepared_data_hold_the_tags_of_their_words(tmp_path: Path) -> None:
    folder = _trees_of("ontonotes", tmp_path / "trees")
    problem = registry.problem("treebank", source_dir=folder, vocab_size=90)
    store = prepare(problem, tmp_path / "data", num_workers=1)
    store.verify()
    table = json.loads((store.folder / "tags.json").read_text(encoding="utf-8"))
    assert table["words"]["-"] == {":": 4, "HYPH": 12, "XX": 4}
    assert "cat" not in table["words"]
    damaged = (store.folder / "tags.json").read_text(encoding="utf-8").replace('"XX": 4', '"XX": 5')
    (store.folder / "tags.json").write_text(damaged, encoding="utf-8")
    with pytest.raises(DataError, match=r"tags\.json is damaged: its checksum"):
        _ = open_store(store.folder).outputs
    text = registry.problem("toy_reverse", train_size=20)
    assert prepare(text, tmp_path / "data", num_workers=1).outputs.files() == {}


def test_parameters_of_ones_own_choose_the_score_and_the_tags() -> None:
    """A problem's own parameters may come from its class, a base class or the constructor."""
    own = Parameters(delete_label=("TOP", "PU"))

    class ByClass(Treebank):
        evalb = own

    class ByConstructor(Treebank):
        def __init__(self, source_dir: str) -> None:
            super().__init__(source_dir)
            self.evalb = own

    class Derived(ByClass):
        pass

    class Usual(ByClass):
        evalb = None

    for made in (ByClass("x"), ByConstructor("x"), Derived("x")):
        assert made.evalb is own
        assert made.make_metric().parameters is own
        assert made.make_learner()._deleted == {"TOP", "PU"}
        assert made.settings()["prm"] == own.as_dict()
    for usual in (Treebank("x"), Usual("x")):
        assert usual.evalb is None
        assert usual.make_metric().parameters == Parameters()
        assert usual.make_learner()._deleted == TreeCodec().learner()._deleted
