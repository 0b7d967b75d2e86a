"""The parsers of unchecked input: each has valid inputs, and a call that uses everything it returns.

A call may end with one of the package's own errors, which say what is wrong. Any other exception is a fault. A result
that breaks the parser's promise is also a fault; here it raises an AssertionError.
"""

import functools
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow
import zstandard
from pyarrow import parquet

from t2t_lite import config, registry
from t2t_lite.client.endpoint import Target
from t2t_lite.client.response import hypotheses
from t2t_lite.client.rest import Rest
from t2t_lite.data import sgm, vocabulary_files
from t2t_lite.data.alignment_files import align_pairs
from t2t_lite.data.prepare import prepare
from t2t_lite.data.sources import decode_lines, read_lines
from t2t_lite.data.store import Store
from t2t_lite.data.tables import read_table
from t2t_lite.data.weight_files import weigh_pairs
from t2t_lite.export.export_folder import read_card
from t2t_lite.importers.marian_vocabulary import SPECIAL, MarianVocabulary
from t2t_lite.metrics import bracketing
from t2t_lite.metrics.evalb_parameters import read_parameters
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.runs.checkpoint_index import check_index
from t2t_lite.runs.checkpoint_reader import explain_unreadable
from t2t_lite.runs.default_weights import FILE as DEFAULT_WEIGHTS
from t2t_lite.runs.default_weights import read_default, write_default
from t2t_lite.runs.goodput import Goodput
from t2t_lite.runs.metrics_log import METRICS_FILE, flops_before, read_metrics
from t2t_lite.runs.ranking import evaluations_without_progress, past_scores
from t2t_lite.runs.run_dir import RunSpec, read_run, write_run
from t2t_lite.runs.run_log import RUN_FILE, read_request, read_starts
from t2t_lite.text.trees.codec import TreeText
from t2t_lite.text.trees.linearize import linearize, repair
from t2t_lite.text.trees.tag_table import TAG, parse_table
from t2t_lite.text.trees.tree import escape, normalize, parse, read_trees
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests.faults import hostile_index
from tests.subword_files import PIECES, file_of

TREES = [
    b"(S (NP-SBJ-1 (DT the) (NN cat)) (VP (VBZ sleeps) (NP (-NONE- *-1))) (. .))\n",
    b"( (S\n    (NP (NNP Ann) (POS 's))\n    (ADVP|PRT (RB up)))\n)\n% a comment\n"
    b"(TOP (X -LRB-))(FRAG (`` ``) ('' ''))\n",
    b"*x*x*x*\n((S (NP=2 (CD 1\\/2)) (VP (VB \xc3\xa4)))) (S (A a) (B b))\n",
]
SGML = [
    b'<refset setid="t" srclang="any" trglang="de">\n<doc sysid="ref" docid="1-bbc">\n<p>\n'
    b'<seg id="1">Ein Satz.</seg>\n<seg id="2"> R&amp;D &quot;A&quot; &#228; </seg>\n</p>\n</doc>\n'
    b"<DOC docid='2'><Seg ID=1>Zwei\nZeilen</Seg></DOC>\n</refset>\n",
    b'<?xml version="1.0"?><!DOCTYPE mteval SYSTEM "">\n<srcset><doc docid="d"><seg id=1>a &lt; b</seg></doc></srcset>',
]
LINES = [
    "The cat, 1,000 cats.\nDie Katze schläft nicht.\n".encode(),
    "世界 🌍 a\u0301\nשלום \u202eabc\u202c\n\n\ufeffx\u2028y\u0085z\r\n".encode(),
    b"a\n" * 50,
]
PAIRS = [("a b", "c d e"), ("x", "y"), ("one two three", "eins zwei drei")]
TABLES = {
    "tsv": [b'en\tid\tde\nA cat.\t1\tEine "Katze".\n\nb\t\tc\r\n'],
    "csv": [b'en,de\n"A, ""cat"".","Eine\nKatze"\nb,\xc3\xa4\n', b"a,b\n"],
    "jsonl": [
        b'{"translation": {"en": "a\\u00e4", "de": "b"}}\n',
        b'{"en": "", "de": "\\ud83d\\ude00", "n": [1.5, null]}\n',
    ],
}
OVERRIDES = [
    b"d_model=1024,num_heads=16,norm=pre",
    b"packing=true, dropout=0.1,seed=7,jit=off,",
    b"learning_rate_factor=1e-3,train_steps=1e5,label_smoothing_over=others,precision=bfloat16,d_k=64,d_v=64",
]
PRM = [
    b"# COLLINS\nDEBUG 0\nMAX_ERROR 10\nCUTOFF_LEN 40\nLABELED 1\nDELETE_LABEL TOP\nDELETE_LABEL ``\n"
    b"DELETE_LABEL_FOR_LENGTH -NONE-\nQUOTE_LABEL ''\nEQ_LABEL ADVP PRT\nEQ_WORD a the\n"
]
TAGS = [
    b'{"version": 2, "deleted": [",", "PU"], "words": {"-": {"HYPH": 19, ",": 5}, "\xe3\x80\x82": {"PU": 2}}, '
    b'"model": {"first": ["DT"], "words": {"-": {"HYPH": 19}, "cat": {"NN": 3, "VB": 1}}, "endings": {"at": {"NN": 3}}}'
    b"}",
]
ALIGNMENTS = [b"0-0 1-2\t1-1\n\n0-0\n", b"1-0\n0-0  0-0\n2-2 0-1\n"]
WEIGHTS = [b"0.5\n1\n1e-3\n", b"0\n1000000\n.25\n"]
METRICS = [
    b'{"step": 10, "loss": 2.5, "flops": 1200, "trained_seconds": 1.5}\n',
    b'\n{"step": 10, "dev_loss": 2.0, "dev_bleu": 1.0}\n{"step": 15, "other_scores": 1}\n'
    b'{"step": 20, "loss": NaN, "trained_seconds": 3, "skipped_batches": 1}\n',
]
STARTS = [
    b'{"format": 1, "starts": [{"request": {"output_dir": "a"}, "version": "1", "computed": {"devices": 1}, '
    b'"first_step": 1, "start": "2026-11-23T09:41:18Z", "end": "2026-11-23T10:00:00Z", "status": "done"}, '
    b'{"request": {}, "first_step": 9, "start": "2026-11-24T09:41:18Z", "end": null, "status": "killed"}]}'
]
SYMBOLS = [
    b"the cat ( sleeps ) .\n(S (NP DT NN )NP (VP XX XX )VP . )S XX",
    b"a b c\n(S (S (S XX )S XX )X )S (NP )NP XX XX ) (",
]
ANSWERS = [
    b'{"outputs": {"outputs": [["ein", "b"], ["c", "d"]], "scores": [[-0.5, -1.0], [-1, -2e-3]]}}',
    b'{"outputs": ["ein", "zwei"]}',
    b'{"outputs": {"outputs": ["a", ""], "scores": [0.5, NaN]}}',
]
STATES = [b'{"model_version_status": [{"version": "3", "state": "AVAILABLE", "status": {"error_message": ""}}]}']
REFUSALS = [b'{"error": "Servable not found for request: Latest(x)"}', b"<html><h1>502 Bad Gateway</h1></html>"]


class Parser(NamedTuple):
    """`share`: its share of all cases, by the cost of one case. `size`: inputs are cut or padded to this length."""

    name: str
    share: int
    seeds: list[bytes]
    call: Callable[[bytes], object]
    size: int | None = None


def make_parsers(folder: Path) -> list[Parser]:
    """All parsers; those that read files read them in `folder`, which is empty."""
    gzipped = [gzip.compress(text, mtime=0) for text in LINES]
    packed = [zstandard.ZstdCompressor().compress(text) for text in LINES]
    vocabulary = train_vocabulary([line.decode() for line in LINES], size=100)
    symbols = train_vocabulary(["(S (NP DT NN )NP (VP XX )VP . )S"], size=100, kind="word")
    return [
        Parser("hparams", 120, OVERRIDES, _override),
        Parser("trees", 130, TREES, _trees),
        Parser("tree lines of EVALB", 60, TREES, _evalb),
        Parser("parameters of EVALB", 130, PRM, _parameters),
        Parser("symbols", 90, SYMBOLS, functools.partial(_symbols, TreeText(symbols))),
        Parser("sgm", 130, SGML, _sgm),
        Parser("lines", 130, LINES, _lines),
        Parser("lines, gzipped", 30, gzipped, _file(folder / "a.gz", read_lines)),
        Parser("lines, .zst", 30, packed, _file(folder / "a.zst", read_lines)),
        *(Parser(name, 40, seeds, _file(folder / f"a.{name}", _table)) for name, seeds in TABLES.items()),
        Parser("parquet", 20, _parquet(), _file(folder / "a.parquet", _table)),
        Parser("alignments", 60, ALIGNMENTS, _file(folder / "a.align", functools.partial(align_pairs, PAIRS))),
        Parser("weights", 60, WEIGHTS, _file(folder / "a.weights", functools.partial(weigh_pairs, PAIRS))),
        Parser("vocabulary, text", 40, LINES, functools.partial(_vocabulary, vocabulary)),
        Parser("vocabulary, file", 10, [vocabulary.data], _file(folder / "a.model", _load_vocabulary)),
        *(
            Parser(f"vocabulary, {kind}", 10, [seed], _file(folder / f"a.{kind}", _load_imported))
            for kind, seed in _imported(vocabulary.data).items()
        ),
        Parser("answers", 60, ANSWERS, _predict),
        Parser("answers, states", 25, STATES, lambda data: _rest(200, data).states(1)),
        Parser("answers, refusals", 25, REFUSALS, lambda data: _rest(500, data).states(1)),
        Parser("tags of words", 40, TAGS, _tags),
        Parser("checkpoint, index", 60, [hostile_index.block(sorted(hostile_index.GOOD.items()))], _index(folder)),
        *_run_parsers(folder),
        *_store_parsers(folder),
    ]


def _text(data: bytes) -> str:
    # On the command line, a byte that is not UTF-8 becomes half a surrogate pair.
    return data.decode("utf-8", "surrogateescape")


def _table(path: Path) -> None:
    for pair in read_table(path, ("en", "de")):
        for text in pair:
            text.encode()


def _parquet() -> list[bytes]:
    """Three pairs in two columns, and in one of structures."""
    rows = {"en": ["a", "A cat.", "\u4e16"], "de": ["b", "Eine Katze.", ""]}
    pairs = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    found = []
    for table in (pyarrow.table(rows), pyarrow.table({"translation": pairs})):
        parquet.write_table(table, file := io.BytesIO())
        found.append(file.getvalue())
    return found


def _index(folder: Path) -> Callable[[bytes], None]:
    """A call that reads entries of a checkpoint's index, whose checksums are right."""

    def call(data: bytes) -> None:
        path = hostile_index.write(folder / "model-1", hostile_index.table(data))
        with explain_unreadable(path):
            check_index(path)

    return call


def _starts(run: Path) -> None:
    str(Goodput(read_starts(run), [], 11))
    json.dumps(read_request(run))


def _metrics(path: Path) -> None:
    read_metrics(path.parent)
    for first_step in (1, 16, 10**6):
        str(Goodput([], read_metrics(path.parent), first_step))
        flops_before(path.parent, first_step, lambda steps, after: 10 * (steps - after))
    evaluations_without_progress(past_scores(path.parent), 0)


def _override(data: bytes) -> None:
    hparams = config.override(TransformerHParams(), _text(data))
    assert config.from_dict(TransformerHParams, config.to_dict(hparams)) == hparams


def _trees(data: bytes) -> None:
    for tree in read_trees(_text(data).split("\n"), "a.mrg"):
        assert parse(str(tree)) == parse(tree.pretty()) == tree
        assert len(tree.spans()) == tree.nodes.count(None)
        normal = normalize(tree)
        if normal is not None:
            again, faults = repair(linearize(normal), normal.words)
            assert again.words == [escape(word) for word in normal.words]
            assert faults or again == normal


def _evalb(data: bytes) -> None:
    gold = [line.decode().replace("\n", " ") for line in TREES]
    test = _text(data).replace("\n", " ")
    found = bracketing.evaluate([*gold, test, test], [test, test, test, gold[0], test])
    found.columns()
    found.check_errors()
    found.score()


def _parameters(data: bytes) -> None:
    parameters = read_parameters(_text(data).split("\n"), "a.prm")
    bracketing.evaluate(["(S (A a))"], ["(S (A a))"], parameters).columns()


def _tags(data: bytes) -> None:
    table = parse_table(_text(data), "tags.json")
    assert parse_table(table.to_json(), "tags.json") == table
    assert {table.tag(tag, word) for tag in (",", TAG) for word in ("-", "a", "\u3002")}
    tree, _ = repair(["(S", "NN", ")S"], ["the", "cat"], table=table)
    assert tree.words == ["the", "cat"]


def _symbols(trees: TreeText, data: bytes) -> None:
    line, _, output = _text(data).partition("\n")
    text, _ = trees.output(line, output)
    assert not text or str(parse(text)) == text
    tree, _ = repair(output.split(" "), line.split(" "))
    assert parse(str(tree)) == tree
    assert tree.words == [escape(word) for word in line.split(" ")]


def _sgm(data: bytes) -> None:
    lines = _text(data).split("\n")
    sgm.is_sgm(lines)
    segments = sgm.parse(lines, "a.sgm")
    assert not any("\n" in text for text in segments.values())
    sgm.in_order(segments, dict(reversed(segments.items())), "a.sgm", "b.sgm")
    sgm.in_order(segments, sgm.parse(SGML[0].decode().split("\n"), "b.sgm"), "a.sgm", "b.sgm")


def _lines(data: bytes) -> None:
    lines = list(decode_lines(io.BytesIO(data), "a.txt"))
    assert len(lines) == data.count(b"\n") + (data[-1:] not in (b"", b"\n"))


def _vocabulary(vocabulary: Vocabulary, data: bytes) -> None:
    lines = data.decode("utf-8", "replace").split("\n")
    for line, ids in zip(lines, vocabulary.encode_many(lines), strict=True):
        assert ids == vocabulary.encode(line)
        text = vocabulary.decode(ids)
        assert vocabulary.decode(vocabulary.encode(text)) is not None
        assert len(vocabulary.pieces(ids)) == len(ids)
        text.encode("utf-8")


def _imported(sentencepiece: bytes) -> dict[str, bytes]:
    """Small vocabularies of the kinds that imports bring, by the endings of their files."""
    marian = MarianVocabulary.make([*SPECIAL, "\u2581the", "\u2581cat", "s"], sentencepiece, [("a+", "a")], ["s"])
    return {
        "subwords": file_of(PIECES),
        "tokens": b"<pad>\n<EOS>\nthe\ncat\nUNK\n",
        "opennmt": "<blank>\n<s>\n</s>\n\u2581the\ncat\n".encode(),
        "marian": marian.data,
    }


def _load_imported(path: Path) -> None:
    vocabulary = vocabulary_files.load(path)
    for text in ("the cats", "s the\u4e16 .", ""):
        vocabulary.decode(vocabulary.encode(text))
    vocabulary.pieces(range(vocabulary.size))


def _load_vocabulary(path: Path) -> None:
    vocabulary = Vocabulary.load(path)
    vocabulary.words()
    vocabulary.decode(vocabulary.encode("The cat"))


def _file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], None]:
    """A call that writes a file and reads it to its end."""

    def call(data: bytes) -> None:
        path.write_bytes(data)
        list(read(path) or ())  # type: ignore[call-overload]

    return call


class _Canned(Rest):
    """A client with a given answer in place of a server."""

    def __init__(self, status: int, data: bytes) -> None:
        super().__init__(_TARGET)
        self._answer = (status, "elsewhere", data)

    def _exchange(self, *request: object) -> tuple[int, str, bytes]:
        return self._answer


_TARGET = Target.parse("localhost:8501", "m")
_rest = _Canned


def _predict(data: bytes) -> None:
    outputs = _rest(200, data).predict("serving_default", ["a", "b"], 1)
    found = hypotheses(outputs, 2, 1, _TARGET)
    assert [len(row) for row in found] == [1, 1]
    json.dumps([h.text for row in found for h in row], ensure_ascii=False).encode("utf-8")


def _run_parsers(folder: Path) -> list[Parser]:
    run = folder / "run"
    spec = RunSpec("toy_ende", {"train_size": 50}, "data", None, "tiny", "transformer", registry.hparams("tiny"))
    write_run(run, spec)
    (run / "assets").mkdir()
    write_default(run, "best", "a/model-7", "b/model-5", {"best": {"dev_loss": 1.0}})
    choice = run / DEFAULT_WEIGHTS
    card = run / "assets" / "model_card.json"
    card.write_text('{"format": 1, "problem": {"name": "a"}, "decoding": {"beam_size": 4}, "signatures": {"a": {}}}')

    def read(path: Path) -> None:
        read_run(run).data_folder(run)

    def choose(path: Path) -> None:
        read_default(run, "a/model-7", "b/model-5")

    log = run / METRICS_FILE
    log.write_bytes(METRICS[0])
    starts = run / RUN_FILE
    starts.write_bytes(STARTS[0])
    return [
        Parser("run, metrics.jsonl", 60, METRICS, _restored(log, _metrics)),
        Parser("run, run.json", 60, STARTS, _restored(starts, lambda path: _starts(path.parent))),
        *(
            Parser(f"run, {name}", 5, [(run / name).read_bytes()], _restored(run / name, read))
            for name in ("problem.json", "hparams.json")
        ),
        Parser("run, default weights", 3, [choice.read_bytes()], _restored(choice, choose)),
        Parser("export, card", 6, [card.read_bytes()], _restored(card, lambda path: read_card(run))),
    ]


def _store_parsers(folder: Path) -> list[Parser]:
    problem = registry.problem("toy_reverse", train_size=20)
    problem.dev_size = problem.test_size = 3
    store = prepare(problem, folder / "data", num_workers=1)

    def parser(name: str, share: int, sized: bool) -> Parser:
        path = store.folder / name
        data = path.read_bytes()
        call = _restored(path, lambda path: _read_store(prepare(problem, folder / "data")))
        return Parser(f"store, {name}", share, [data], call, len(data) if sized else None)

    # A file of another size is refused before it is read, except the manifest.
    names = ("dev.source.ids", "dev.source.offsets", "dev.target.txt", "vocabulary.model")
    return [parser("manifest.json", 10, sized=False), *(parser(name, 2, sized=True) for name in names)]


def _read_store(store: Store) -> None:
    for name in store.splits():
        split = store.split(name)
        for side in (split.source, split.target):
            assert side.lengths.min() >= 0
            assert sum(len(side[i]) for i in range(len(side))) == len(side.data)
        if store.manifest["splits"][name]["text"]:
            sources, targets = store.text(name)
            assert len(sources) == len(targets) == len(split)
    assert min(store.source_vocabulary.size, store.target_vocabulary.size) > 3


def _restored(path: Path, read: Callable[[Path], None]) -> Callable[[bytes], None]:
    """A call that overwrites a good file, reads, and puts the good file back."""
    good = path.read_bytes()

    def call(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read(path)
        finally:
            path.write_bytes(good)

    return call
