"""Options of `translate` and `nbest` that are no fields of a recipe: how outputs are drawn, and how they are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from t2t_lite.errors import UsageError
from t2t_lite.groups import DECODE

if TYPE_CHECKING:
    from t2t_lite.decoding.sampling import Sampling


def make_sampling(options: dict[str, Any]) -> Sampling | None:
    """Returns how to draw outputs, or None to search for them."""
    from t2t_lite.decoding.sampling import Sampling, seed_variable
    from t2t_lite.samplers.base import make_sampler

    if "sampler" in options:
        seed = seed_variable(options.pop("seed", 1))
        return Sampling(make_sampler(options.pop("sampler"), options), seed)
    for name in options:
        raise UsageError(
            f"{name} is no setting of the search. There are: {', '.join(DECODE)}; and sampler, decode, banned_words, "
            "replace_unk, shortlist."
        )
    return None


def take_mbr(options: dict[str, Any]) -> tuple[str | None, int | None]:
    """Takes out the options of minimum Bayes risk; returns the utility, and of how many samples outputs are chosen.

    Raises:
        UsageError: they do not go together.
    """
    given = {name: options.pop(name) for name in ("decode", "mbr_samples", "mbr_utility") if name in options}
    if not given:
        return None, None
    if given.get("decode") != "mbr":
        raise UsageError(f"{', '.join(given)}: there is only decode='mbr', and mbr_samples and mbr_utility go with it.")
    samples = given.get("mbr_samples")
    if samples is not None:
        if not isinstance(samples, int) or samples < 1:
            raise UsageError(f"mbr_samples={samples!r} is not a positive integer.")
        options.setdefault("sampler", "random")
    elif "sampler" in options:
        raise UsageError("A sampler with decode='mbr' needs mbr_samples=N, the number of samples.")
    return given.get("mbr_utility", "chrf"), samples
