"""What happened in a simulation, one line for each thing."""

from collections.abc import Callable, Sequence
from hashlib import blake2b

DIGEST_BYTES = 16
_CONTENT_BYTES = 6


class Broken(Exception):
    """A promise was broken."""

    lines: Sequence[str] = ()
    """What had happened until then."""


class History:
    """Lines in the order of what they tell."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now`: seconds of the simulation's time, told with each line."""
        self.lines: list[str] = []
        self._now = now

    def add(self, kind: str, *details: object) -> None:
        """Add what happened: bytes are told as their size and digest."""
        words = " ".join(map(_told, details))
        self.lines.append(f"{self._now():.9f} {kind} {words}")

    def digest(self) -> str:
        """Return one word for all of it."""
        return blake2b("\n".join(self.lines).encode(), digest_size=DIGEST_BYTES).hexdigest()


def _told(detail: object) -> str:
    if isinstance(detail, bytes | bytearray | memoryview):
        return f"{len(detail)}:{blake2b(detail, digest_size=_CONTENT_BYTES).hexdigest()}"
    return str(detail)
