"""The settling part of a stream's store: nothing is settled, and nothing expires."""

from collections.abc import Sequence

from headrace.wire.amqp.content import Message


class NothingSettled:
    """The methods of `MessageStore` other than storing and reading, without effect."""

    def read(self, position: int, count: int) -> tuple[Sequence[int], Sequence[Message]]:
        """Return no messages: only readers of a stream are delivered any."""
        return (), ()

    def settle(self, positions: Sequence[int]) -> None:
        """Ignore settlements: messages stay for other readers."""

    def expires_at(self, position: int) -> float | None:
        """Return None: messages are deleted only by the log's retention."""
        return None

    def note_handed_out(self, below: int) -> None:
        """Ignore the call: delivered messages may be delivered to other readers."""

    def note_returned(self, position: int, count: int) -> None:
        """Ignore the call: requeued messages are not redelivered."""
