"""What a check finds, and how much it looked at."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What a finding is about; repair goes by it."""

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
    """One thing to be said of one file."""

    damage: bool
    """Whether something is wrong; else a remark, which a start of the broker sees to by itself."""
    kind: Kind
    path: str
    text: str


@dataclass(slots=True)
class Report:
    """All findings, in the order met, and the sums of what was read."""

    findings: list[Finding] = field(default_factory=list)
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    live: bool = False
    """Whether a broker was running: what it had not flushed yet was left out."""
    unchecked: int = 0
    """Bytes at the ends of active segments that were being written, and were not checked."""
    progress: Callable[[int], None] | None = None
    """Told how many bytes of segments were read since the last time."""

    def damage(self, kind: Kind, path: str, text: str) -> None:
        """Note that something is wrong."""
        self.findings.append(Finding(True, kind, path, text))

    def remark(self, kind: Kind, path: str, text: str) -> None:
        """Note what is worth saying, but sound."""
        self.findings.append(Finding(False, kind, path, text))

    def doubt(self, trusted: bool, kind: Kind, path: str, text: str) -> None:
        """Note damage if the file must be right, a remark if the next start writes it anew."""
        if trusted:
            self.damage(kind, path, text)
        else:
            self.remark(kind, path, f"{text}; the next start builds it again")

    def read(self, size: int) -> None:
        """Count `size` bytes of segments more that were read."""
        self.bytes += size
        if self.progress is not None:
            self.progress(size)

    @property
    def sound(self) -> bool:
        """Whether no damage was found; with `unchecked` bytes only in what was read."""
        return not any(finding.damage for finding in self.findings)
