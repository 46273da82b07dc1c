"""What clients have begun to publish and not finished: one bound for all of them together.

A body may announce megabytes and never come, on each of thousands of channels, and a transaction
may never be committed. Nobody's queue has these messages, so no queue's bound is for them.
"""

from typing import Protocol

from headrace.wire.amqp.reply_codes import ConnectionClosing, ReplyCode


class Beginner(Protocol):
    """A connection that publishes. `client.Client`."""

    def __hash__(self) -> int:
        """Tell it from others."""

    def fail(self, error: ConnectionClosing) -> None:
        """Close the connection; what it has begun is forgotten with it."""


class Unfinished:
    """The bytes that each connection has begun."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._of: dict[Beginner, int] = {}

    def note(self, beginner: Beginner, size: int) -> None:
        """Note `size` bytes more; negative: fewer.

        Beyond the bound who has begun most is closed: with ConnectionClosing where that is who
        just came.
        """
        self.bytes += size
        left = self._of.get(beginner, 0) + size
        if left:
            self._of[beginner] = left
        else:
            self._of.pop(beginner, None)
        if size > 0 and self.bytes > self._bytes_max:
            self._close_largest(beginner)

    def _close_largest(self, beginner: Beginner) -> None:
        largest = max(self._of, key=self._of.__getitem__)
        error = ConnectionClosing(
            ReplyCode.RESOURCE_ERROR,
            f"this connection has begun {self._of[largest]} bytes of messages that are not whole or"
            f" not committed, and all together may begin {self._bytes_max}"
            " (amqp.unfinished.bytes.max)",
        )
        if largest is beginner:
            raise error
        largest.fail(error)
