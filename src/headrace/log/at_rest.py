"""What a start needs to know of logs that nobody changed since: one file instead of many thousand.

`headrace-logs-at-rest` holds a row for each log that was wholly flushed when it was written: its
segments with their sizes, its epochs, its producers. It is written at a clean stop, and now and
then while the broker runs. A start believes a row only where the partition's directory and its
active `.log` are as they were then, by size and time of change: whoever appended, rolled, cut,
compacted or copied in between has changed one of them. All others are opened the long way
(`recover`), as all are where the file is missing, torn or of another layout. Nothing else depends
on it. After a power cut no row is believed: what lies beside the logs was not flushed with them.
"""

import json
import logging
from collections.abc import Iterable
from typing import Any

from headrace.config.topic import LogConfig
from headrace.log import names
from headrace.log.epochs import LeaderEpochs
from headrace.log.log import Log
from headrace.log.recover import read_file
from headrace.log.shared import Known, Shared
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.wire.checksum import crc32c
from headrace.world.clock import Clock

_logger = logging.getLogger(__name__)

FILE_NAME = "headrace-logs-at-rest"
LAYOUT = 1
PRODUCERS_MAX = 100
"""A log that remembers more producers has no row: its snapshot tells them better."""
SETTLED_NS = 2_000_000_000
"""While the broker runs, what changed less long ago may change again within the same tick of the
file system's clock: no row for it this time."""
SLICE_LOGS = 100
_LEFTOVERS = (names.DELETED, names.CLEANED, names.SWAP, ".tmp")

Row = list[Any]


class AtRest:
    """The rows of one log directory."""

    __slots__ = ("_path", "_rows", "_shared", "_written", "writing")

    def __init__(self, shared: Shared, path: str) -> None:
        self._shared = shared
        self._path = path
        self._rows: dict[TopicPartition, Row] = {}
        self.writing = False
        """Whether a file is being written beside the work."""
        self._written = b""

    def read(self) -> None:
        """Read the file, if it is there and whole. Blocking."""
        content = read_file(self._shared.disk, f"{self._path}/{FILE_NAME}")
        if content is None:
            return
        head, _, rows = content.partition(b"\n")
        if head != _head(rows):
            _logger.warning("%s/%s: torn or of another layout; left aside", self._path, FILE_NAME)
            return
        self._written = head
        self._rows = {TopicPartition(row[0], row[1]): row for row in json.loads(rows)}

    def forget(self) -> None:
        """All logs are open: the rows are of no more use."""
        self._rows = {}

    def open(
        self, directory: str, partition: TopicPartition, config: LogConfig, known: Known
    ) -> Log | None:
        """The log in `directory`, none of its files looked into; None where it must be. Blocking.

        Changes nothing, so it may run on several threads.
        """
        row = self._rows.get(partition)
        lost = known.recovery_point_lost or known.start_lost
        if row is None or lost or not (known.clean or known.same_boot):
            return None
        (
            _, _, changed, log_changed, topic_id, start, end, snapshot_offset, epochs, segments,
            first_timestamp, since_index, producers,
        ) = row  # fmt: skip
        if not known.recovery_point <= end or known.start_offset > end:
            return None
        log = Log(self._shared, directory, partition, bytes.fromhex(topic_id), config)
        found = []
        for base, *rest in segments:
            segment = log.make_segment(Offset(base))
            segment.set_at_rest(*rest)
            found.append(segment)
        active = found[-1]
        if self._now(log, active.path(names.LOG)) != (changed, active.size, log_changed):
            return None
        active.first_timestamp = first_timestamp
        active.bytes_since_index = since_index
        log.set_segments(found)
        log.end_offset = log.flushed_offset = Offset(end)
        log.start_offset = Offset(max(known.start_offset, start))
        log.high_watermark = Offset(min(max(known.high_watermark, log.start_offset), end))
        log.snapshot_offset = Offset(snapshot_offset)
        log.set_epochs(LeaderEpochs([(LeaderEpoch(one), Offset(at)) for one, at in epochs]))
        log.producers.set_at_rest(producers)
        log.producers.expire(known.now_ms, known.producer_expiration_ms)
        return log

    def _now(self, log: Log, active: str) -> tuple[int, int, int] | None:
        directory = self._shared.disk.stat(log.directory)
        file = self._shared.disk.stat(active)
        if directory is None or file is None:
            return None
        return directory.changed, file.size, file.changed

    def rows(self, logs: Iterable[Log]) -> list[tuple[Log, Row]]:
        """Rows of those of `logs` that are wholly flushed; on the deciding thread.

        Their second and third fields (when directory and file changed) are filled by `write`.
        """
        found = []
        for log in logs:
            producers = log.producers.at_rest(PRODUCERS_MAX)
            if log.flushed_offset != log.end_offset or producers is None:
                continue
            active = log.segments[-1]
            row: Row = [
                *log.topic_partition, 0, 0, log.topic_id.hex(),
                log.start_offset, log.end_offset, log.snapshot_offset, log.epochs.entries,
                [segment.at_rest() for segment in log.segments],
                active.first_timestamp, active.bytes_since_index, producers,
            ]  # fmt: skip
            if active.first_timestamp is not None or not active.size:
                found.append((log, row))
        return found

    def write_soon(self, logs: Iterable[Log], clock: Clock) -> None:
        """Write the file beside the work: rows of some logs in each turn, the rest on a thread."""
        if self.writing:
            return
        self.writing = True
        waiting = list(logs)
        rows: list[tuple[Log, Row]] = []
        now_ns = clock.wall_ms() * 1_000_000

        def next_slice() -> None:
            rows.extend(self.rows(log for log in waiting[-SLICE_LOGS:] if not log.closed))
            del waiting[-SLICE_LOGS:]
            if waiting:
                clock.call_later(0, next_slice)
            else:
                self._shared.disk.run(lambda: self.write(rows, now_ns), written)

        def written(result: BaseException | None) -> None:
            self.writing = False
            if isinstance(result, OSError):
                self._shared.fail(result, self._path)
            elif result is not None:
                raise result

        next_slice()

    def write_last(self, logs: Iterable[Log]) -> None:
        """Write the file when all logs are closed. Blocking. OSError."""
        if not self.writing:  # else two would write one file: the older rows must do
            self.write(self.rows(logs), None)

    def write(self, rows: list[tuple[Log, Row]], now_ns: int | None) -> None:
        """Write the file anew. Blocking. OSError.

        `now_ns`: when the rows were made, where the broker runs on: what changed since, or just
        before, has none. None: nothing changes any more.
        """
        disk = self._shared.disk
        kept = []
        for log, row in rows:
            base, size = row[9][-1][:2]
            at = f"{log.directory}/{names.segment_file(base, names.LOG)}"
            stamps = self._now(log, at)
            if stamps is None or stamps[1] != size:
                continue
            if now_ns is not None and max(stamps[0], stamps[2]) > now_ns - SETTLED_NS:
                continue
            if any(name.endswith(_LEFTOVERS) for name in disk.list(log.directory)):
                continue
            row[2], row[3] = stamps[0], stamps[2]
            kept.append(row)
        content = json.dumps(kept, separators=(",", ":")).encode()
        head = _head(content)
        if head != self._written:
            disk.replace(f"{self._path}/{FILE_NAME}", head + b"\n" + content)
            self._written = head


def _head(rows: bytes) -> bytes:
    return f"{LAYOUT} {crc32c(rows):08x}".encode()
