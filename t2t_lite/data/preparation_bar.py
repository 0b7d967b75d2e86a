"""Progress of preparing data: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

_SECONDS_BETWEEN = 30.0  # between two lines during a long preparation


@contextlib.contextmanager
def preparation_bar() -> Iterator[Callable[[int, str], None]]:
    """Yields a function for `prepare` that shows (pairs, label) as a bar, or as a line every half minute."""
    if not sys.stderr.isatty():
        yield _preparation_lines()
        return
    import tqdm

    with tqdm.tqdm(unit=" pairs", unit_scale=True, leave=False) as bar:

        def show(done: int, label: str) -> None:
            if label != bar.desc or done < bar.n:  # the next stage
                bar.reset()
                bar.set_description_str(label)
            bar.update(done - bar.n)

        yield show


def _preparation_lines() -> Callable[[int, str], None]:
    before = time.monotonic()

    def show(done: int, label: str) -> None:
        nonlocal before
        if time.monotonic() >= before + _SECONDS_BETWEEN:
            print(f"preparing the data, {label}: {done:,} pairs", file=sys.stderr, flush=True)
            before = time.monotonic()

    return show
