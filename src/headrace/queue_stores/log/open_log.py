"""The log of a queue's store, as the store uses it while this broker leads the partition."""

from collections.abc import Callable
from typing import Protocol

from headrace.model.errors import HeadraceError
from headrace.ports.callbacks import Done
from headrace.queue_stores.message_store import GoesWithQueue, MessageStore


class Appended(Protocol):
    """A store with appended messages that are not written yet."""

    def write(self) -> None:
        """Write the appended messages to the log as a batch."""


class OpenLog(MessageStore, GoesWithQueue, Appended, Protocol):
    """An open log of a store: `log_messages.LogMessages` or `stream_log.StreamLog`."""

    @property
    def counted_to(self) -> int:
        """Position of the log below which all committed messages are counted."""

    @property
    def appended_to(self) -> int:
        """Position after the log's last appended message."""

    def load(self, done: Done[HeadraceError | None], settled: bytes | None = None) -> None:
        """Load the state of the log, then call `done` with None or the error.

        `settled` is the content of the file of settled positions; None: read it, if needed.
        """

    def close(self, done: Callable[[], None]) -> None:
        """Write the log's settled positions, then call `done`."""

    def abandon(self) -> None:
        """Stop writing to the log and reading from it."""

    def hold(self) -> None:
        """Have later messages wait until `release`. See `LateStore.hold`."""

    def release(self) -> None:
        """Write what has waited since `hold`."""

    def resign(self) -> None:
        """Release the log: another broker leads it. See `LogWriting.resign`."""
