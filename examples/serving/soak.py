"""A soak test of a running TensorFlow Serving: good and bad requests at once; answers are compared with single ones.

    python soak.py --server=localhost:8501 --model=ende --minutes=10 --clients=16 --pid=$(pidof tensorflow_model_server)
    python soak.py --server=localhost:8500 --model=ende --protocol=grpc

It first asks for each line alone, before other traffic. Then all clients send batches of one to eight lines. Over REST
another client sends requests that the server must refuse, and one of these is poison: its wrong rank makes a batching
server refuse all requests that it is batched with. A row is wrong if its text differs from the single answer's. Rows
that differ while their scores are within `CLOSE` are counted apart, as rounding may cause that. Use it on a server of
your own: it sends as much as the server takes. `--protocol=grpc` needs t2t-lite[grpc].
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import http.client
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from t2t_lite.client.client import ServerTranslator
from t2t_lite.client.errors import BusyError
from t2t_lite.errors import T2TError

LINES = 96  # asked for alone; the batches are drawn from them
CLOSE = 0.02  # scores that differ by no more may be rounding
BAD = (b"{", b"[]", b"{}", b'{"inputs": [["x"]]}', b'{"inputs": "x"}', b'{"inputs": [1]}', b'{"instances": []}')


class Soak:
    """What all clients share: the single answers, and what has been seen."""

    def __init__(self, args: argparse.Namespace, lines: Sequence[str]) -> None:
        self._args, self._lines = args, lines
        self.counts: collections.Counter[str] = collections.Counter()
        self.seconds: list[float] = []
        self.memory: list[float] = []  # megabytes
        self.wrong: list[tuple[str, str, str]] = []
        with self._client() as client:
            self._single = {line: client.translate([line])[0][0] for line in lines}

    def run(self, seconds: float) -> None:
        """Lets all clients work for `seconds`."""
        end = time.monotonic() + seconds
        with concurrent.futures.ThreadPoolExecutor(self._args.clients + 1) as pool:
            tasks = [pool.submit(self._good, random.Random(seed), end) for seed in range(self._args.clients)]
            if self._args.protocol == "rest":
                tasks.append(pool.submit(self._bad, end))
            while time.monotonic() < end:
                self._look()
                time.sleep(min(1.0, seconds / 10))
            for task in tasks:
                task.result()

    def _client(self) -> ServerTranslator:
        return ServerTranslator(self._args.server, self._args.model, self._args.protocol, batch_size=8, concurrency=1)

    def _good(self, draw: random.Random, end: float) -> None:
        with self._client() as client:
            while time.monotonic() < end:
                lines = draw.choices(self._lines, k=draw.randint(1, 8))
                start = time.monotonic()
                try:
                    answers = client.translate(lines)
                except BusyError:
                    self.counts["refused as too busy"] += 1
                    continue
                except T2TError as error:
                    self.counts[f"failed: {error}"[:120]] += 1
                    continue
                self.seconds.append(time.monotonic() - start)
                for line, (answer,) in zip(lines, answers, strict=True):
                    self._compare(line, answer)

    def _compare(self, line: str, answer: object) -> None:
        single = self._single[line]
        self.counts["rows"] += 1
        if answer.text == single.text:
            return
        if abs(answer.score - single.score) <= CLOSE:
            self.counts["rows that differ by rounding"] += 1
            return
        self.counts["wrong rows"] += 1
        self.wrong.append((line, single.text, answer.text))

    def _bad(self, end: float) -> None:
        """Sends requests that must be refused, and counts answers of 200 to them."""
        host, _, port = self._args.server.rpartition(":")
        while time.monotonic() < end:
            for body in BAD:
                connection = http.client.HTTPConnection(host, int(port), timeout=60)
                try:
                    connection.request("POST", f"/v1/models/{self._args.model}:predict", body)
                    status = connection.getresponse().status
                except OSError as error:
                    status = type(error).__name__
                finally:
                    connection.close()
                self.counts[f"bad requests answered {status}"] += 1
            time.sleep(self._args.bad_pause)

    def _look(self) -> None:
        """Notes the memory of the server's process."""
        if self._args.pid:
            for row in Path(f"/proc/{self._args.pid}/status").read_text().split("\n"):
                if row.startswith("VmRSS"):
                    self.memory.append(int(row.split()[1]) / 1024)

    def report(self) -> int:
        """Prints what was seen; returns the exit status: 0 if no row was wrong and some were right."""
        for name, number in sorted(self.counts.items()):
            print(f"{number:9,}  {name}")
        if len(self.seconds) > 1:
            parts = statistics.quantiles(self.seconds, n=100)
            print(f"request: p50 {parts[49]:.3f} s, p99 {parts[98]:.3f} s, {len(self.seconds):,} answered")
        if self.memory:
            first, most, last = self.memory[0], max(self.memory), self.memory[-1]
            print(f"memory: {first:.0f} MB at first, {most:.0f} at most, {last:.0f} at last")
        for line, single, together in self.wrong[:5]:
            print(f"WRONG  {line!r}\n alone {single!r}\n here  {together!r}")
        return 0 if self.counts["rows"] and not self.counts["wrong rows"] else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the soak; returns its exit status."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="For a server of your own only. It sends as much as the server takes and, over REST, poison: requests "
        "of a wrong rank, which spoil the batches of other clients.",
    )
    parser.add_argument("--server", required=True, metavar="HOST:PORT")
    parser.add_argument("--model", required=True)
    parser.add_argument("--protocol", choices=("rest", "grpc"), default="rest")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--input", help="a file of source lines, of which the first 96 are used")
    parser.add_argument("--pid", type=int, help="the server's process on this machine, whose memory is watched")
    parser.add_argument("--bad_pause", type=float, default=0.5, help="seconds between two rounds of bad requests")
    args = parser.parse_args(argv)
    if args.input:
        lines = [line for line in Path(args.input).read_text(encoding="utf-8").split("\n") if line.strip()][:LINES]
    else:
        lines = [f"{who} {what} {where} ." for who in ("a man", "two dogs", "the small girl", "she") for what in
                 ("runs", "is standing", "sees a ball", "eats", "sings a song", "waits") for where in
                 ("", "in the park", "on the beach", "in front of a red house")]  # fmt: skip
    try:
        soak = Soak(args, lines)
        soak.run(60 * args.minutes)
    except T2TError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return soak.report()


if __name__ == "__main__":
    sys.exit(main())
