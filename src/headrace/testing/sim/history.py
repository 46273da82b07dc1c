"""The events of a simulation, one line each."""

from collections.abc import Callable, Sequence
from hashlib import blake2b

DIGEST_BYTES = 16
_CONTENT_BYTES = 6


class Broken(Exception):
    """An invariant of the brokers was violated in a simulation."""

    lines: Sequence[str] = ()
    """The history until then."""


class History:
    """The events of a simulation as lines, in order."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Create an empty history.

        `now` returns the simulation's seconds, which begin each line.
        """
        self.lines: list[str] = []
        self._now = now

    def add(self, kind: str, *details: object) -> None:
        """Append an event; bytes are shown as their size and digest."""
        words = " ".join(map(_told, details))
        self.lines.append(f"{self._now():.9f} {kind} {words}")

    def digest(self) -> str:
        """Return a digest of the history: equal histories have equal digests."""
        return blake2b("\n".join(self.lines).encode(), digest_size=DIGEST_BYTES).hexdigest()


def _told(detail: object) -> str:
    if isinstance(detail, bytes | bytearray | memoryview):
        return f"{len(detail)}:{blake2b(detail, digest_size=_CONTENT_BYTES).hexdigest()}"
    return str(detail)
