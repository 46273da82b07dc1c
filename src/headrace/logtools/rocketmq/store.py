"""`Store`: the directory of a stopped RocketMQ broker, read message by message.

Nothing in it is written. A message is found by its queue's entry and read from the commit log; its
layout, its CRC and its place are checked with each read.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from headrace.log.text_files import read_file
from headrace.model.errors import HeadraceError, Malformed
from headrace.ports.disk import Disk, DiskFile
from headrace.wire.rocketmq.sent_messages import MessageIllegal
from headrace.wire.rocketmq.store.moved_messages import moved_message
from headrace.wire.rocketmq.store.queue_files import (
    ENTRY,
    FILE_NAME_DIGITS,
    HEAD_BYTES,
    QueueEntry,
    decode_entries,
    message_size,
)
from headrace.wire.rocketmq.stored_messages import PulledMessage, decode_message

_ENTRIES_BYTES = 4096 * ENTRY.size
_ABORT = "abort"
_OTHER_QUEUES = ("consumequeue_rocksdb", "batchconsumequeue")
_ROCKSDB_FILE = "CURRENT"
"""In `consumequeue` if its queues are in RocksDB."""


class StoreRefused(HeadraceError):
    """A store that cannot be moved; the text says why and what to do."""


class StoreDamaged(HeadraceError):
    """A message that cannot be read: where it is, and why."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")
        self.place = place
        self.why = why


class QueuedEntry(NamedTuple):
    """An entry of a queue, with its queue offset."""

    offset: int
    entry: QueueEntry


class CommitLog:
    """The files of a commit log, by the position of their first byte."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """StoreRefused: it has no files, or one is missing between others."""
        self._files: dict[int, DiskFile] = {}
        self._paths = {int(path[-FILE_NAME_DIGITS:]): path for path in _numbered(disk, directory)}
        self._starts = sorted(self._paths)
        if not self._starts:
            raise StoreRefused(f"{directory}: there is no commit log")
        for start in self._starts:
            self._files[start] = disk.open(self._paths[start], writable=False)
        self._ends = {start: start + file.size() for start, file in self._files.items()}
        for before, start in zip(self._starts, self._starts[1:], strict=False):
            if self._ends[before] != start:
                text = f"the file of position {self._ends[before]} is missing before it"
                raise StoreRefused(f"{self._paths[start]}: {text}")
        self.start = self._starts[0]

    def read(self, position: int, size: int) -> bytes:
        """Return bytes of one file, fewer where the file ends; none outside of the log."""
        start = self._file_of(position)
        if start is None:
            return b""
        size = min(size, self._ends[start] - position)
        return self._files[start].read(position - start, size)

    def path_of(self, position: int) -> str | None:
        """Return the file of a position, None outside of the log."""
        start = self._file_of(position)
        return None if start is None else self._paths[start]

    def messages_behind(self, position: int) -> int:
        """Return how many messages the log has from a position on, at which one may begin."""
        count = 0
        while size := message_size(self.read(position, HEAD_BYTES)):
            count += size > 0
            position += abs(size)
        return count

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _file_of(self, position: int) -> int | None:
        at = bisect_right(self._starts, position) - 1
        if at < 0 or position >= self._ends[self._starts[at]]:
            return None
        return self._starts[at]


class Store:
    """A stopped broker's store: its topics, queues and messages. Blocking. Raises OSError."""

    def __init__(self, disk: Disk, root: str, commit_log: str | None = None) -> None:
        """StoreRefused: it was not stopped, or is of a kind that is not read.

        `commit_log`: the directory of the commit log, if it is not in `root`.
        """
        self.root = root
        self._disk = disk
        self._queues = f"{root}/consumequeue"
        if disk.exists(f"{root}/{_ABORT}"):
            text = (
                "the broker was not stopped cleanly (the file abort exists), so its queues may be"
                " behind its commit log; start it with RocketMQ, stop it with SIGTERM, and try"
                " again"
            )
            raise StoreRefused(f"{root}: {text}")
        others = [name for name in _OTHER_QUEUES if _has_files(disk, f"{root}/{name}")]
        if disk.exists(f"{self._queues}/{_ROCKSDB_FILE}"):
            others.append("RocksDB in consumequeue")
        if others:
            text = (
                f"has queues of another kind ({', '.join(others)}), which are not read: set"
                " storeType=default, and delete the topics with queue.type=BatchCQ"
            )
            raise StoreRefused(f"{root}: {text}")
        self.log = CommitLog(disk, commit_log or f"{root}/commitlog")

    def config(self, name: str) -> bytes | None:
        """Return the content of a file in the config directory, None without it."""
        return read_file(self._disk, f"{self.root}/config/{name}")

    def topics(self) -> list[str]:
        """Return the topics that have queues with files, sorted."""
        return sorted(name for name in _directories(self._disk, self._queues) if self.queues(name))

    def queues(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that have files, in order."""
        where = f"{self._queues}/{topic}"
        return sorted(
            int(name)
            for name in _directories(self._disk, where)
            if name.isdigit() and _numbered(self._disk, f"{where}/{name}")
        )

    def bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """Return the first offset of a queue whose message is in the log, and its end."""
        first, end = None, 0
        for offset, entry in self._entries(topic, queue, 0):
            end = offset + 1
            if first is None and self._is_kept(entry):
                first = offset
        return end if first is None else first, end

    def entries(self, topic: str, queue: int, begin: int = 0) -> Iterator[QueuedEntry]:
        """Yield the entries of a queue whose messages are in the log, from an offset on."""
        return (each for each in self._entries(topic, queue, begin) if self._is_kept(each.entry))

    def _is_kept(self, entry: QueueEntry) -> bool:
        return not entry.is_filled and entry.physical_offset >= self.log.start

    def _entries(self, topic: str, queue: int, begin: int) -> Iterator[QueuedEntry]:
        for path in _numbered(self._disk, f"{self._queues}/{topic}/{queue}"):
            base = int(path[-FILE_NAME_DIGITS:]) // ENTRY.size
            offset = max(begin, base)
            with closing(self._disk.open(path, writable=False)) as file:
                size = file.size()
                while (at := (offset - base) * ENTRY.size) < size:
                    data = file.read(at, min(_ENTRIES_BYTES, size - at))
                    read = 0
                    for entry in decode_entries(data):
                        yield QueuedEntry(offset + read, entry)
                        read += 1
                    offset += read
                    if read < len(data) // ENTRY.size:
                        return
                    if not read:
                        break

    def message(self, topic: str, queue: int, queued: QueuedEntry) -> PulledMessage:
        """Return the message of an entry, decompressed. Raises StoreDamaged."""
        entry = queued.entry
        data = self.log.read(entry.physical_offset, entry.size)
        try:
            if len(data) < entry.size:
                raise Malformed("its entry names bytes that are not in the commit log")
            message, end = decode_message(data)
            named = (message.topic.decode("utf-8", "replace"), message.queue_id)
            if end != entry.size or named != (topic, queue):
                raise Malformed(f"the message there is one of topic {named[0]}, queue {named[1]}")
            if message.queue_offset != queued.offset:
                raise Malformed(f"the message there has offset {message.queue_offset}")
            return moved_message(message)
        except (Malformed, MessageIllegal) as error:
            path = self.log.path_of(entry.physical_offset)
            file = (
                "outside of the commit log" if path is None else f"file {path[-FILE_NAME_DIGITS:]}"
            )
            place = f"topic {topic}, queue {queue}, offset {queued.offset}"
            where = f"{place} ({file}, position {entry.physical_offset})"
            raise StoreDamaged(where, str(error)) from None

    def undispatched(self) -> int:
        """Return how many messages at the end of the commit log no queue has yet."""
        end = self.log.start
        for topic in self.topics():
            for queue in self.queues(topic):
                for each in self.entries(topic, queue):
                    end = max(end, each.entry.physical_offset + each.entry.size)
        return self.log.messages_behind(end)

    def close(self) -> None:
        """Close the files."""
        self.log.close()


def _directories(disk: Disk, path: str) -> list[str]:
    """Return the names of the directories in one that may not exist."""
    if not disk.is_directory(path):
        return []
    return [name for name in disk.list(path) if disk.is_directory(f"{path}/{name}")]


def _numbered(disk: Disk, path: str) -> list[str]:
    """Return the paths of the files whose names are positions, in order."""
    names = disk.list(path) if disk.is_directory(path) else []
    found = (name for name in names if len(name) == FILE_NAME_DIGITS and name.isdigit())
    return [f"{path}/{name}" for name in sorted(found)]


def _has_files(disk: Disk, path: str) -> bool:
    """Return whether there is a file anywhere below a directory that may not exist."""
    if not disk.is_directory(path):
        return False
    return any(
        not disk.is_directory(f"{path}/{name}") or _has_files(disk, f"{path}/{name}")
        for name in disk.list(path)
    )
