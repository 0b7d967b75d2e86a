"""A SavedModel with t2t-lite's signatures and no weights: its "translation" is the words in reverse order.

Some inputs do what a real model may: "endless" decodes for ever, "not a number" has that score, "not utf-8" and
"two lines" give such texts, and a line of more than 1,000 characters fails an assertion.
"""

from pathlib import Path

import tensorflow as tf

_TEXTS = tf.TensorSpec([None], tf.string, name="inputs")
BEAM = 3


class Toy(tf.Module):
    def __init__(self, mark: str) -> None:
        super().__init__()
        self._mark = mark

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def serving_default(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = tf.ensure_shape(inputs, [None])
        tf.debugging.assert_less(tf.strings.length(inputs), 1001, message="too long")
        words = tf.strings.split(inputs)
        outputs = tf.strings.reduce_join(words[:, ::-1], axis=-1, separator=" ") + self._mark
        outputs = tf.where(inputs == "not utf-8", b"\xff\xfe", outputs)
        outputs = tf.where(inputs == "two lines", "one\nother", outputs)
        scores = -tf.cast(words.row_lengths(), tf.float32) / 8
        scores = tf.where(inputs == "not a number", float("nan"), scores)
        steps = tf.where(tf.reduce_any(inputs == "endless"), 2**31 - 1, 0)
        (turns,) = tf.while_loop(lambda i: i < steps, lambda i: [i + 1], [0])
        return {"outputs": outputs, "scores": scores + 0 * tf.cast(turns, tf.float32)}

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def nbest(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        best = self.serving_default(inputs)
        ranks = tf.strings.as_string(tf.range(1, BEAM + 1))
        return {
            "outputs": best["outputs"][:, None] + " " + ranks,
            "scores": best["scores"][:, None] - tf.range(0.0, BEAM),
        }

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def one_output(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"text": self.serving_default(inputs)["outputs"]}

    @tf.function(input_signature=[_TEXTS, tf.TensorSpec([None], tf.string, name="targets")], autograph=False)
    def score(self, inputs: tf.Tensor, targets: tf.Tensor) -> dict[str, tf.Tensor]:
        lengths = tf.strings.length(inputs) + tf.strings.length(targets)
        return {"log_probabilities": -tf.cast(lengths, tf.float32), "tokens": lengths}


def save(base: Path, version: int, mark: str = "", signatures: tuple[str, ...] = ()) -> None:
    """Writes BASE/<version>/; `mark` is added to each output, `signatures` default to all."""
    toy = Toy(mark)
    names = signatures or ("serving_default", "nbest", "one_output", "score")
    tf.saved_model.save(toy, str(base / str(version)), signatures={name: getattr(toy, name) for name in names})
