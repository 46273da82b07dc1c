"""Findings of a verification, and counters of what was read."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The subject of a finding, by which repair chooses what to do."""

    BATCH = "batch"
    GAP = "gap"
    INDEX = "index"
    TIME_INDEX = "timeindex"
    TXN_INDEX = "txnindex"
    SNAPSHOT = "snapshot"
    EPOCHS = "epochs"
    METADATA = "metadata"
    CHECKPOINT = "checkpoint"
    IDENTITY = "identity"
    LEFTOVER = "leftover"
    FILE = "file"


class Finding(NamedTuple):
    """A finding about a file: damage, or a remark."""

    damage: bool
    """Whether it is damage; else a remark about a state that the broker's next start handles."""
    kind: Kind
    path: str
    text: str


@dataclass(slots=True)
class Report:
    """All findings in order, and totals of what was read."""

    findings: list[Finding] = field(default_factory=list)
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    live: bool = False
    """Whether a broker was running, so that data it had not flushed was ignored."""
    unchecked: int = 0
    """Bytes at the ends of active segments that were being written and not checked."""
    progress: Callable[[int], None] | None = None
    """Called with the number of segment bytes read since the last call."""

    def damage(self, kind: Kind, path: str, text: str) -> None:
        """Record damage."""
        self.findings.append(Finding(True, kind, path, text))

    def remark(self, kind: Kind, path: str, text: str) -> None:
        """Record a remark about a valid file."""
        self.findings.append(Finding(False, kind, path, text))

    def doubt(self, trusted: bool, kind: Kind, path: str, text: str) -> None:
        """Record damage if the file must be correct, else a remark, as the next start rebuilds
        it."""
        if trusted:
            self.damage(kind, path, text)
        else:
            self.remark(kind, path, f"{text}; the next start builds it again")

    def read(self, size: int) -> None:
        """Count `size` more bytes of segments as read."""
        self.bytes += size
        if self.progress is not None:
            self.progress(size)

    @property
    def sound(self) -> bool:
        """Whether no damage was found in what was read; `unchecked` bytes were not."""
        return not any(finding.damage for finding in self.findings)
