"""`durable-read-bounds`: the offset range of each log that may be read from its files.

The broker writes this file for readers of the files themselves (`headrace.arrow.open`).

    header, 48 bytes:   "headrace durable read bounds, version 1\n", zeros
    slot, 48 bytes:     u32 CRC32C | topic id, 16 bytes | i32 partition
                        i64 start | i64 end | i64 last stable offset         big-endian

Records below `end` are on the disk and below the high watermark. Each log has one slot, overwritten
in place after each flush; a reader that meets a half-written slot (CRC) reads again. The file is
fsynced with the checkpoints. An older state after a power cut is still valid, as flushed records
are not removed without a lower bound first.

Slots are found by topic id, so a recreated topic has another slot. A clean stop removes the file,
as the clean-shutdown marker says that all records are on the disk. Kafka ignores the file.
"""

from collections.abc import Collection, Iterable
from struct import Struct
from typing import NamedTuple

from headrace.log import file_names, text_files
from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.directory.state_files.read_bound_slot import Said, Slot
from headrace.log.log import Log
from headrace.log.text_files import read_file
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.disk import Disk, DiskFile
from headrace.record.crc32c import crc32c

NAME = "durable-read-bounds"
SLOT = Struct(">I16siqqq")
"""Slot layout: CRC32C of the rest, topic id, partition, start, end, last stable offset."""
_BODY_AT = 4
_KEY = Struct(">16si")
_pack_crc = Struct(">I").pack
_pack_said = Struct(">qqq").pack
_HEADER = b"headrace durable read bounds, version 1\n".ljust(SLOT.size, b"\0")
_READS_MAX = 50

Key = tuple[bytes, int]
"""Key of a slot: topic id and partition."""


class ReadBound(NamedTuple):
    """The offset range of a partition that may be read from its files."""

    start: Offset
    end: Offset | None
    """End offset; None after a clean stop: all records in the files may be read."""
    stable: Offset | None
    """Last stable offset for read_committed readers; None if the log must be read for it."""


class ReadBounds:
    """The writer of `durable-read-bounds`. For the deciding thread, except `sync`.

    A failed write fences the log directory.
    """

    __slots__ = ("_changed", "_context", "_file", "_free", "_path", "_slots", "_table")

    def __init__(self, context: LogDirContext[Log], path: str) -> None:
        """Make the writer for the log directory `path`; `open` reads the file."""
        self._context = context
        self._path = f"{path}/{NAME}"
        self._file: DiskFile | None = None
        self._table = bytearray()
        self._slots: dict[Key, Slot] = {}
        self._free: list[int] = []
        self._changed = False

    def open(self) -> None:
        """Read the existing slots, or create the file. Blocking. Raises OSError."""
        self._file = self._context.disk.open(self._path, create=True)
        self._table = bytearray(self._file.read(0, self._file.size()))
        if not self._table.startswith(_HEADER):
            self._table = bytearray(_HEADER)
            self._file.truncate(0)
            self._file.write_at(0, (_HEADER,))
        del self._table[len(self._table) // SLOT.size * SLOT.size :]
        for at in range(SLOT.size, len(self._table), SLOT.size):
            body = _body(self._table, at)
            if body is None:
                self._free.append(at)
            else:
                slot = self._slots[body[0], body[1]] = Slot(at, _KEY.pack(body[0], body[1]))
                slot.said = body[2:]

    def end_of(self, topic_id: bytes, partition: int) -> Offset:
        """Return the published end offset of a log; 0 if none is published."""
        slot = self._slots.get((topic_id, partition))
        return Offset(0 if slot is None or slot.said is None else slot.said[1])

    def publish(self, logs: Collection[Log]) -> None:
        """Write the current bounds of these logs to their slots (page cache, no fsync)."""
        written = [at for log in logs if (at := self._note(log)) is not None]
        if not written:
            return
        first, last = min(written), max(written)
        if last - first < 16 * SLOT.size * len(written):
            self._write(first, last)
        else:
            for at in written:
                self._write(at, at)

    def add(self, topic_id: bytes, partition: int) -> None:
        """Write an empty range for a log that is about to be created."""
        slot = self._slot((topic_id, partition))
        self._say(slot, (0, 0, 0))
        self._write(slot.at, slot.at)

    def lower(self, logs: Collection[Log]) -> None:
        """Lower the bounds of logs before their truncation; the only way that a bound decreases.

        Durable with `sync`. If the directory fails, the logs must not be truncated: a start would
        report the removed records as lost.
        """
        for log in logs:
            slot = self._slots.get((log.topic_id, log.topic_partition.partition))
            if slot is not None:
                slot.said = None
        self.publish(logs)

    def forget(self, topic_id: bytes, partition: int) -> None:
        """Clear the slot of a deleted log."""
        self._drop((topic_id, partition))

    def keep_only(self, logs: Iterable[Log]) -> None:
        """Clear the slots of all other logs: their topics were deleted by another broker."""
        known = {(log.topic_id, log.topic_partition.partition) for log in logs}
        for key in [key for key in self._slots if key not in known]:
            self._drop(key)

    @property
    def changed(self) -> bool:
        """Whether bounds were written since the last `sync`."""
        return self._changed

    def sync(self) -> None:
        """Fsync the file. Blocking. Raises OSError."""
        file = self._file
        if file is not None and self._changed:
            self._changed = False
            file.sync()

    def close(self, remove: bool) -> None:
        """Close the file; `remove` it after a clean stop. Raises OSError."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
            if remove:
                self._context.disk.remove(self._path)

    def _note(self, log: Log) -> int | None:
        if self._file is None or log.closed or log.topic_id == text_files.NO_TOPIC_ID:
            return None
        slot = log.bound
        if slot is None:
            if log.directory.endswith(file_names.FUTURE_SUFFIX):
                return None  # an incomplete copy, which readers of the files ignore
            slot = log.bound = self._slot((log.topic_id, log.topic_partition.partition))
        end = min(log.high_watermark, log.flushed_offset)
        said = slot.said
        if said is not None and said[1] > end:
            return None  # loaded but not led yet: the published bound is still valid
        now = log.start_offset, end, min(end, log.last_stable_offset(end))
        if now == said:
            return None
        self._say(slot, now)
        return slot.at

    def _slot(self, key: Key) -> Slot:
        slot = self._slots.get(key)
        if slot is None:
            at = self._free.pop() if self._free else len(self._table)
            slot = self._slots[key] = Slot(at, _KEY.pack(*key))
        return slot

    def _say(self, slot: Slot, said: Said) -> None:
        body = slot.key + _pack_said(*said)
        at = slot.at
        self._table[at : at + SLOT.size] = _pack_crc(crc32c(body)) + body
        slot.said = said

    def _drop(self, key: Key) -> None:
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._table[slot.at : slot.at + SLOT.size] = bytes(SLOT.size)
            self._free.append(slot.at)
            self._write(slot.at, slot.at)

    def _write(self, first: int, last: int) -> None:
        if self._file is None or self._context.failure is not None:
            return
        try:
            self._file.write_at(first, (bytes(self._table[first : last + SLOT.size]),))
        except OSError as error:
            self._context.fail(error, self._path)
            return
        self._changed = True


def _body(table: bytes | bytearray, at: int) -> tuple[bytes, int, int, int, int] | None:
    """Return topic id, partition, start, end and last stable offset of the slot at byte `at`.

    None if the slot is empty, torn or missing.
    """
    slot = bytes(table[at : at + SLOT.size])
    if len(slot) < SLOT.size:
        return None
    crc, topic_id, partition, start, end, stable = SLOT.unpack(slot)
    if crc != crc32c(slot[_BODY_AT:]) or topic_id == text_files.NO_TOPIC_ID:
        return None
    return topic_id, partition, start, end, stable


def read_slots(content: bytes, path: str) -> dict[Key, Said]:
    """Decode all valid slots of the file; CorruptLogError if its header is invalid."""
    if not content.startswith(_HEADER):
        raise CorruptLogError(f"{path}: not a durable-read-bounds file of version 1")
    bodies = (_body(content, at) for at in range(SLOT.size, len(content), SLOT.size))
    return {(body[0], body[1]): body[2:] for body in bodies if body is not None}


def read_bound(disk: Disk, path: str, place: TopicPartition, topic_id: bytes) -> ReadBound:
    """Return the offset range of partition `place` that may be read from log directory `path`.

    From its slot; without one (Kafka's directories) from the checkpoints, which are some seconds
    old. After a clean stop `end` is None: look at the file sizes, then call `clean_still`. Raises
    CorruptLogError, OSError.
    """
    starts = _checkpoint(disk, path, file_names.LOG_STARTS)
    start = starts.get(place, Offset(0))
    if clean_still(disk, path):
        return ReadBound(start, None, None)
    said = _slot(disk, path, topic_id, place.partition)
    if said is not None:
        return ReadBound(Offset(said[2]), Offset(said[3]), Offset(said[4]))
    there = disk.list(path) if disk.is_directory(path) else []
    if file_names.deletion_stem(place) in map(file_names.stem_of, there):
        # Until the next start the checkpoints may have entries of a deleted log of that name.
        return ReadBound(Offset(0), Offset(0), None)
    flushed = _checkpoint(disk, path, file_names.RECOVERY_POINTS).get(place, 0)
    marked = _checkpoint(disk, path, file_names.HIGH_WATERMARKS).get(place, 0)
    return ReadBound(start, Offset(min(flushed, marked)), None)


def clean_still(disk: Disk, path: str) -> bool:
    """Return whether log directory `path` has the marker of a clean stop, so is unchanged since."""
    return disk.exists(f"{path}/{file_names.CLEAN_SHUTDOWN}")


def _slot(
    disk: Disk, path: str, topic_id: bytes, partition: int
) -> tuple[bytes, int, int, int, int] | None:
    key = _KEY.pack(topic_id, partition)
    for _ in range(_READS_MAX):
        content = read_file(disk, f"{path}/{NAME}")
        if content is None or topic_id == text_files.NO_TOPIC_ID or not content.startswith(_HEADER):
            return None
        at = content.find(key)
        while at >= 0 and at % SLOT.size != _BODY_AT:
            at = content.find(key, at + 1)
        if at < 0:
            return None
        body = _body(content, at - _BODY_AT)
        if body is not None:
            return body
    return None


def _checkpoint(disk: Disk, path: str, name: str) -> dict[TopicPartition, Offset]:
    content = read_file(disk, f"{path}/{name}")
    return {} if content is None else text_files.read_offsets(content, f"{path}/{name}")
