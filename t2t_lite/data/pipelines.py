"""Pipelines of Apache Beam, whose steps leave what they make in part files (parts.py) that all workers see."""

import contextlib
import dataclasses
import io
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from t2t_lite import verbosity
from t2t_lite.data.parts import Arrays, Parts, checksum, pack, unpack
from t2t_lite.distributed.tensorflow_loading import quiet
from t2t_lite.errors import DataError, UsageError, did_you_mean, reason

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class Beam:
    """Apache Beam, with the options of its pipelines by name, such as {"runner": "FlinkRunner"}."""

    options: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def check(self) -> None:
        """Raises UsageError if the package is missing, or does not take the options; before any work is done."""
        try:
            with quiet():  # Beam tells of each package of Google's that is not installed
                from apache_beam.options.pipeline_options import PipelineOptions
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "apache_beam":
                raise UsageError(f"--runner=beam: Apache Beam cannot be imported here: {reason(error)}.") from error
            raise UsageError(
                "--runner=beam needs Apache Beam, which is not installed: pip install 't2t-lite[beam]'."
            ) from None
        known = PipelineOptions([]).get_all_options()
        for name in self.options:
            if name not in known:
                raise UsageError(f"--beam_options: Beam has no option {name!r}.{did_you_mean(name, known)}")
        self._pipeline()

    def run(self, steps: "Steps", tasks: Sequence[Any]) -> None:
        """Runs a pipeline of steps.

        Raises:
            DataError: it failed; the parts that are done stay. Or, as UsageError, what one of its steps raised.
            UsageError: as `check`.
        """
        pipeline = self._pipeline()
        steps.build(pipeline, tasks)
        try:
            pipeline.run().wait_until_finish()
        except Exception as error:
            if _interrupted(error):
                raise KeyboardInterrupt from error
            raise steps.work.fault() or DataError(
                f"The pipeline has failed: {reason(error)[-1000:]}\nThe parts that are done stay in "
                f"{steps.work.folder}; the same command continues with them."
            ) from error
        if fault := steps.work.fault():
            raise fault

    def _pipeline(self) -> Any:
        import apache_beam
        from apache_beam.options.pipeline_options import PipelineOptions

        named = {"true": True, "false": False}
        options = {name: named.get(value.lower(), value) for name, value in self.options.items()}
        # With triggers that Prism does not take, DirectRunner does not first download that server, run it in the place
        # of the workers that are asked for, and say nothing of it. These pipelines have no triggers.
        options = {"allow_unsafe_triggers": True, **options}
        if not verbosity.said.verbose:  # Beam logs a traceback for each error, also for a fault in a user's text
            logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
            options = {"default_sdk_harness_log_level": "CRITICAL", **options}
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):  # argparse prints how Beam is called, and ends the process
                given = PipelineOptions.from_dictionary(options)
                given.get_all_options()
                return apache_beam.Pipeline(options=given)
        except SystemExit:
            fault = said.getvalue().strip().rpartition("error: ")[2]
            raise UsageError(f"--beam_options: {fault.removeprefix('argument --')}.") from None
        except (ValueError, ImportError, AttributeError) as error:  # of options, of runners and of their packages
            raise UsageError(f"--beam_options: {' '.join(str(error).split()).removesuffix('.')}.") from None


def _interrupted(error: BaseException | None) -> bool:
    """Whether a step was interrupted: Beam makes an error of its own of what one raises."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


class Steps(Protocol):
    """The steps of a pipeline, which may run on any worker."""

    @property
    def work(self) -> Parts:
        """Where they leave what they make."""

    def build(self, pipeline: Any, tasks: Sequence[Any]) -> None:
        """Adds the steps to a pipeline."""


def count_found(work: Parts, names: Sequence[str], inputs: Sequence[str] = ()) -> None:
    """Removes all parts but `names` and `inputs`, and logs how many of the former are there."""
    if found := work.keep(names, inputs):
        _log.info("%s of %s parts are there already, and are not made again.", f"{found:,}", f"{len(names):,}")


@dataclasses.dataclass(frozen=True)
class ChunkSteps:
    """A pipeline of one step, which makes a part of each chunk of something; a subclass says how.

    Attributes:
        key: checksum of what the parts depend on besides the chunks.
    """

    work: Parts
    key: str

    def compute(self, rows: list[Any]) -> Arrays:
        """Returns what is made of the rows of a chunk, which were JSON."""
        raise NotImplementedError

    def build(self, pipeline: Any, tasks: Sequence[str]) -> None:
        """Adds the step to a pipeline."""
        import apache_beam

        chunks = pipeline | apache_beam.Create(tasks) | apache_beam.Reshuffle()
        chunks | "make" >> apache_beam.Map(self.make)

    def make(self, chunk: str) -> str:
        """Makes the part of a chunk."""
        return self.work.make(self.name(chunk), lambda: self.compute(unpack(self.work.load(chunk)["rows"])))

    def name(self, chunk: str) -> str:
        """Returns the name of the part of a chunk."""
        return f"made-{self.key}-{chunk}"


def run_chunks(beam: Beam, steps: ChunkSteps, chunks: Iterable[Sequence[Any]]) -> Iterator[Arrays]:
    """Yields the parts of chunks, lists of what JSON can hold, in order; all chunks are written first."""
    work = steps.work
    names = [work.make(f"chunk-{checksum(rows)}", lambda: {"rows": pack(rows)}) for rows in chunks]  # noqa: B023
    unique = [*dict.fromkeys(names)]  # equal chunks have one part
    count_found(work, [steps.name(name) for name in unique], unique)
    if unique:
        beam.run(steps, unique)
    return (work.load(steps.name(name)) for name in names)
