"""Invariants that stay on: `assert` vanishes under `python -O`, these do not."""


class InvariantError(Exception):
    """The program's own reasoning is broken. Never caught below main(): better stop than doubt."""


def invariant(holds: bool, because: str) -> None:
    """Stop the process rather than go on from a state that cannot be."""
    if not holds:
        raise InvariantError(because)
