"""A channel's output that is held back, in order, until earlier answers are known."""

from collections import deque
from collections.abc import Callable

Release = Callable[[bytes], None]
"""Releases held output, behind frames that belong before it, if any."""


class _Part:
    """Held frames of a channel, from one hold on, up to the next."""

    __slots__ = ("frames", "held")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.held = True


class HeldOutput:
    """The queue of a channel's held frames; a part is sent once it and all earlier are released."""

    __slots__ = ("_send", "parts")

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self.parts: deque[_Part] = deque()
        """Held parts in the order of output; empty: output is sent directly."""

    def hold(self) -> Release:
        """Hold back later output; return the function that releases it."""
        part = _Part()
        self.parts.append(part)

        def release(before: bytes) -> None:
            part.held = False
            part.frames.insert(0, before)
            self._send_ready()

        return release

    def write(self, frames: bytes) -> None:
        """Append frames behind the held ones; only while `parts` is not empty."""
        self.parts[-1].frames.append(frames)

    def _send_ready(self) -> None:
        parts = self.parts
        ready: list[bytes] = []
        while parts and not parts[0].held:
            ready += parts.popleft().frames
        if ready:
            self._send(b"".join(ready))
