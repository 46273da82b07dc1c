"""`AtRest`: logs that have not changed since they were written down; a start does not open them.

`headrace-logs-at-rest` is one file instead of a look into each of many thousand directories:

    line 1    layout, CRC32C of the rest in hex
    rest      JSON {"clean": …, "rows": […], "held": […]}; `AtRest.rows` has the fields of a row

A row describes a log that was completely flushed: segments with sizes, leader epochs, producers.
The file is written at a clean stop and about once a minute while the broker runs. A start accepts a
row only if size and change times of the partition's directory and active `.log` are as noted:
append, roll, truncation, compaction and copy change one of them. Other logs are opened by
`recover`, as are all if the file is missing or invalid. After a power cut no row is accepted, as
the other files of a log were not flushed.

After a clean stop a row is also evidence: a segment that it names and that the directory lacks is
lost (`gaps.check_whole`), unless another broker has used the directory, which the change time of
the recovery point file tells. A partition out of service keeps its row (`held`).
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
"""A log with more producers gets no row: reading its snapshot is cheaper."""
SETTLED_NS = 2_000_000_000
"""While the broker runs, a log changed less than this many nanoseconds ago gets no row.

It might change again within the same tick of the file system's clock.
"""
SLICE_LOGS = 100
_LEFTOVERS = (file_names.DELETED, file_names.CLEANED, file_names.SWAP, ".tmp")

Row = list[Any]
Seen = tuple[tuple[tuple[int, int], ...], bool, Offset | None]


class AtRest:
    """The unchanged logs of one log directory: a row of facts for each."""

    __slots__ = ("_context", "_exact", "_held", "_path", "_rows", "_written", "writing")

    def __init__(self, context: LogDirContext[Log], path: str) -> None:
        self._context = context
        self._path = path
        self._rows: dict[TopicPartition, Row] = {}
        self._exact = False
        """Whether no log has changed since the rows were written."""
        self._held: dict[TopicPartition, Row] = {}
        """Rows of partitions out of service, which this broker has not changed since."""
        self.writing = False
        """Whether a thread is writing the file."""
        self._written = b""

    def read(self, *, clean: bool) -> None:
        """Read the file if it exists and is valid. Blocking. `clean`: the last stop was clean."""
        content = read_file(self._context.disk, f"{self._path}/{FILE_NAME}")
        if content is None:
            return
        head, _, rows = content.partition(b"\n")
        if head != _head(rows):
            _logger.warning(
                "%s/%s: the file is torn or of another layout: this start opens every log",
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
        """Return the change time of the recovery point file, which every clean stop writes."""
        found = self._context.disk.stat(f"{self._path}/{file_names.RECOVERY_POINTS}")
        return 0 if found is None else found.changed

    def forget(self, damaged: Container[TopicPartition]) -> None:
        """Drop all rows except those of partitions out of service, as all other logs are open."""
        known = self._rows if self._exact else {}
        self._held = {at: row for at, row in (known | self._held).items() if at in damaged}
        self._rows = {}

    def seen(self, partition: TopicPartition) -> Seen:
        """Return (segments and sizes, whether they are exact, gap offset) as last written.

        The fields `seen`, `seen_exact` and `seen_gaps` of `Known`; ((), False, None) without a row.
        """
        row = self._held.get(partition) or self._rows.get(partition)
        if row is None:
            return (), False, None
        found = tuple((segment[0], segment[1]) for segment in row[9])
        return found, self._exact or partition in self._held, Offset(row[13])

    def open(
        self, directory: str, partition: TopicPartition, config: LogConfig, known: Known
    ) -> Log | None:
        """Open the log in `directory` from its row without reading it; None if it must be read.

        Blocking. Changes no files, so several threads may call it.
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
            return None  # a moved start changes the directory: one of the two is wrong
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
        """Return the rows of the completely flushed logs. For the deciding thread.

        `write` fills their third and fourth fields (change times of directory and active file).
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
        """Write the file: rows of 100 logs in each turn of the event loop, the file on a thread."""
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
        """Write the file after all logs are closed. Blocking. Raises OSError."""
        if not self.writing:  # else the thread may write the same file; its older rows suffice
            self.write(self.rows(logs), None)

    def write(self, rows: list[tuple[Log, Row]], now_ns: int | None) -> None:
        """Write the file. Blocking. Raises OSError.

        `now_ns`: the time at which the rows were made; a log that changed since or just before gets
        none. None at a stop: nothing changes any more.
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
