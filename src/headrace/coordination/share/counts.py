"""What share groups have done since the start, in records."""

from dataclasses import dataclass, field

from headrace.coordination.share.acknowledgements import Ack, AckKind


@dataclass(slots=True)
class ShareCounts:
    """Of all share partitions together."""

    acquired: int = 0
    """Handed out, each time anew."""
    settled: dict[AckKind, int] = field(default_factory=lambda: dict.fromkeys(AckKind, 0))
    """By what members said of them."""
    timed_out: int = 0
    """Taken back because a member had them for too long."""

    def acknowledged(self, ack: Ack) -> None:
        """Count what a member has acknowledged."""
        self.settled[ack.kind] += ack.last - ack.first + 1
