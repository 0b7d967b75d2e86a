"""AttentionRequest: of which run and sentences the attention is shown, and how; `draw` makes the files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from t2t_lite.distributed.tensorflow_loading import load_tensorflow
from t2t_lite.errors import UsageError
from t2t_lite.runs.open_request import OpenRequest

if TYPE_CHECKING:
    from t2t_lite.insights.sentence import Sentence
    from t2t_lite.runs.open_run import OpenRun

STYLES = ("lines", "maps")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttentionRequest:
    """Attention to show, as asked for.

    Attributes:
        runs: one run.
        sentences: what is translated. The picture and the tree are of the first.
        target: a translation of the only sentence, instead of the model's own.
        files: paths by what is made: "page" (HTML), "picture" (PNG, SVG or PDF, by its ending), "heads" (TSV: their
            entropies) and "tree" (SVG, of a parser).
        attention: the kind that is shown; None: the first of KINDS that the model has.
        layer, head: counted from 1; 0: all; None: the last layer.
        style: one of STYLES.
    """

    runs: OpenRequest
    sentences: tuple[str, ...]
    target: str | None = None
    files: Mapping[str, str]
    attention: str | None = None
    layer: int | None = None
    head: int = 0
    style: str = "lines"

    def check(self) -> None:
        """Raises T2TError, before TensorFlow is loaded, if there is no such run, or nothing to translate."""
        self.runs.check()
        for what, text in (("sentence", self.sentences[0]), ("target", self.target)):
            if text is not None and not text.strip():
                raise UsageError(f"--{what} is blank; give one with words in it.")
            try:
                (text or "").encode("utf-8")
            except UnicodeEncodeError:
                raise UsageError(f"--{what} is not valid UTF-8.") from None
        if "picture" in self.files:
            from t2t_lite.insights.picture import check_matplotlib

            check_matplotlib()


def draw(request: AttentionRequest) -> Iterator[tuple[str, bytes]]:
    """Yields each of the files: what it is, and its content.

    Raises:
        T2TError: as `AttentionRequest.check`, or the run has no such attention, layer, head or tree.
    """
    request.check()
    load_tensorflow()
    from t2t_lite.insights.sentence import attend

    [run] = request.runs.open().members
    if "tree" in request.files and run.translator.outputs.is_text:
        raise UsageError(f"--tree: {request.runs.folders[0]} writes text, not trees.")
    sentences = attend(run.translator, request.sentences, request.target)
    request = _fill(request, type(run.model).__name__, sentences[0])
    for what in request.files:
        yield what, _DRAW[what](request, run, sentences)


def _fill(request: AttentionRequest, model: str, sentence: Sentence) -> AttentionRequest:
    """Returns the request with the kind and the layer that are shown; UsageError if the model has no such part."""
    maps = sentence.maps()
    attention = request.attention or next(iter(maps))
    if attention not in maps:
        raise UsageError(f"--attention={attention}: a {model} has attention of the kind {' and '.join(maps)} only.")
    num_layers, num_heads = maps[attention].shape[:2]
    layer = num_layers if request.layer is None else request.layer
    for name, given, number in (("layer", layer, num_layers), ("head", request.head, num_heads)):
        if given > number:
            raise UsageError(f"--{name}={given}: the model has {number} {name}s, counted from 1.")
    return dataclasses.replace(request, attention=attention, layer=layer)


def _page(request: AttentionRequest, run: OpenRun, sentences: list[Sentence]) -> bytes:
    from t2t_lite.insights.page import attention_page

    show: dict[str, Any] = {"attention": request.attention, "view": request.style if request.layer else "layers"}
    if request.layer:
        show["layer"] = request.layer
    if request.head:
        show["heads"] = [request.head]
    title = f"{run.spec.problem} · {run.spec.hparams_set} · {os.path.basename(run.checkpoint)} · step {run.step:,}"
    return attention_page(title, sentences, show).encode("utf-8")


def _picture(request: AttentionRequest, run: OpenRun, sentences: list[Sentence]) -> bytes:
    from t2t_lite.insights.picture import attention_figure, attention_picture

    how: dict[str, Any] = {"layer": request.layer, "head": request.head, "style": request.style}
    kind = os.path.splitext(request.files["picture"])[1][1:]
    return attention_picture(attention_figure(sentences[0], str(request.attention), **how), kind)


def _heads(request: AttentionRequest, run: OpenRun, sentences: list[Sentence]) -> bytes:
    from t2t_lite.insights.heads import heads, table

    return table(heads(sentences)).encode("utf-8")


def _tree(request: AttentionRequest, run: OpenRun, sentences: list[Sentence]) -> bytes:
    from t2t_lite.insights.tree_picture import tree_svg
    from t2t_lite.text.trees.tree import parse

    return tree_svg(parse(sentences[0].translations[0].text)).encode("utf-8")


_DRAW = {"page": _page, "picture": _picture, "heads": _heads, "tree": _tree}
