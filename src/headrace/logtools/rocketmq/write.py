"""`write_beside`: the partitions of a new log directory, written from a store's queues.

A message keeps its queue offset and its time of storing. The directory has all files of a clean
stop, so that a broker starts on it as it is.
"""

from collections.abc import Iterator, Sequence

from headrace.log import file_names, text_files
from headrace.log.recovery.gaps import FILE_NAME_NOTED
from headrace.log.segment.rebuild_indexes import reindex
from headrace.logtools.rocketmq.plan import MovedQueue, MovedTopic, MovePlan
from headrace.logtools.rocketmq.store import Store, StoreDamaged, StoreRefused
from headrace.logtools.verify import Report, verify_partition
from headrace.logtools.verify.directory import Checkpoints
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.disk import Disk, DiskFile
from headrace.record.batch import build
from headrace.record.record import Record
from headrace.wire.rocketmq.store.moved_messages import record_of
from headrace.wire.rocketmq.topic_names import kafka_name

BATCH_BYTES_MAX = 512 * 1024
_BATCH_RECORDS_MAX = 1000
_RECORD_BYTES = 64
SEGMENT_BYTES_MAX = 256 * 1024 * 1024
"""Bytes of a segment: retention deletes whole ones."""
_LEADER_EPOCH = 0

Batch = Sequence[Record]


MOVING_SUFFIX = ".moving"
_FREE_SHARE = 1.2
"""Free bytes that are needed for each byte of the store's messages."""


def write_beside(disk: Disk, store: Store, plan: MovePlan, target: str) -> str:
    """Write a plan's topics into a directory beside the target, and return its path.

    Files that an interrupted move has left there are removed. StoreRefused: another move writes to
    it, the disk is too small, or what was written is not what was planned. Raises OSError.
    """
    moving = f"{target}{MOVING_SUFFIX}"
    disk.make_directory(moving)
    needed, free = int(plan.bytes * _FREE_SHARE), disk.free_bytes(moving)
    if free < needed:
        raise StoreRefused(f"{moving}: {needed:,} bytes are needed, {free:,} are free")
    try:
        unlock = disk.lock(f"{moving}/{file_names.LOCK}")
    except BlockingIOError as held:
        raise StoreRefused(f"{moving}: {held.strerror} is moving to it") from None
    try:
        for name in disk.list(moving):
            path = f"{moving}/{name}"
            if disk.is_directory(path):
                disk.remove_tree(path)
            elif name != file_names.LOCK:
                disk.remove(path)
        _write_logs(disk, store, plan, moving)
    finally:
        unlock()
    return moving


def _write_logs(disk: Disk, store: Store, plan: MovePlan, directory: str) -> None:
    """Write topics into an empty directory, and read them again as `headrace log verify`."""
    logs = MovedLogs(disk, store, directory)
    written = sum(logs.write(topic) for topic in plan.topics)
    if written != plan.messages:
        text = f"{plan.messages} messages were planned, {written} are written"
        raise StoreRefused(f"{store.root}: {text}: the store was changed meanwhile")
    logs.finish()
    for finding in logs.verify().findings:
        if finding.damage:
            raise StoreRefused(f"{finding.path}: {finding.text}; nothing is moved")


class MovedLogs:
    """The logs in a new directory. Call `write` for each topic, then `finish` and `verify`."""

    def __init__(self, disk: Disk, store: Store, directory: str) -> None:
        self._store = store
        self._directory = directory
        self._disk = disk
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._gaps: dict[TopicPartition, int] = {}

    def write(self, topic: MovedTopic) -> int:
        """Write a topic's queues; return how many messages they have. Raises OSError."""
        name = kafka_name(topic.name)
        return sum(
            self._write_queue(topic, queue, TopicPartition(name, queue.queue))
            for queue in topic.queues
        )

    def _write_queue(self, topic: MovedTopic, queue: MovedQueue, place: TopicPartition) -> int:
        directory = f"{self._directory}/{place}"
        self._disk.make_directory(directory)
        segment = _Segments(self._disk, directory, queue.start)
        count = 0
        following = queue.start
        for batch in _batches(self._records(topic.name, queue)):
            if batch[0].offset != following:
                self._gaps[place] = queue.end  # damaged messages are missing
            segment.append(batch)
            count += len(batch)
            following = batch[-1].offset + 1
        segment.close()
        for base in segment.bases:
            reindex(self._disk, directory, Offset(base))
        epochs = [(_LEADER_EPOCH, queue.start)] if count else []
        path = f"{directory}/{file_names.LEADER_EPOCHS}"
        self._disk.replace(path, text_files.write_epochs(epochs))
        self._starts[place] = queue.start
        self._ends[place] = following
        return count

    def _records(self, topic: str, queue: MovedQueue) -> Iterator[Record]:
        if not queue.messages:
            return
        for each in self._store.entries(topic, queue.queue, queue.start):
            try:
                message = self._store.message(topic, queue.queue, each)
            except StoreDamaged:
                continue  # the plan names it
            yield record_of(message)._replace(offset=each.offset)

    def finish(self) -> None:
        """Write the files of a clean stop. Raises OSError."""
        for name, offsets in (
            (file_names.RECOVERY_POINTS, self._ends),
            (file_names.HIGH_WATERMARKS, self._ends),
            (file_names.LOG_STARTS, self._starts),
            (FILE_NAME_NOTED, self._gaps),
        ):
            content = text_files.write_offsets(offsets)
            if offsets or name != FILE_NAME_NOTED:
                self._disk.replace(f"{self._directory}/{name}", content)
        marker = f"{self._directory}/{file_names.CLEAN_SHUTDOWN}"
        self._disk.replace(marker, text_files.write_clean_shutdown())

    def verify(self) -> Report:
        """Read all logs again, as `headrace log verify`."""
        report = Report()
        checkpoints = Checkpoints(self._disk, self._directory, report)
        for place in self._ends:
            where = f"{self._directory}/{place}"
            verify_partition(self._disk, where, report, checkpoints.around(place))
        return report


class _Segments:
    """The segment files of one partition, written from their first byte on."""

    def __init__(self, disk: Disk, directory: str, start: int) -> None:
        self._disk = disk
        self._directory = directory
        self.bases: list[int] = []
        self._size = 0
        self._file = self._begin(start)

    def append(self, batch: Batch) -> None:
        """Append records with consecutive offsets as one batch."""
        base = batch[0].offset
        if self._size >= SEGMENT_BYTES_MAX:
            self.close()
            self._file = self._begin(base)
        content = build(list(batch), base_offset=base, leader_epoch=_LEADER_EPOCH)
        self._file.write_at(self._size, (content,))
        self._size += len(content)

    def _begin(self, base: int) -> DiskFile:
        self.bases.append(base)
        self._size = 0
        name = file_names.segment_file(base, file_names.LOG)
        return self._disk.open(f"{self._directory}/{name}", create=True)

    def close(self) -> None:
        """Flush the last file to the disk."""
        self._file.sync()
        self._file.close()


def _batches(records: Iterator[Record]) -> Iterator[Batch]:
    """Yield records with consecutive offsets together, as many as a batch may have."""
    some: list[Record] = []
    size = 0
    for record in records:
        more = len(record.value or b"") + len(record.key or b"") + _RECORD_BYTES
        more += sum(len(value or b"") for _, value in record.headers)
        ends = some and (
            record.offset != some[-1].offset + 1
            or len(some) >= _BATCH_RECORDS_MAX
            or size + more > BATCH_BYTES_MAX
        )
        if ends:
            yield some
            some, size = [], 0
        some.append(record)
        size += more
    if some:
        yield some
