"""`t2t_lite.load`: opens a trained run or an export, as the commands do."""

from __future__ import annotations

import abc
import contextlib
import copy
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from t2t_lite import config
from t2t_lite.api.arguments import plain_number, read_lines, read_phrases, read_texts, two_sides
from t2t_lite.api.search_options import make_sampling, take_mbr
from t2t_lite.errors import DataError, UsageError, check_tensorflow_path, did_you_mean
from t2t_lite.groups import DECODE, IN_SEARCH, MOST_HYPOTHESES, OF_BEAM_SEARCH

if TYPE_CHECKING:
    from t2t_lite.decoding.line_translator import Hypothesis, LineTranslator
    from t2t_lite.decoding.score import PairScore
    from t2t_lite.decoding.translate import Translator
    from t2t_lite.export.exported import ExportedTranslator
    from t2t_lite.insights.sentence import Sentence
    from t2t_lite.runs.open_run import OpenEnsemble, OpenRun
    from t2t_lite.text.any_vocabulary import AnyVocabulary

_SIDES = ("source", "target")
_MOST_MADE = 8  # searches with settings of their own that a run keeps


class Loaded(abc.ABC):
    """Result of `load`: a run or an export that translates; threads may share it."""

    def __init__(self) -> None:
        self._sampling = threading.Lock()  # a graph reads its seed from a variable, which the next call changes

    @abc.abstractmethod
    def _translator(self, search: Mapping[str, Any], n: int, alignments: bool) -> LineTranslator:
        """Returns a translator with these settings of the search instead of the model's own, for `n` outputs."""

    def translate(
        self,
        lines: Iterable[str],
        *,
        target_language: str | None = None,
        split_sentences: bool = False,
        prefixes: Iterable[str] | None = None,
        **search: Any,
    ) -> list[str]:
        """Returns the best translation of each line.

        Args:
            lines: N lines, such as an open file's. N translations are returned in the same order, empty for an empty
                line.
            target_language: of a model with several, such as "de": begin each line with its label, here >>de<<.
            split_sentences: translate each sentence of a line by itself, and join the outputs; for paragraphs.
            prefixes: for each line the text that its output begins with; "": anything.
            search: beam_size, length_penalty (alpha), extra_length or another hparam of the group "decode". With
                sampler="random", "top_k", "nucleus" or one of your own, outputs are drawn instead. Another seed=N
                draws other outputs; temperature, top_k and top_p are the samplers' options. With decode="mbr", outputs
                are chosen by minimum Bayes risk: among the beam's, or among mbr_samples=N samples (sampler="random"
                unless given), by mbr_utility="chrf" or another metric. constraints has for each line a list of phrases
                that its output must have; banned_words is a list of what no output writes; with replace_unk=True, words
                of the source stand for unknown pieces; with shortlist=True, outputs have pieces of the run's shortlist.

        Raises:
            UsageError: `lines` is one string, a setting is invalid, or the model has no such target language.
            DataError: a line does not begin with a label, which this model needs.
        """
        how: dict[str, Any] = {"target_language": target_language, "split_sentences": split_sentences, **search}
        return [best.text for (best, *_) in self.nbest(lines, 1, prefixes=prefixes, **how)]

    @overload
    def generate(self, inputs: str, max_length: int | None = None, **search: Any) -> str: ...

    @overload
    def generate(self, inputs: Iterable[str], max_length: int | None = None, **search: Any) -> list[str]: ...

    def generate(self, inputs: str | Iterable[str], max_length: int | None = None, **search: Any) -> str | list[str]:
        """`translate` as KerasHub's models have it: one text gives one output, several give a list.

        Args:
            max_length: the most pieces of an output, its end symbol counted; None: as the run says.
            search: as for `translate`.

        Raises:
            UsageError: as `translate`, or `max_length` is no positive integer.
        """
        if max_length is not None:
            limit = plain_number(max_length)
            if not isinstance(limit, int) or limit < 1:
                raise UsageError(f"max_length={max_length!r} is not a positive integer.")
            search |= {"max_length_factor": 0, "extra_length": limit}
        if isinstance(inputs, str):
            return self.translate([inputs], **search)[0]
        return self.translate(inputs, **search)

    def nbest(
        self,
        lines: Iterable[str],
        n: int,
        *,
        target_language: str | None = None,
        split_sentences: bool = False,
        alignments: bool = False,
        prefixes: Iterable[str] | None = None,
        constraints: Iterable[Iterable[str]] | None = None,
        word_scores: bool = False,
        quality: bool = False,
        dropout_passes: int = 0,
        **search: Any,
    ) -> list[list[Hypothesis]]:
        """Returns the `n` best outputs of each line, each with `.text` and `.score`; `n` is at most beam_size.

        With `alignments` each also has an `.alignment` of its pieces with those of the line: `.source`, `.target`,
        `.weights` [T, S] and `.links()`, pairs (source, target).

        With `prefixes` the outputs of a line begin with the pieces of its prefix, and scores are of whole outputs.

        With `constraints`, a list of phrases for each line, the outputs of a line have its phrases; `.unmet` are those
        that one lacks.

        With `word_scores` each has `.words`: its `.pieces`, its `.words` and the log-probability of each. With
        `quality` each has a `.quality`, None for a blank line: `.mean_log_prob` and `.mean_entropy` of its pieces,
        and with `dropout_passes` of two or more `.dropout_mean` and `.dropout_variance` of the former.

        With sampler=NAME these are `n` samples, in the order of drawing, scored by their log-probability. With
        decode="mbr" they come by their expected utility, which is their score; repeated texts come last.

        Raises:
            UsageError: as `translate`; `n` is not from 1 to beam_size (with a sampler, to 1,000); or the model has no
                alignments, or none of joined sentences; or a prefix cannot be written, or there is not one for each
                line.
        """
        starts = None if prefixes is None else read_lines(prefixes, "prefixes")
        phrases = None if constraints is None else read_phrases(constraints)
        lines, n, search = (
            read_lines(lines, "translate"),
            plain_number(n),
            {name: plain_number(value) for name, value in search.items()},
        )
        if not isinstance(n, int):
            raise UsageError(f"n={n!r} is not an integer.")
        if dropout_passes and (not quality or not isinstance(dropout_passes, int) or dropout_passes < 2):
            raise UsageError(f"dropout_passes={dropout_passes!r} goes with quality=True, and is at least 2.")
        with self._sampling if {"sampler", "mbr_samples"} & search.keys() else contextlib.nullcontext():
            translator = self._translator(search, n, alignments)
            if not 1 <= n <= translator.decode.beam_size:
                raise UsageError(
                    f"n={n} must be from 1 to the beam size, {translator.decode.beam_size}. For a run, give "
                    "beam_size=N, too; an export has the --beam_size of t2t-lite-exporter."
                )
            translator = translator.with_language(target_language)
            if split_sentences:
                from t2t_lite.decoding.sentence_translator import SentenceTranslator

                translator = SentenceTranslator(translator)
                if alignments:
                    translator.start_aligning()  # says that there are none
            if word_scores or quality:
                from t2t_lite.decoding.score import score_outputs, with_scores

                translator = with_scores(translator, quality=quality)
            found = translator.translate(lines, nbest=n, prefixes=starts, constraints=phrases)
            if word_scores or quality:
                added = {"words": word_scores, "quality": quality}
                found = score_outputs(translator, lines, found, **added, dropout_passes=dropout_passes)
            return found

    @property
    @abc.abstractmethod
    def model(self) -> Any:
        """The Keras model; `.summary()` lists its layers. An export has none."""

    @abc.abstractmethod
    def score(
        self, pairs: Iterable[tuple[str, str]], *, target_language: str | None = None, word_scores: bool = False
    ) -> list[PairScore]:
        """Returns the log-probability of each pair's target (nats) and its number of pieces: `.log_prob`, `.tokens`.

        With `word_scores` also `.words`, as `nbest`.
        """

    @abc.abstractmethod
    def attention(self, source: str, target: str | None = None, *, target_language: str | None = None) -> Sentence:
        """Returns the attention weights over a sentence and its translations, or over the sentence and `target`."""


class LoadedRun(Loaded):
    """A run with the weights of one of its checkpoints, or several runs as an ensemble."""

    def __init__(self, run: OpenRun | OpenEnsemble) -> None:
        super().__init__()
        self._run = run
        self._made: dict[tuple[Any, ...], Translator] = {(): run.translator}

    @property
    def model(self) -> Any:
        return self._run.model

    @property
    def checkpoint(self) -> str:
        """The path of the weights; of an ensemble, those of its members, with commas."""
        return self._run.checkpoint

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of the run's metrics.jsonl, training and evaluations, in their order.

        Raises:
            UsageError: it is an ensemble.
        """
        from t2t_lite.runs.metrics_log import read_metrics

        if len(self._run.members) > 1:
            raise UsageError("An ensemble has no metrics of its own; load one of its runs.")
        return read_metrics(self._run.members[0].output_dir)

    @property
    def history(self) -> dict[str, list[Any]]:
        """Each number of the evaluations as a list, "step" among them, and "loss" of the training line before each.

        Raises:
            UsageError: it is an ensemble.
        """
        loss, rows = None, []
        for line in self.metrics():
            loss = line.get("loss", loss)
            if "dev_loss" in line:
                rows.append({**line, "loss": loss})
        return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}

    def encode(
        self, texts: Iterable[str], side: str = "source", *, target_language: str | None = None
    ) -> list[list[int]]:
        """Returns the ids of each text as in training and decoding, ended by EOS (1); texts are not cut.

        Args:
            side: "source" or "target"; the target of a parser is a tree in brackets, or linearised.
            target_language: of a model with several, whose label is put before each source.

        Raises:
            UsageError: `texts` is one string, or there is no such side or language.
            DataError: a source does not begin with a label, which this model needs; or a tree is damaged.
        """
        from t2t_lite.ids import EOS

        lines, vocabulary = read_lines(texts, "encode"), self._vocabulary(side)
        translator = self._run.translator.with_language(target_language)
        if side == "target":
            ids = vocabulary.encode_many([translator.target(line) for line in lines])
        else:
            ids = vocabulary.encode_source([translator.source(line) for line in lines])
        return [[*row, EOS] for row in ids]

    def decode(self, ids: Iterable[Sequence[int]], side: str = "target") -> list[str]:
        """Returns the text of each row of ids, such as int [N, T], up to its first EOS (1); padding (0) is left out.

        A source with a label begins with it; the target of a parser is linearised, as the model writes it.

        Raises:
            UsageError: rows that are not lists of ids of this vocabulary, or there is no such side.
        """
        import numpy as np

        vocabulary, rows = self._vocabulary(side), [np.asarray(row) for row in ids]
        for row in rows:
            if row.ndim != 1 or (
                row.size and (row.dtype.kind not in "iu" or not 0 <= row.min() <= row.max() < vocabulary.size)
            ):
                raise UsageError(
                    f"decode takes rows of ids below {vocabulary.size:,}, the size of the vocabulary, such as "
                    f"[[5, 9, 1]], not a row {row.tolist()!r:.80}."
                )
        return [_with_label(vocabulary.decode(row.tolist()), row.tolist()[:1], vocabulary) for row in rows]

    def _vocabulary(self, side: str) -> AnyVocabulary:
        if side not in _SIDES:
            raise UsageError(f"side={side!r} is neither 'source' nor 'target'.{did_you_mean(str(side), _SIDES)}")
        return self._run.members[0].vocabularies[_SIDES.index(side)]

    def score(
        self, pairs: Iterable[tuple[str, str]], *, target_language: str | None = None, word_scores: bool = False
    ) -> list[PairScore]:
        from t2t_lite.decoding.score import score

        sources, targets = two_sides(pairs)
        return score(self._run.translator.with_language(target_language), sources, targets, words=word_scores)

    def attention(self, source: str, target: str | None = None, *, target_language: str | None = None) -> Sentence:
        from t2t_lite.insights.sentence import attend
        from t2t_lite.ops.int8 import int8_matrices

        if int8_matrices(self.model):
            raise UsageError("attention is not for a run loaded with precision='int8'. Load it in another precision.")
        [source, *given] = read_texts([source] if target is None else [source, target])
        return attend(self._run.translator.with_language(target_language), [source], *given)[0]

    def _translator(self, search: Mapping[str, Any], n: int, alignments: bool) -> Translator:
        """Returns the run's own translator, or one of its model with another search, kept for the next call."""
        from t2t_lite.decoding.translate import Translator

        settings = {name: value for name, value in search.items() if name in DECODE}
        options = {name: value for name, value in search.items() if name not in DECODE}
        utility, samples = take_mbr(options)
        banned = read_lines(options.pop("banned_words", ()), "banned_words")
        switches = {name for name in ("replace_unk", "shortlist") if options.pop(name, False)}
        number = samples or n
        sampling = make_sampling(dict(options))
        if sampling is not None:
            if beam := [name for name in OF_BEAM_SEARCH if name in settings]:
                raise UsageError(f"{beam[0]} is a setting of beam search, and does not go with a sampler.")
            if number > MOST_HYPOTHESES:
                raise UsageError(f"n={number}: a sampler draws at most {MOST_HYPOTHESES:,} outputs of each line.")
            settings |= {"beam_size": number, "beam_groups": 1}
        own, hparams = self._run.translator, config.replace(self._run.spec.hparams, **settings)
        hparams.check_asked(settings)
        key: tuple[Any, ...] = tuple(getattr(hparams, name) for name in IN_SEARCH)
        if sampling is not None:
            how_drawn = sorted((name, repr(value)) for name, value in options.items() if name != "seed")
            key = (*key, *how_drawn, type(sampling.sampler))  # the type: a cell that defines it may run again
        elif key == tuple(getattr(own.decode, name) for name in IN_SEARCH):
            key = ()
        key = (*key, *(["aligned"] * alignments), *sorted(switches), *banned)
        made = self._made.get(key)
        if made is None:
            vocabularies = own.source_vocabulary, own.target_vocabulary
            how: dict[str, Any] = {"outputs": own.outputs, "jit": own.search_graph.jit}
            made = Translator(self._run.model, *vocabularies, hparams.decode, **how)
            made.sampling = sampling
            if alignments:
                made.start_aligning()
            if "replace_unk" in switches:
                made.start_replacing()
            if banned:
                made.ban(banned)
            if "shortlist" in switches:
                from t2t_lite.runs.open_run import read_shortlist

                made.shorten(read_shortlist(self._run))
            self._made[key] = made
            if len(self._made) > _MOST_MADE:  # each has a graph
                self._made.pop(next(filter(None, [*self._made])), None)  # the oldest, but for the run's own
        elif made.sampling and sampling:
            made.sampling.seed.assign(sampling.seed)
        made = made.with_limits(hparams.decode)
        made.mbr = None
        if utility is not None:
            from t2t_lite.decoding.mbr import MinimumBayesRisk

            made.mbr = MinimumBayesRisk(utility, self._run.spec.make_problem())
        return made


class LoadedExport(Loaded):
    """A version of an exported model; its search settings are fixed."""

    def __init__(self, translator: ExportedTranslator) -> None:
        super().__init__()
        self._exported = translator

    @property
    def model(self) -> Any:
        raise self._lacks("no Keras model")

    def score(
        self, pairs: Iterable[tuple[str, str]], *, target_language: str | None = None, word_scores: bool = False
    ) -> list[PairScore]:
        raise self._lacks("no model to score with")

    def attention(self, source: str, target: str | None = None, *, target_language: str | None = None) -> Sentence:
        raise self._lacks("no model to look into")

    def _translator(self, search: Mapping[str, Any], n: int, alignments: bool) -> ExportedTranslator:
        if search:
            raise UsageError(f"{', '.join(search)}: the search of an export is fixed. Load the run instead.")
        if not alignments:
            return self._exported
        translator = copy.copy(self._exported)
        translator.start_aligning()
        return translator

    def _lacks(self, what: str) -> UsageError:
        return UsageError(f"{self._exported.folder} is an export, which has {what} in Python. Load the run instead.")


Place = str | os.PathLike[str]


def load(
    path: Place | Sequence[Place], *, usr_dir: str | None = None, precision: str | None = None
) -> LoadedRun | LoadedExport:
    """Opens a run, one of its checkpoints, an export, or several runs as an ensemble; prints nothing.

    Args:
        path: a run's folder (its default weights), a checkpoint in it (RUN/best, RUN/averaged, RUN/ema,
            RUN/checkpoints, RUN/checkpoints/model-2000), or an export (a version, or the folder of versions, whose
            newest is taken); or the URL of one in a store. A list of runs, or of one kind of checkpoint of each, is an
            ensemble.
        usr_dir: the folder of your own problem or model, where the run was trained with one.
        precision: "float32", "bfloat16", "float16" or "int8" instead of the run's.

    Raises:
        DataError: there is nothing to open at `path`, or it is damaged.
        UsageError: invalid settings, runs that are no ensemble, or int8 on a GPU.
    """
    from t2t_lite.distributed.tensorflow_loading import load_tensorflow

    paths = _paths(path)
    for each in paths:
        check_tensorflow_path("load", each)
    usr_dir = usr_dir and os.path.expanduser(usr_dir)
    load_tensorflow()
    if any(map(_is_export, paths)):
        from t2t_lite.export.exported import ExportedTranslator

        if len(paths) > 1:
            raise UsageError("An ensemble is made of runs; t2t-lite-exporter --output_dir=A,B exports one as a whole.")
        if usr_dir or precision:
            raise UsageError(f"{paths[0]} is an export: it needs no usr_dir, and its precision is fixed.")
        return LoadedExport(ExportedTranslator(paths[0]))
    from t2t_lite.runs.open_request import OpenRequest

    folders, checkpoints = zip(*map(_run_and_checkpoint, paths), strict=True)
    if len(set(checkpoints)) > 1:
        raise UsageError(f"{', '.join(map(str, paths))}: give the runs, or the same kind of checkpoint of each.")
    request = OpenRequest(folders=folders, checkpoint=checkpoints[0], usr_dir=usr_dir, precision=precision)
    return LoadedRun(request.open_to_run())


def _paths(path: Any) -> list[Path]:
    from t2t_lite.runs.named_weights import open_weights_path

    try:
        paths = [path] if isinstance(path, str | os.PathLike) else [*path]
        if paths:
            return [Path(open_weights_path(os.path.expanduser(each))) for each in paths]
    except TypeError:
        pass
    raise UsageError(f"load takes a path, or a list of the runs of an ensemble, not {path!r:.80}.")


def _is_export(path: Path) -> bool:
    from t2t_lite.export.export_folder import versions
    from t2t_lite.remote.mirror import has
    from t2t_lite.runs.run_dir import has_run

    return not has_run(path) and (has(path / "saved_model.pb") or bool(versions(path)))


def _run_and_checkpoint(path: Path) -> tuple[str, str | None]:
    """Returns the run that `path` is in, and which of its checkpoints it means; None: the run's default."""
    from t2t_lite.runs.named_weights import parse_weights_path

    named = parse_weights_path(path)
    if named is None and path.suffix == ".keras":
        raise UsageError(
            f"{path} is a Keras model, which has no vocabularies. After `import t2t_lite.keras`, "
            "keras.models.load_model opens it; t2t_lite.load opens the run that it was saved from."
        )
    if named is None:
        raise DataError(
            f"{path} is neither a run, nor a checkpoint of one, nor an export. Train one with t2t_lite.train."
        )
    return str(named.run), named.which


def _with_label(text: str, first: list[int], vocabulary: AnyVocabulary) -> str:
    """Returns a text with the label of its first id, if that is one: the vocabulary's text has none."""
    [piece] = vocabulary.pieces(first) or [""]
    return f"{piece} {text}".rstrip() if piece in vocabulary.labels and not text.startswith(piece) else text
