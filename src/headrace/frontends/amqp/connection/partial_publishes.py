"""The limit for incomplete messages and uncommitted publishes of all connections together.

A body may be announced and never sent, on each of thousands of channels, and a transaction may
never be committed. No queue has these messages, so no queue's limit applies to them.
"""

from typing import Protocol

from headrace.wire.amqp.reply_codes import ConnectionClosing, ReplyCode


class Beginner(Protocol):
    """A connection that publishes. Implemented by `client.Client`."""

    def __hash__(self) -> int:
        """Hash by identity: connections are counted one by one."""

    def fail(self, error: ConnectionClosing) -> None:
        """Close the connection; its incomplete messages are dropped."""


class Unfinished:
    """Bytes of incomplete and uncommitted messages by connection, with a limit on their sum."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._of: dict[Beginner, int] = {}

    def note(self, beginner: Beginner, size: int) -> None:
        """Count `size` more bytes (negative: fewer) of a connection.

        Over the limit the connection with the most bytes is closed: by raising ConnectionClosing if
        that is `beginner` itself.
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
