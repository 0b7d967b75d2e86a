"""Outputs of tensor2tensor or OpenNMT-tf, compared with those of the imported model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from t2t_lite.decoding.translate import Translator
from t2t_lite.errors import DataError


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How many of the outputs are equal.

    lines: how many were compared; blank inputs are not, as they have no output here.
    equal: how many of these lines are equal.
    at_limit: how many of the lines that differ reached a length limit, here or there.
    first: input, their output and ours of the first difference at no limit, or else at one; None if equal.
    """

    lines: int
    equal: int
    at_limit: int
    first: tuple[str, str, str] | None


def compare(translator: Translator, inputs: Sequence[str], outputs: Sequence[str]) -> Comparison:
    """Translates `inputs` and compares each with line N of `outputs`, which the other toolkit wrote.

    Here, the longest output follows from its input (`longest_output` of decoding/search.py). In tensor2tensor and
    Marian, it follows from the longest input of the batch, so an output that reaches the limit depends on its
    neighbours. In OpenNMT-tf and transformers, the limit does not depend on the input.

    Raises:
        DataError: not as many outputs as inputs.
    """
    if len(inputs) != len(outputs):
        raise DataError(f"There are {len(inputs):,} inputs and {len(outputs):,} outputs; line N is of line N.")
    vocabulary, target = translator.source_vocabulary, translator.target_vocabulary
    rows = [i for i, line in enumerate(inputs) if line.strip()]
    ours = [found[0].text for found in translator.translate([inputs[i] for i in rows])]
    different = [(inputs[i], outputs[i], text) for i, text in zip(rows, ours, strict=True) if outputs[i] != text]

    def at_limit(line: str, *texts: str) -> bool:
        [source] = vocabulary.encode_source([vocabulary.source_line(line)])
        limit = translator.longest_output(len(source) + 1) - 1
        return any(len(target.encode(text)) >= limit for text in texts)

    free = [row for row in different if not at_limit(*row)]
    first = next(iter(free or different), None)
    return Comparison(len(rows), len(rows) - len(different), len(different) - len(free), first)
