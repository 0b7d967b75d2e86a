"""What the commands share: flags that name a problem, error messages, exit statuses."""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import logging
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.errors import T2TError, UsageError, did_you_mean
from t2t_lite.problem import Problem

if TYPE_CHECKING:
    from t2t_lite.decode.translate import Hypothesis
    from t2t_lite.serving import answer

_PROBLEM_OPTIONS = (
    "source_dir extra_dir exchanges phrases languages raw_dir vocab_size vocab_type shared_vocab metric clean".split()
)
PRECISIONS = ("float32", "bfloat16", "int8")  # of a model that is run, not trained
PRECISION_HELP = "of the weights and of what is computed with them; default: the run's"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Parser(argparse.ArgumentParser):
    """Takes flags by their whole names only, and says which one a misspelt flag may have meant."""

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(prog=prog, description=description, epilog=epilog, allow_abbrev=False)

    def parse(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """Parses the command line (`argv`, or the process's own); ends the program with status 2 if it is wrong."""
        args, unknown = self.parse_known_args(argv)
        if unknown:
            name = unknown[0].partition("=")[0]
            if not name.startswith("-"):
                self.error(f"{name!r} is not a flag; values follow theirs, as in --problem=toy_ende.")
            self.error(f"there is no flag {name}.{did_you_mean(name, self._option_string_actions)}")
        return args


def run(body: Callable[[], int], interrupted: str = "interrupted.") -> int:
    """Runs a command's body; returns its exit status.

    0: done; 1: the run failed; 2: wrong arguments; 130: interrupted. What the user can mend is told in a sentence,
    without a traceback.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (it stays open)
    logging.basicConfig(format="%(message)s", stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("t2t_lite").setLevel(logging.INFO)
    try:
        return body()
    except T2TError as error:
        return _fail(str(error), error.exit_status)
    except KeyboardInterrupt:
        return _fail(interrupted, 130)
    except BrokenPipeError:
        # The reader of our output has gone; nothing is left to say, and Python's own farewell would fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        advice = " Make room and run the same command again." if error.errno in _NO_ROOM else ""
        return _fail(f"{error.filename or 'the system'}: {error.strerror or error}.{advice}", 1)


def _fail(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status


def load_tensorflow() -> None:
    """Imports TensorFlow and finds its devices, without the page of notices that it prints while doing so.

    No setting silences them all: some are written before its logging has started. They are shown if the import fails.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    # By itself TensorFlow takes oneDNN's matrix products on processors with AVX-512 only; they are the faster ones on
    # older processors, too.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    with quiet():
        import tensorflow as tf

        tf.config.list_physical_devices()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hides what libraries write to standard error by themselves; it is shown if an error comes that is not a user's.

    TensorFlow Text's SentencePiece, too, has a notice that no setting silences: at each vocabulary that it loads.
    """
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as notices:
        os.dup2(notices.fileno(), 2)
        try:
            yield
        except T2TError:
            raise
        except BaseException:
            notices.seek(0)
            os.write(stderr, notices.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def add_problem_flags(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Adds the flags that name a problem and its data."""
    group = parser.add_argument_group("the problem and its data")
    group.add_argument("--problem", metavar="NAME", required=required, help="a registered problem, such as toy_ende")
    group.add_argument(
        "--data_dir", metavar="DIR", required=required, help="the prepared data's folder; default: OUTPUT_DIR/data"
    )
    group.add_argument("--usr_dir", metavar="DIR", help="a folder of your own problems, hparams sets and models")
    group.add_argument(
        "--source_dir",
        metavar="DIR",
        help="text2text: the folder with train.en, train.de, dev.en, ...; treebank: with train.trees, dev.trees, ...; "
        "wsj_parsing: with the Penn Treebank's sections 02 to 23",
    )
    group.add_argument("--extra_dir", metavar="DIR", help="wsj_parsing_semi: files of more trees, plain or .gz")
    group.add_argument(
        "--exchanges",
        type=positive,
        metavar="N",
        help="treebank: train on N copies of each tree, too, in which words are others of the same part of speech",
    )
    group.add_argument(
        "--phrases", action="store_true", default=None, help="treebank: train on each phrase as well, as a sentence"
    )
    group.add_argument("--languages", metavar="SRC-TGT", help="text2text: how the files' names end, such as en-de")
    group.add_argument("--raw_dir", metavar="DIR", help="wmt14_ende, wmt14_enfr: your files, instead of TFDS")
    group.add_argument("--vocab_size", type=int, metavar="N", help="pieces in the vocabulary")
    group.add_argument("--vocab_type", metavar="bpe|unigram", help="text2text: kind of vocabulary; default: bpe")
    group.add_argument(
        "--separate_vocabularies",
        dest="shared_vocab",
        action="store_false",
        default=None,
        help="text2text: one vocabulary for each side instead of one for both",
    )
    group.add_argument(
        "--metric",
        metavar="NAME",
        help="text2text: dev score: bleu, bleu_lc, bleu_tok_lc, chrf or bleu_paper; default: bleu",
    )
    group.add_argument(
        "--clean",
        action="store_true",
        default=None,
        help="text2text, wmt14_*: leave out training pairs with control characters, over 250 words, of unlike lengths "
        "(ratio above 9) or seen before",
    )


def problem_from(args: argparse.Namespace) -> Problem:
    """Builds the problem that the flags name."""
    registry.load_plugins(args.usr_dir)
    options = {name: getattr(args, name) for name in _PROBLEM_OPTIONS}
    return registry.problem(args.problem, **options)


def check_folder(flag: str, folder: str) -> None:
    """Raises UsageError if a folder can neither be written to nor made; makes nothing."""
    path = Path(folder).absolute()
    there = next(p for p in (path, *path.parents) if p.exists() or p.is_symlink())
    if not there.is_dir():
        raise UsageError(f"--{flag}={folder}: {there} is not a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"--{flag}={folder}: {there} cannot be written to.")


def check_output(flag: str, path: str) -> None:
    """Raises UsageError if `write_file` could not write there."""
    if os.path.isdir(path):
        raise UsageError(f"--{flag}={path} is a folder, not a file.")
    check_folder(flag, os.path.dirname(path) or ".")


def write_file(path: str, data: bytes) -> None:
    """Writes a file whole or not at all, through links; makes its folder if need be.

    A device, such as /dev/null, is written to and stays.
    """
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.write(data)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    aside = f"{path}.{os.getpid()}.partial"
    try:
        with open(aside, "wb") as file:
            file.write(data)
        os.replace(aside, path)
    except OSError as error:
        error.filename = path  # a full disk names no file
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


def rows(line: str, hypotheses: Sequence[Hypothesis | answer.Hypothesis], args: argparse.Namespace) -> str:
    """Returns what is written for a translated line, as --json and --nbest ask."""
    if args.json:
        outputs = [{"text": h.text, "score": round(h.score, 4) if math.isfinite(h.score) else None} for h in hypotheses]
        return json.dumps({"input": line, "outputs": outputs}, ensure_ascii=False) + "\n"
    # One output, one line, whatever a model may have learnt to write.
    texts = [h.text.replace("\n", " ") for h in hypotheses]
    if args.nbest:
        return "".join(f"{h.score:.4f}\t{text}\n" for h, text in zip(hypotheses, texts, strict=True))
    return f"{texts[0]}\n"


def check_run(args: argparse.Namespace) -> None:
    """Raises DataError or UsageError if --output_dir holds no run that can be read; loads no TensorFlow."""
    from t2t_lite.train.run_dir import read_run

    read_run(args.output_dir, args.usr_dir)


def positive(text: str) -> int:
    """The `type` of a flag that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def add_run_flags(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Adds the flags that name a trained run and which weights of it."""
    parser.add_argument("--output_dir", metavar="DIR", required=required, help="what t2t-lite-trainer wrote")
    parser.add_argument(
        "--checkpoint",
        metavar="best|averaged|newest|N",
        help="which weights; default: the averaged ones if there are any, else the best, else the newest",
    )
    parser.add_argument("--usr_dir", metavar="DIR", help="your own code, if it has moved since training")


@contextlib.contextmanager
def preparation_bar() -> Iterator[Callable[[int, str], None] | None]:
    """Gives `prepare` a function that shows (pairs, label) as a bar; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    import tqdm

    with tqdm.tqdm(unit=" pairs", unit_scale=True, leave=False) as bar:

        def show(done: int, label: str) -> None:
            if label != bar.desc or done < bar.n:  # the next stage
                bar.reset()
                bar.set_description_str(label)
            bar.update(done - bar.n)

        yield show


def progress_bar(total: int, unit: str) -> Callable[[int], None]:
    """Returns a function that moves a progress bar on; the bar is shown on a terminal only."""
    import tqdm

    bar = tqdm.tqdm(total=total, unit=unit, disable=not sys.stderr.isatty(), leave=False)

    def move(number: int) -> None:
        bar.update(number)
        if bar.n >= total:
            bar.close()

    return move
