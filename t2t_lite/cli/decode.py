"""DecodeRequest: what is translated, by which model, and in which form it is written; `decode` does it."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from t2t_lite import config, registry
from t2t_lite.cli import line_source, output
from t2t_lite.cli.output import Form
from t2t_lite.cli.partial_output import PartialOutput, Stream
from t2t_lite.data.input_texts import read_texts
from t2t_lite.data.vocabulary_files import load_pair
from t2t_lite.decoding.prefixes import prefix_pieces
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import DataError, UsageError
from t2t_lite.export.export_folder import find_version, read_card
from t2t_lite.groups import OF_OUTPUTS
from t2t_lite.metrics.names import METRICS, canonical
from t2t_lite.ops import threads
from t2t_lite.option_values import sampler_options
from t2t_lite.progress import Progress
from t2t_lite.remote.mirror import name_urls
from t2t_lite.runs.open_request import OpenRequest
from t2t_lite.text.labels import find_label
from t2t_lite.verbosity import say

if TYPE_CHECKING:
    from t2t_lite.cli.synthesize import Pairs
    from t2t_lite.decoding.line_translator import Hypothesis, LineTranslator
    from t2t_lite.decoding.sampling import Sampling


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeRequest:
    """Lines to translate, as asked for.

    Attributes:
        runs: a run, or several as an ensemble, with weights, precision and search; None: `saved_model` translates.
        saved_model: the folder of an export.
        batch_tokens: decode_batch_tokens instead of the export's.
        input: a file, or None for standard input. `split`, "dev" or "test", is translated instead.
        shard: (i, n): the i-th of n equal parts of `input`.
        output: a file, or None for standard output.
        resume: continue what a stopped command has left of `output`.
        split_sentences: translate each sentence of a line by itself.
        target_language: the code of a language, whose label is put before each line; None: lines are taken as they are.
        nbest, json, pretty: the form of the output; nbest=None is the best one alone, without its score.
        alignments: "hard" or "soft": the form of the alignment that is written with each output; None: there is none.
        word_scores: write the log-probabilities of each output's pieces and words.
        quality: write how sure the model is of each output.
        dropout_passes: how many passes with dropout that is of, too; None: none.
        prefix: a file with what the outputs of each line begin with; None: they begin with anything.
        constraints: a file with the phrases that the outputs of each line must have, tabs between them; None: none.
        banned_words: what no output writes.
        replace_unk: write words of the source for unknown pieces.
        shortlist: choose among the pieces of the run's shortlist for a line.
        sampler, sampler_options, seed: how outputs are drawn; None: beam search.
        mbr_utility: the metric by which the outputs of least risk are chosen; None: they are as they are found.
        mbr_samples: of how many samples they are chosen; None: of the beam's outputs.
        pairs: the form of the output, instead of those above: pairs of lines and outputs.
    """

    runs: OpenRequest | None = None
    saved_model: str | None = None
    batch_tokens: int | None = None
    input: str | None = None
    split: str | None = None
    shard: tuple[int, int] = (1, 1)
    output: str | None = None
    resume: bool = False
    split_sentences: bool = False
    target_language: str | None = None
    nbest: int | None = None
    json: bool = False
    pretty: bool = False
    alignments: str | None = None
    word_scores: bool = False
    quality: bool = False
    dropout_passes: int | None = None
    prefix: str | None = None
    constraints: str | None = None
    banned_words: tuple[str, ...] = ()
    replace_unk: bool = False
    shortlist: bool = False
    sampler: str | None = None
    sampler_options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    seed: int = 1
    mbr_utility: str | None = None
    mbr_samples: int | None = None
    pairs: Pairs | None = None

    @property
    def can_resume(self) -> bool:
        """Whether a stopped command leaves an output that `resume` continues."""
        return line_source.is_file(self.output) and (self.split is not None or line_source.is_file(self.input))

    @property
    def form(self) -> Form | Pairs:
        """How outputs are written, unless as `pretty` trees."""
        return self.pairs or Form(self.json, scores=self.nbest is not None, alignments=self.alignments)

    @property
    def given_files(self) -> dict[str, str]:
        """The files with a line for each input line, by the names of their flags."""
        return {name: path for name in ("prefix", "constraints") if (path := getattr(self, name)) is not None}

    def check(self) -> None:
        """Raises T2TError, before TensorFlow is loaded, if there is no such model, language, sampler or place."""
        if self.runs is not None:
            specs = self.runs.check()
            if self.nbest and self.sampler is None:
                self.check_nbest(config.replace(specs[0].hparams, **self.runs.search).beam_size)
        else:
            read_card(find_version(str(self.saved_model)))
        if self.target_language is not None:
            source, _ = load_pair(self._vocabulary_folder)
            find_label(self.target_language, source.labels)
        if self.sampler is not None:
            registry.SAMPLERS.check(self.sampler)
        if self.mbr_utility is not None:
            METRICS.check(canonical(self.mbr_utility))
        for name, path in self.given_files.items():
            if not line_source.is_file(path):
                raise UsageError(f"--{name}={path} is no file; what comes in a pipe cannot be read again.")
        if self.prefix is not None:
            self._check_prefixes(self.prefix)
        if self.output is not None:
            text = output.STANDARD_INPUT if self.input is None else self.input
            output.check_output("output", self.output, None if self.split else text)

    def check_nbest(self, beam_size: int) -> None:
        """Raises UsageError if a beam has fewer outputs than are to be written."""
        if (self.nbest or 1) > beam_size:
            raise UsageError(
                f"--nbest={self.nbest} must be at most the beam size, {beam_size}; it is --beam_size of "
                f"{'this command' if self.runs else 't2t-lite-exporter'}."
            )

    @property
    def _vocabulary_folder(self) -> str | Path:
        """Where the vocabularies are."""
        return self.runs.folders[0] if self.runs else find_version(str(self.saved_model)) / "assets"

    def _check_prefixes(self, path: str) -> None:
        """Raises UsageError, with the line's number, if the model cannot write a prefix: not after hours of others."""
        _, target = load_pair(self._vocabulary_folder)
        for number, prefix in enumerate(read_texts(path), 1):
            try:
                prefix_pieces(prefix, target, sys.maxsize)  # how long it may be depends on the source
            except UsageError as error:
                raise UsageError(f"{path}, line {number:,}: {error}") from None


class Model(NamedTuple):
    """What translates a request.

    Attributes:
        settings: what its outputs depend on.
        split_lines: the lines of the split that is translated.
        weights: of runs.
    """

    translator: LineTranslator
    settings: dict[str, Any]
    split_lines: list[str]
    weights: list[dict[str, Any]]


class _Collected:
    """Output that is kept in memory."""

    done = 0

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, lines: Sequence[str], data: bytes) -> None:
        self.written.append(data)

    def finish(self) -> None:
        """Does nothing."""


def decode(request: DecodeRequest, interrupt: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Translates and writes the lines of a request.

    Args:
        interrupt: called after each batch; raises what should end the command.

    Returns:
        what the outputs were made by: "weights", of runs, and all "settings"; JSON-ready.

    Raises:
        T2TError: as `DecodeRequest.check`, or the model cannot be opened, or the output not be written.
    """
    request.check()
    first, end, live, at_hand = 0, 0, None, sys.maxsize  # lines
    if request.input is not None and line_source.is_file(request.input):
        number = line_source.count_lines(request.input)
        first, end = line_source.shard_range(number, request.shard)
        at_hand = end - first
        _check_given(request, number)
    elif not request.split:
        live = line_source.LiveLines(line_source.lines_of(request.input))
        at_hand = live.count_waiting()
    translator, settings, split_lines, weights = open_model(request, at_hand)
    made_by = {"weights": weights, "settings": _all_settings(request, settings)}
    if request.split:
        _check_given(request, len(split_lines))
    with _open_output(request, settings) as out:
        files = request.given_files.items()
        given = {name: itertools.islice(read_texts(path), first + out.done, None) for name, path in files}
        if live is not None:
            if request.input is None and sys.stdin.isatty():
                say("Type lines to translate; end with Ctrl-D.", error=True)
            _translate(request, translator, live.blocks(), out, None, interrupt, given)
            for name, texts in given.items():
                if next(texts, None) is not None:
                    path = request.given_files[name]
                    raise DataError(f"{path} has more lines than the input; line N is for line N.")
            return made_by
        lines = iter(split_lines) if request.split else line_source.lines_of(request.input)
        end = len(split_lines) if request.split else end
        lines = itertools.islice(lines, first, end)
        if isinstance(out, PartialOutput):
            out.skip_done(lines)
        _translate(request, translator, line_source.file_blocks(lines), out, end - first, interrupt, given)
    return made_by


def open_model(request: DecodeRequest, at_hand: int = sys.maxsize) -> Model:
    """Returns what translates a request; `at_hand` is the number of lines that are known to be there."""
    load_tensorflow()
    from t2t_lite.decoding.score import with_scores
    from t2t_lite.decoding.sentence_translator import SentenceTranslator

    threads.set_inter_op_parallelism_for(at_hand)
    model = _open(request, _sampling(request))
    translator = model.translator.with_language(request.target_language)
    if request.split_sentences:
        translator = SentenceTranslator(translator)
    if request.alignments is not None:
        translator.start_aligning()
    request.check_nbest(translator.decode.beam_size)
    if request.word_scores or request.quality:
        translator = with_scores(translator, quality=request.quality)
    return model._replace(translator=translator)


def translate_lines(request: DecodeRequest, translator: LineTranslator, lines: Sequence[str]) -> bytes:
    """Returns what is written for some lines."""
    out = _Collected()
    _translate(request, translator, line_source.file_blocks(lines), out, None, lambda: None, {})
    return b"".join(out.written)


def _check_given(request: DecodeRequest, number: int) -> None:
    """Raises DataError unless each file that is given has a line for each of `number` lines."""
    for path in request.given_files.values():
        if (found := line_source.count_lines(path)) != number:
            raise DataError(f"{path} has {found:,} lines, and the input {number:,}; line N is for line N.")


def _sampling(request: DecodeRequest) -> Sampling | None:
    """Returns the sampler; it is made before the run is opened, which takes long."""
    from t2t_lite.decoding.sampling import Sampling
    from t2t_lite.samplers.base import make_sampler

    if request.sampler is None:
        return None
    options = sampler_options(request.sampler, request.sampler_options)
    return Sampling(make_sampler(request.sampler, options), request.seed)


def _open(request: DecodeRequest, sampling: Sampling | None) -> Model:
    if request.runs is None:
        from t2t_lite.export.exported import ExportedTranslator

        exported = ExportedTranslator(str(request.saved_model), request.batch_tokens)
        search = {name: getattr(exported.decode, name) for name in OF_OUTPUTS}
        search["precision"] = exported.card["hparams"]["precision"]
        return Model(
            exported, {"model": _checksum(exported.folder / "variables" / "variables.index"), **search}, [], []
        )
    from t2t_lite.decoding.graph_store import keep_search
    from t2t_lite.runs.open_run import read_shortlist
    from t2t_lite.runs.scores_file import describe_weights

    runs = request.runs
    if sampling is not None:
        number = request.mbr_samples or request.nbest or 1
        runs = dataclasses.replace(runs, search={**runs.search, "beam_size": number, "beam_groups": 1})
    run = runs.open_to_decode()
    run.translator.sampling = sampling
    if request.mbr_utility is not None:
        from t2t_lite.decoding.mbr import MinimumBayesRisk

        run.translator.mbr = MinimumBayesRisk(request.mbr_utility, run.spec.make_problem())
    if request.banned_words:
        run.translator.ban(request.banned_words)
    if request.replace_unk:
        run.translator.start_replacing()
    if request.shortlist:
        run.translator.shorten(read_shortlist(run))
    if not request.given_files:
        keep_search(run.translator)
    lines = run.store().text(request.split)[0] if request.split else []
    model = ",".join(_checksum(Path(f"{member.checkpoint}.index")) for member in run.members)
    precision = runs.precision or ",".join(member.model.compute_dtype for member in run.members)
    weights = [
        {"run": name_urls(str(member.output_dir)), **describe_weights(member.checkpoint)} for member in run.members
    ]
    return Model(run.translator, {"model": model, **run.translator.settings, "precision": precision}, lines, weights)


def _checksum(file: Path) -> str:
    """Returns that of a file; a checkpoint's index holds the checksums of its weights."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _open_output(request: DecodeRequest, settings: Mapping[str, Any]) -> PartialOutput | Stream:
    if not line_source.is_file(request.output):  # standard output, or a device such as /dev/null
        return Stream(request.output)
    path = str(request.output)
    left = PartialOutput.count_done(path)
    if request.resume and left is None:
        say(f"There is no {path}.partial: translating from the first line.", error=True)
    elif request.resume:
        say(f"Resuming after {left:,} lines.", error=True)
    elif left:
        advice = " (--resume would continue)" if request.can_resume else ""
        print(f"{path}.partial, which holds {left:,} translated lines, is begun again{advice}.", file=sys.stderr)
    return PartialOutput(path, _all_settings(request, settings), resume=request.resume)


def _all_settings(request: DecodeRequest, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Adds what the output of a request depends on besides `settings` of `_open`, JSON-ready."""
    form = "split_sentences nbest json pretty alignments"
    names = ["split", "shard", *form.split(), "sampler", "sampler_options", "seed"]
    if request.target_language is not None:
        settings = {**settings, "target_language": request.target_language}
    settings = {**settings, **{name: _checksum(Path(path)) for name, path in request.given_files.items()}}
    if request.banned_words:
        settings["banned_words"] = request.banned_words
    settings |= {n: True for n in ("word_scores", "quality", "replace_unk") if getattr(request, n)}
    if request.dropout_passes is not None:
        settings["dropout_passes"] = request.dropout_passes
    if request.mbr_utility is not None:
        settings = {**settings, "mbr_utility": request.mbr_utility, "mbr_samples": request.mbr_samples}
    if request.pairs is not None:
        settings = {**settings, "pairs": request.pairs._asdict()}
    return {**settings, **{n: getattr(request, n) for n in names}}


def _translate(
    request: DecodeRequest,
    translator: LineTranslator,
    blocks: Iterable[Sequence[str]],
    out: PartialOutput | Stream | _Collected,
    total: int | None,
    interrupt: Callable[[], None],
    given: Mapping[str, Iterator[str]],
) -> None:
    """Writes the translations of each block when they are done; if stopped, prints how many lines are done."""
    from t2t_lite.decoding.score import score_outputs

    show = Progress(total - out.done, " lines") if total else None
    joined = 0

    def on_batch(number: int, weight: float) -> None:
        interrupt()
        if show is not None:
            show(number, weight)

    try:
        how: dict[str, Any] = {"nbest": request.nbest or 1, "progress": on_batch, "prefixes": given.get("prefix")}
        if "constraints" in given:
            how["constraints"] = map(_split_phrases, given["constraints"])
        for lines, results in translator.translate_blocks(blocks, **how):
            if request.word_scores or request.quality:
                added = {"words": request.word_scores, "quality": request.quality}
                passes = request.dropout_passes or 0
                results = score_outputs(translator, lines, results, **added, dropout_passes=passes)
            out.write(lines, _rows(request, lines, results))
            joined += sum(map(request.form.joins, results))
    except BaseException:
        if isinstance(out, PartialOutput):
            whole = f" of {total:,}" if total is not None else ""
            advice = " The same command with --resume continues." if request.can_resume else ""
            print(f"{out.done:,}{whole} lines are translated, in {out.partial}.{advice}", file=sys.stderr)
        raise
    out.finish()
    output.warn_of_joined(joined)


def _split_phrases(line: str) -> list[str]:
    """Returns the phrases of a line of --constraints."""
    return [phrase for phrase in line.split("\t") if phrase.strip()]


def _rows(request: DecodeRequest, lines: Sequence[str], results: Sequence[Sequence[Hypothesis]]) -> bytes:
    """Returns what is written for a block."""
    if request.pretty:
        rows = [_format_tree(hypotheses[0].text) for hypotheses in results]
    else:
        rows = [request.form.format(line, hypotheses) for line, hypotheses in zip(lines, results, strict=True)]
    return "".join(rows).encode("utf-8")


def _format_tree(text: str) -> str:
    from t2t_lite.text.trees.tree import parse

    try:
        return f"{parse(text).pretty() if text else ''}\n\n"
    except DataError:
        raise UsageError(f"--pretty is for trees; this model writes text, such as {text[:80]!r}.") from None
