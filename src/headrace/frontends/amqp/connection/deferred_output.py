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

    __slots__ = ("_parts", "_send")

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._parts: deque[_Part] = deque()

    @property
    def holds(self) -> bool:
        """Whether anything is held back."""
        return bool(self._parts)

    def hold(self) -> Release:
        """Hold back what is written from now on."""
        part = _Part()
        self._parts.append(part)

        def release(before: bytes) -> None:
            part.held = False
            part.frames.insert(0, before)
            self._send_ready()

        return release

    def write(self, frames: bytes) -> None:
        """Take frames, behind those that are held."""
        self._parts[-1].frames.append(frames)

    def _send_ready(self) -> None:
        parts = self._parts
        ready: list[bytes] = []
        while parts and not parts[0].held:
            ready += parts.popleft().frames
        if ready:
            self._send(b"".join(ready))
