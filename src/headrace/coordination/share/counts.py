"""`ShareCounts`: counters of share groups since the start, in records."""

from dataclasses import dataclass, field

from headrace.coordination.share.acknowledgements import Ack, AckKind


@dataclass(slots=True)
class ShareCounts:
    """Records acquired and acknowledged, of all share partitions together."""

    acquired: int = 0
    """Acquired records, counted at each delivery."""
    settled: dict[AckKind, int] = field(default_factory=lambda: dict.fromkeys(AckKind, 0))
    """Acknowledged records by acknowledge type."""
    timed_out: int = 0
    """Records whose acquisition lock timed out."""

    def acknowledged(self, ack: Ack) -> None:
        """Count an acknowledgement."""
        self.settled[ack.kind] += ack.last - ack.first + 1
