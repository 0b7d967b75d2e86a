"""Progress bars of the commands, shown on a terminal only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


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
