"""Looks for a seed whose story breaks a promise, when a fault was planted."""

from collections.abc import Callable, Iterable

from headrace.testing.sim.history import Broken
from headrace.testing.sim.loop import Standstill


def first_broken(
    play: Callable[[int], object],
    seeds: Iterable[int],
    *,
    errors: tuple[type[Exception], ...] = (Broken, Standstill),
) -> str:
    """Play the seeds in order; return the first of `errors` as text; "": no seed has one."""
    for seed in seeds:
        try:
            play(seed)
        except errors as error:
            return f"{type(error).__name__}: {error}"
    return ""
