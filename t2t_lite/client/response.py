"""Conversion of a server's outputs to hypotheses; outputs of another form than t2t-lite-exporter's are refused."""

import dataclasses
import math
from typing import Any

from t2t_lite.client.endpoint import Target
from t2t_lite.client.errors import ServerError
from t2t_lite.errors import UsageError


@dataclasses.dataclass(frozen=True)
class ServedHypothesis:
    """One output. `score` is log-probability / length penalty; 0 for a blank line, NaN where the server gives none."""

    text: str
    score: float


def hypotheses(outputs: dict[str, Any], rows: int, nbest: int, target: Target) -> list[list[ServedHypothesis]]:
    """Returns the `nbest` best of each row.

    Args:
        outputs: `outputs` and `scores` as nested lists, [rows] or [rows, beam]; a single output is the texts.

    Raises:
        ServerError: outputs of another form, or text that is not UTF-8.
        UsageError: `nbest` is above the beam size.
    """
    texts = next(iter(outputs.values())) if len(outputs) == 1 else outputs.get("outputs")
    if texts is None:
        names = ", ".join(sorted(outputs)) or "nothing"
        raise ServerError(
            f"The {target} answers {names} instead of outputs and scores; was it exported with t2t-lite-exporter?"
        )
    scores = outputs.get("scores", [math.nan] * rows)
    if not (isinstance(texts, list) and isinstance(scores, list) and len(texts) == len(scores) == rows):
        raise ServerError(f"The {target} did not answer one output and one score for each of {rows} lines.")
    try:
        beams = [_beam(row, row_scores) for row, row_scores in zip(texts, scores, strict=True)]
    except UnicodeError:
        raise ServerError(f"The {target} answered text that is not UTF-8.") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise ServerError(f"The {target} answered a wrong form: {error}.") from error
    beam_size = min(map(len, beams))
    if beam_size < nbest:
        raise UsageError(f"The {target} gives {beam_size} outputs a line, its beam size; {nbest} are asked for.")
    return [beam[:nbest] for beam in beams]


def _beam(texts: Any, scores: Any) -> list[ServedHypothesis]:
    if not isinstance(texts, list):
        texts, scores = [texts], [scores]
    elif not isinstance(scores, list):
        scores = [scores] * len(texts)
    return [ServedHypothesis(_text(text), float(score)) for text, score in zip(texts, scores, strict=True)]


def _text(value: Any) -> str:
    """Returns a text that can be written as UTF-8: gRPC gives bytes, and JSON may hold half a surrogate pair."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    value.encode("utf-8")
    return value
