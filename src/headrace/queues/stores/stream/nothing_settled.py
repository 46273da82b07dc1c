"""A message store in which nothing is settled and nothing expires: a stream, and its readers."""

from collections.abc import Sequence

from headrace.wire.amqp.content import Message


class NothingSettled:
    """What `MessageStore` asks beside keeping and reading, for who has no use of it."""

    def read(self, position: int, count: int) -> tuple[Sequence[int], Sequence[Message]]:
        """Return nothing: a stream hands out to its readers alone."""
        return (), ()

    def settle(self, positions: Sequence[int]) -> None:
        """Keep what is acknowledged, for all other readers."""

    def expires_at(self, position: int) -> float | None:
        """Return that a message never expires: it goes by the log's retention."""
        return None

    def note_handed_out(self, below: int) -> None:
        """Note nothing: what is handed out may be again, to others."""

    def note_returned(self, position: int, count: int) -> None:
        """Note nothing: what is given back is not handed out again."""
