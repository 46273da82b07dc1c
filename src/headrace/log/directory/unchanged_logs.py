"""What a start needs to know of logs that nobody changed since: one file instead of many thousand.

`headrace-logs-at-rest` holds a row for each log that was wholly flushed when it was written: its
segments with their sizes, its epochs, its producers. It is written at a clean stop, and now and
then while the broker runs. A start believes a row only where the partition's directory and its
active `.log` are as they were then, by size and time of change: whoever appended, rolled, cut,
compacted or copied in between has changed one of them. All others are opened the long way
(`recover`), as all are where the file is missing, torn or of another layout. Nothing else depends
on it. After a power cut no row is believed: what lies beside the logs was not flushed with them.

After a clean stop the rows are also witnesses: what they name and the directory lacks was lost
(`gaps.check_whole`), unless another broker has been here, which the recovery points' file tells.
A partition that is out of service keeps its row, and with it the witness.
"""

import json
import logging
from collections.abc import Container, Iterable
from typing import Any

from headrace.config.log_config import LogConfig
from headrace.log import file_names
from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.log import Log
from headrace.log.recovery.known import Known
from headrace.log.text_files import read_file
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.ports.clock import Clock
from headrace.record.crc32c import crc32c

_logger = logging.getLogger(__name__)

FILE_NAME = "headrace-logs-at-rest"
LAYOUT = 2
PRODUCERS_MAX = 100
"""A log that remembers more producers has no row: its snapshot tells them better."""
SETTLED_NS = 2_000_000_000
"""While the broker runs, what changed less long ago may change again within the same tick of the
file system's clock: no row for it this time."""
SLICE_LOGS = 100
_LEFTOVERS = (file_names.DELETED, file_names.CLEANED, file_names.SWAP, ".tmp")

Row = list[Any]
Seen = tuple[tuple[tuple[int, int], ...], bool, Offset | None]


class AtRest:
    """The rows of one log directory."""

    __slots__ = ("_context", "_exact", "_held", "_path", "_rows", "_written", "writing")

    def __init__(self, context: LogDirContext[Log], path: str) -> None:
        self._context = context
        self._path = path
        self._rows: dict[TopicPartition, Row] = {}
        self._exact = False
        """Whether nobody has changed any log since the rows were written."""
        self._held: dict[TopicPartition, Row] = {}
        """Rows of partitions out of service: nobody of ours has changed these since."""
        self.writing = False
        """Whether a file is being written beside the work."""
        self._written = b""

    def read(self, *, clean: bool) -> None:
        """Read the file, if it is there and whole. Blocking. `clean`: the last stop was."""
        content = read_file(self._context.disk, f"{self._path}/{FILE_NAME}")
        if content is None:
            return
        head, _, rows = content.partition(b"\n")
        if head != _head(rows):
            _logger.warning(
                "%s/%s: the file is torn or of another layout, so this start looks at every log",
                self._path, FILE_NAME,
            )  # fmt: skip
            return
        self._written = head
        told = json.loads(rows)
        self._rows = {TopicPartition(row[0], row[1]): row for row in told["rows"]}
        self._held = {TopicPartition(row[0], row[1]): row for row in told["held"]}
        stamp = told["clean"]
        self._exact = clean and stamp is not None and stamp == self._recovery_points()

    def _recovery_points(self) -> int:
        """Return when the recovery points were changed: whoever stops cleanly writes them anew."""
        found = self._context.disk.stat(f"{self._path}/{file_names.RECOVERY_POINTS}")
        return 0 if found is None else found.changed

    def forget(self, damaged: Container[TopicPartition]) -> None:
        """Forget all rows but those of logs out of service: all others are open."""
        known = self._rows if self._exact else {}
        self._held = {at: row for at, row in (known | self._held).items() if at in damaged}
        self._rows = {}

    def seen(self, partition: TopicPartition) -> Seen:
        """Return the segments when last written, whether that holds, and what gaps the log had.

        In the terms of `Known`.
        """
        row = self._held.get(partition) or self._rows.get(partition)
        if row is None:
            return (), False, None
        found = tuple((segment[0], segment[1]) for segment in row[9])
        return found, self._exact or partition in self._held, Offset(row[13])

    def open(
        self, directory: str, partition: TopicPartition, config: LogConfig, known: Known
    ) -> Log | None:
        """Open the log in `directory` without a look into its files; None where one is due.

        Blocking.
        Changes nothing, so it may run on several threads.
        """
        row = self._rows.get(partition)
        lost = known.recovery_point_lost or known.start_lost
        if row is None or lost or not (known.clean or known.same_boot):
            return None
        (
            _, _, changed, log_changed, topic_id, start, end, snapshot_offset, epochs, segments,
            first_timestamp, since_index, producers, _,
        ) = row  # fmt: skip
        if known.recovery_point > end or known.start_offset > start:
            return None  # moving the start changes the directory: one of the two is wrong
        log = Log(self._context, directory, partition, bytes.fromhex(topic_id), config)
        found = []
        for base, *rest in segments:
            segment = log.segments.make(Offset(base), config)
            segment.set_at_rest(*rest)
            found.append(segment)
        active = found[-1]
        if self._now(log, active.path(file_names.LOG)) != (changed, active.size, log_changed):
            return None
        active.first_timestamp = first_timestamp
        active.bytes_since_index = since_index
        log.segments.replace(found)
        log.end_offset = log.flushed_offset = Offset(end)
        log.start_offset = Offset(max(known.start_offset, start))
        log.high_watermark = Offset(min(max(known.high_watermark, log.start_offset), end))
        log.snapshot_offset = Offset(snapshot_offset)
        log.epochs = LeaderEpochs([(LeaderEpoch(epoch), Offset(at)) for epoch, at in epochs])
        log.producers.kept.set_at_rest(producers)
        log.producers.expire(known.now_ms, known.producer_expiration_ms)
        return log

    def _now(self, log: Log, active: str) -> tuple[int, int, int] | None:
        directory = self._context.disk.stat(log.directory)
        file = self._context.disk.stat(active)
        if directory is None or file is None:
            return None
        return directory.changed, file.size, file.changed

    def rows(self, logs: Iterable[Log]) -> list[tuple[Log, Row]]:
        """Return the rows of those of `logs` that are wholly flushed; on the deciding thread.

        Their second and third fields (when directory and file changed) are filled by `write`.
        """
        found = []
        for log in logs:
            producers = log.producers.kept.at_rest(PRODUCERS_MAX)
            if log.flushed_offset != log.end_offset or producers is None:
                continue
            active = log.segments[-1]
            row: Row = [
                *log.topic_partition, 0, 0, log.topic_id.hex(),
                log.start_offset, log.end_offset, log.snapshot_offset, log.epochs.entries,
                [segment.at_rest() for segment in log.segments],
                active.first_timestamp, active.bytes_since_index, producers,
                self._context.events.gaps_below(log.topic_partition),
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
                self._context.disk.run(lambda: self.write(rows, now_ns), written)

        def written(result: BaseException | None) -> None:
            self.writing = False
            if isinstance(result, OSError):
                self._context.fail(result, self._path)
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
        disk = self._context.disk
        kept = []
        for log, row in rows:
            base, size = row[9][-1][:2]
            at = f"{log.directory}/{file_names.segment_file(base, file_names.LOG)}"
            stamps = self._now(log, at)
            if stamps is None or stamps[1] != size:
                continue
            if now_ns is not None and max(stamps[0], stamps[2]) > now_ns - SETTLED_NS:
                continue
            if any(name.endswith(_LEFTOVERS) for name in disk.list(log.directory)):
                continue
            row[2], row[3] = stamps[0], stamps[2]
            kept.append(row)
        clean = None if now_ns is not None else self._recovery_points()
        told = {"clean": clean, "rows": kept, "held": [*self._held.values()]}
        content = json.dumps(told, separators=(",", ":")).encode()
        head = _head(content)
        if head != self._written:
            disk.replace(f"{self._path}/{FILE_NAME}", head + b"\n" + content)
            self._written = head


def _head(rows: bytes) -> bytes:
    return f"{LAYOUT} {crc32c(rows):08x}".encode()
