"""Invariants that are checked in production: `assert` is removed by `python -O`."""


class InvariantError(Exception):
    """A broken invariant of the program. Caught in main() only: the process stops."""


def invariant(holds: bool, because: str) -> None:
    """Raise InvariantError with `because` unless `holds`."""
    if not holds:
        raise InvariantError(because)
