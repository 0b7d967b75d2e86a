"""A notebook as a script: registers a problem and a recipe, trains, translates, scores, looks inside.

Each `# %%` begins a cell for editors and Jupyter (with jupytext). As a whole: python examples/notebook.py FOLDER
"""

# %% A problem of one's own: the digits of a number, to be read aloud.
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import t2t_lite
from t2t_lite import config
from t2t_lite.hparams.tiny import tiny

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/notebook")
WORDS = "zero one two three four five six seven eight nine".split()


@t2t_lite.register_problem("digits")
class Digits(t2t_lite.Problem):
    """Digits to words: "1 0 7" is "one zero seven"."""

    source_language, target_language = "digits", "en"
    vocab_size = 60
    default_hparams = "tiny"

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        draw = random.Random(split)
        for _ in range(2000 if split == "train" else 50):
            digits = [draw.randrange(10) for _ in range(draw.randint(2, 5))]
            yield " ".join(map(str, digits)), " ".join(WORDS[digit] for digit in digits)


# %% A recipe of one's own, based on an existing small one.
@t2t_lite.register_hparams("digits_tiny")
def digits_tiny() -> t2t_lite.HParams:
    """tiny, for 400 updates of few tokens."""
    return config.replace(tiny(), train_steps=400, eval_every=400, batch_tokens=1024, warmup_steps=100)


# %% Train. Run the cell again to go on; raise train_steps to go further.
model = t2t_lite.train("digits", "digits_tiny", FOLDER)

# %% Translate, score, and look inside.
print(model.translate(["4 2", "9 0 1"]))
for hypothesis in model.nbest(["7 7 3"], 3)[0]:
    print(f"{hypothesis.score:8.3f}  {hypothesis.text}")
print(model.score([("1 2", "one two"), ("1 2", "two one")]))
print({kind: weights.shape for kind, weights in model.attention("4 2").maps().items()})
model.model.summary()

# %% Another day: open the run again. The cells above that register must run first.
print(t2t_lite.load(FOLDER).translate(["4 2"], beam_size=1))
