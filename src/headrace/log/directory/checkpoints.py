"""`Checkpoints`: a log directory's recovery points, log start offsets and high watermarks.

    recovery-point-offset-checkpoint   flushed offset: records above it are read at an unclean start
    log-start-offset-checkpoint        start offset, if it is above the oldest segment's base offset
    replication-offset-checkpoint      high watermark, at most the flushed offset

`text_files` has the format. The cleaner owns `cleaner-offset-checkpoint`; it is only read here.
Partitions that could not be loaded keep their entries. The files have no checksum; an invalid file
is logged and treated as lost: `Known` says what recovery does then.
"""

import logging
from collections.abc import Callable, Mapping

from headrace.log import file_names, text_files
from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.log import Log
from headrace.log.text_files import read_file
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, TopicPartition

_logger = logging.getLogger(__name__)
_NAMES = (file_names.RECOVERY_POINTS, file_names.LOG_STARTS, file_names.HIGH_WATERMARKS)

Picture = tuple[
    list[tuple[TopicPartition, Offset, Offset, Offset]], list[dict[TopicPartition, Offset]]
]
"""A copy of the offsets to be written, taken at one moment.

Of each log: recovery point, start offset (-1: its segments' beginning) and high watermark; and of
each file the entries of partitions that are not loaded.
"""


class Checkpoints:
    """The checkpoint files of a log directory: read at a start, written when offsets changed."""

    __slots__ = (
        "_again",
        "_cleaned",
        "_context",
        "_generation",
        "_known",
        "_lost",
        "_path",
        "_waiting",
        "_written",
        "foreign",
        "writing",
    )

    def __init__(self, context: LogDirContext[Log], path: str) -> None:
        self._context = context
        self._path = path
        self._known: dict[str, dict[TopicPartition, Offset]] = {name: {} for name in _NAMES}
        self._lost: set[str] = set()
        self._cleaned: dict[TopicPartition, Offset] = {}
        self.foreign = False
        """Whether another broker wrote a file: Kafka does not sort the lines."""
        self._written: dict[str, bytes] = {}
        self._generation = 0
        self.writing = False
        """Whether a thread is writing the files."""
        self._again: Mapping[TopicPartition, Log] | None = None
        self._waiting: list[Callable[[bool], None]] = []

    def read(self, *, used_before: bool) -> None:
        """Read the checkpoint files; blocking. `used_before`: recovery points must exist."""
        for name in _NAMES:
            self._known[name] = self._read(name)
        self._cleaned = self._read(file_names.CLEANER_OFFSETS)
        path = f"{self._path}/{file_names.RECOVERY_POINTS}"
        if used_before and not self._context.disk.exists(path):
            self._lost.add(file_names.RECOVERY_POINTS)
            _logger.warning(
                "%s: the file is missing; this start reads more of each log and takes longer", path
            )

    def _read(self, name: str) -> dict[TopicPartition, Offset]:
        path = f"{self._path}/{name}"
        content = read_file(self._context.disk, path)
        if content is None:
            return {}
        try:
            found = text_files.read_offsets(content, path)
            self.foreign = self.foreign or content != text_files.write_offsets(found)
            return found
        except CorruptLogError as error:
            self._lost.add(name)
            _logger.warning(
                "%s; treated as lost: this start reads more of each log and takes longer", error
            )
            return {}

    def of(self, partition: TopicPartition) -> tuple[Offset, Offset, Offset, Offset]:
        """Return recovery point, start offset, high watermark and cleaner offset of a partition.

        Each is 0 if the checkpoint file has none.
        """
        none = Offset(0)
        recovery, start, mark = (self._known[name].get(partition, none) for name in _NAMES)
        return recovery, start, mark, self._cleaned.get(partition, none)

    def lost(self, name: str) -> bool:
        """Return whether the checkpoint file `name` is missing or invalid although it must
        exist."""
        return name in self._lost

    def forget(self, partition: TopicPartition) -> None:
        """Remove the stored entries of a partition that was deleted or whose log is loaded."""
        for entries in self._known.values():
            entries.pop(partition, None)

    def note(self, partition: TopicPartition, flushed: Offset, start: Offset, mark: Offset) -> None:
        """Store offsets of a log that is about to move here, for the next checkpoints."""
        for name, offset in zip(_NAMES, (flushed, start, mark), strict=True):
            self._known[name][partition] = offset

    def listed(self) -> set[TopicPartition]:
        """Return the partitions with checkpoint entries but without a loaded log."""
        return {at for entries in self._known.values() for at in entries}

    def picture(self, logs: Mapping[TopicPartition, Log]) -> Picture:
        """Return a copy of the offsets to write; `contents_of` encodes it on any thread.

        A high watermark above the flushed offset is lowered to it: a checkpoint must not exceed
        what is on the disk.
        """
        none = Offset(-1)
        rows = [
            (
                partition,
                flushed := log.flushed_offset,
                log.start_offset if log.start_offset > log.segments.first_base else none,
                mark if (mark := log.high_watermark) < flushed else flushed,
            )
            for partition, log in logs.items()  # per partition: inlined, as there may be many
        ]
        return rows, [dict(self._known[name]) for name in _NAMES]

    def write_now(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Write the changed checkpoint files; blocking. Raises OSError."""
        self._generation += 1
        for name, content in self._changed(self.picture(logs)).items():
            self._context.disk.replace(f"{self._path}/{name}", content)
            self._written[name] = content

    def _changed(self, picture: Picture) -> dict[str, bytes]:
        contents = contents_of(picture)
        return {name: new for name, new in contents.items() if self._written.get(name) != new}

    def write_soon(
        self, logs: Mapping[TopicPartition, Log], done: Callable[[bool], None] | None = None
    ) -> None:
        """Write the changed checkpoint files on a thread; a call during a write repeats it.

        `done` gets True once the offsets of this call are on the disk, False if the directory
        failed.
        """
        if done is not None:
            self._waiting.append(done)
        if self.writing:
            self._again = logs
            return
        if self._context.failure is not None:
            self._tell(False)
            return
        self.writing = True
        disk, path = self._context.disk, self._path
        generation, picture = self._generation, self.picture(logs)

        def write() -> dict[str, bytes]:
            changed = self._changed(picture)
            for name, content in changed.items():
                if generation != self._generation:
                    break  # `write_now` has written newer offsets since
                disk.replace(f"{path}/{name}", content)
            return changed

        def written(result: dict[str, bytes] | BaseException) -> None:
            self.writing = False
            if isinstance(result, OSError):
                self._context.fail(result, path)
                self._tell(False)
                return
            if isinstance(result, BaseException):
                raise result
            if generation == self._generation:
                self._written.update(result)
            again, self._again = self._again, None
            if again is not None:
                self.write_soon(again)
            else:
                self._tell(True)

        disk.run(write, written)

    def _tell(self, is_written: bool) -> None:
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(is_written)


def contents_of(picture: Picture) -> dict[str, bytes]:
    """Return the content of each checkpoint file; may be called on any thread."""
    rows, (recovery, starts, marks) = picture
    for partition, flushed, start, mark in rows:
        recovery[partition] = flushed
        marks[partition] = mark
        if start >= 0:
            starts[partition] = start
    return {
        name: text_files.write_offsets(offsets)
        for name, offsets in zip(_NAMES, (recovery, starts, marks), strict=True)
    }
