"""What a channel says while something of it is not true yet: it leaves in its order, later."""

from collections import deque
from collections.abc import Callable

Release = Callable[[bytes], None]
"""Lets go what was held back, behind frames that belong before it, if any."""


class _Part:
    """Frames from one hold on, up to the next."""

    __slots__ = ("frames", "held")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.held = True


class HeldOutput:
    """A channel's frames behind what is awaited."""

    __slots__ = ("_send", "parts")

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self.parts: deque[_Part] = deque()
        """Frames that are held back."""

    def hold(self) -> Release:
        """Hold back what is written from now on."""
        part = _Part()
        self.parts.append(part)

        def release(before: bytes) -> None:
            part.held = False
            part.frames.insert(0, before)
            self._send_ready()

        return release

    def write(self, frames: bytes) -> None:
        """Take frames, behind those that are held."""
        self.parts[-1].frames.append(frames)

    def _send_ready(self) -> None:
        parts = self.parts
        ready: list[bytes] = []
        while parts and not parts[0].held:
            ready += parts.popleft().frames
        if ready:
            self._send(b"".join(ready))
