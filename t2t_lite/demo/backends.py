"""Backends of the page: a trained run, an exported model, or a server."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from t2t_lite.client import client, response
from t2t_lite.client.endpoint import Target
from t2t_lite.client.errors import ServerError
from t2t_lite.client.rest import Rest
from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import UsageError
from t2t_lite.export.export_folder import find_version, read_card
from t2t_lite.text.labels import label_of

if TYPE_CHECKING:
    from t2t_lite.decoding.line_translator import Hypothesis, LineTranslator
    from t2t_lite.export.exported import ExportedTranslator
    from t2t_lite.runs.open_request import OpenRequest

_TIMEOUT = 60.0  # seconds that a server may take


class Backend(Protocol):
    """A model, for one thread at a time; all its methods raise T2TErrors that say what is wrong."""

    card: Mapping[str, Any]  # the model card, or what else is known about the model; JSON-ready
    example: str  # a short line that the model takes
    labels: Sequence[str]  # of target languages, with one of which each line has to begin

    def translate(self, lines: Sequence[str]) -> Sequence[Sequence[Hypothesis | response.ServedHypothesis]]:
        """Returns the outputs of each line, best first; those of a blank line are empty."""

    def attention(self, line: str) -> dict[str, Any]:
        """Returns what attention.js draws: the weights over a line and at least its best output."""


class _Local:
    """A model in this process; `split`: each sentence of a line is translated by itself."""

    def __init__(self, translator: Any, card: Mapping[str, Any], split: bool = False) -> None:
        from t2t_lite.decoding.sentence_translator import SentenceTranslator

        self.card, self._split, self._translator = card, split, translator
        self._lines: LineTranslator = SentenceTranslator(translator) if split else translator
        self.labels = () if translator.label else translator.source_vocabulary.labels
        self.example = f"{self.labels[0]} a" if self.labels else "a"

    @property
    def aligning_head(self) -> dict[str, Any]:
        """What the page shows at first, as attention.js takes it: the head that is an alignment, if there is one."""
        hparams = self.card.get("hparams", {})
        layer = hparams.get("alignment_layer")
        if not (layer or hparams.get("guided_alignment")):
            return {}
        return {"show": {"heads": [1], **({"layer": layer} if layer else {})}}

    def translate(self, lines: Sequence[str]) -> list[list[Hypothesis]]:
        limit = self._lines.decode.max_source_length - 1  # the end symbol is a piece, too
        for line in [] if self._split else lines:
            pieces = len(self._encode(line))
            if pieces > limit:  # elsewhere such a line is cut, with a warning that nobody would see here
                raise UsageError(
                    f"A line of {pieces} pieces is too long: the model reads {limit}. Break it in two, or start the "
                    "page with --split_sentences."
                )
        return self._lines.translate(lines, nbest=self._lines.decode.beam_size)

    def _encode(self, line: str) -> list[int]:
        [ids] = self._lines.source_vocabulary.encode_source([self._lines.source(line)])
        return ids


class Run(_Local):
    """A trained run."""

    def attention(self, line: str) -> dict[str, Any]:
        from t2t_lite.insights.sentence import attend

        return attend(self._translator, [line])[0].to_json() | self.aligning_head


class Export(_Local):
    """An exported model."""

    def __init__(self, translator: ExportedTranslator, split: bool = False) -> None:
        super().__init__(translator, translator.card, split)
        self._signatures = translator.model.signatures

    def attention(self, line: str) -> dict[str, Any]:
        import tensorflow as tf

        from t2t_lite.export.saved_model import ATTENTION_PIECES

        if "attention" not in self._signatures:
            raise self._translator.lacks("attention")
        pieces = len(self._encode(line)) + 1
        if pieces > ATTENTION_PIECES:
            raise UsageError(f"{pieces} pieces; an export shows attention for at most {ATTENTION_PIECES}.")
        outputs = self._signatures["attention"](inputs=tf.constant([self._lines.labelled(line).encode("utf-8")]))
        return _drawing(line, {name: value.numpy() for name, value in outputs.items()}) | self.aligning_head


def open_run(request: OpenRequest, *, split: bool = False, language: str | None = None) -> Run:
    """Opens a run, or several as an ensemble; raises as `OpenRequest.check` before TensorFlow is loaded.

    Args:
        split: translate each sentence of a line by itself.
        language: that all lines are translated into, of a model with labels of several; as for all backends.
    """
    request.check()
    load_tensorflow()
    from t2t_lite.decoding.graph_store import keep_search
    from t2t_lite.export.model_card import make_card

    run = request.open_to_decode()
    keep_search(run.translator)
    return Run(run.translator.with_language(language), make_card(run), split)


def open_export(folder: str, *, split: bool = False, language: str | None = None) -> Export:
    """Opens an export; raises, before TensorFlow is loaded, as `read_card`."""
    read_card(find_version(folder))
    load_tensorflow()
    from t2t_lite.export.exported import ExportedTranslator

    return Export(ExportedTranslator(folder).with_language(language), split)


class Server:
    """A model that TensorFlow Serving serves (its REST API).

    Raises:
        T2TError: the server cannot be reached or has no such model.
    """

    example = "a"
    labels: Sequence[str] = ()  # a server does not name them

    def __init__(self, server: str, model: str, language: str | None = None) -> None:
        self._label = f"{label_of(language)} " if language else ""
        self._target = target = Target.parse(server, model)
        with contextlib.ExitStack() as stack:
            self._rest = stack.enter_context(contextlib.closing(Rest(target)))
            self._translator = stack.enter_context(
                client.ServerTranslator(server, model, batch_size=1, timeout=_TIMEOUT)  # every server takes one line
            )
            # As many outputs as the beam size.
            outputs = self._rest.predict("nbest", [self._labelled("a")], _TIMEOUT).get("outputs")
            if not (isinstance(outputs, list) and len(outputs) == 1 and isinstance(outputs[0], list)):
                raise ServerError(f"The {target} answers no n-best list; was it exported with t2t-lite-exporter?")
            self._nbest = len(outputs[0])
            versions = {number: state for number, state, _ in self._rest.states(_TIMEOUT)}
            self.card: Mapping[str, Any] = {"model": target.model, "server": target.address, "versions": versions}
            self.close = stack.pop_all().close

    def translate(self, lines: Sequence[str]) -> list[list[response.ServedHypothesis]]:
        return self._translator.translate([*map(self._labelled, lines)], nbest=self._nbest)

    def _labelled(self, line: str) -> str:
        return f"{self._label}{line}" if line.strip() else line

    def attention(self, line: str) -> dict[str, Any]:
        outputs = self._rest.predict("attention", [self._labelled(line)], _TIMEOUT)
        try:
            return _drawing(line, outputs)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise ServerError(f"The {self._target} answers no attention that can be drawn ({error}).") from None


def _drawing(line: str, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the outputs of the signature `attention` for one line to what attention.js draws."""
    text, source, target = (_texts(outputs[name][0]) for name in ("outputs", "source_pieces", "target_pieces"))
    maps = {
        kind: np.round(np.asarray(outputs[kind][0], np.float64), 3).tolist()
        for kind in ("encoder", "decoder", "memory")
        if kind in outputs
    }
    if not all(np.isfinite(weights).all() for weights in maps.values()):
        raise ValueError("weights that are not finite")
    encoder = {kind: maps.pop(kind) for kind in ("encoder",) if kind in maps}
    translation = {"text": text, "score": None, "target": target, **maps}
    return {"text": line, "source": source, **encoder, "translations": [translation]}


def _texts(value: Any) -> Any:
    """Returns a text, or a list of texts; decodes TensorFlow's bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    return value if isinstance(value, str) else [_texts(part) for part in value]
