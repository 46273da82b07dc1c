"""The checkpoint files of a log directory: recovery points, log starts, high watermarks.

`cleaner-offset-checkpoint` is the cleaner's and kept untouched. Partitions that could not be loaded
keep the entries they had. None of the files has a checksum; one that is no checkpoint is said and
taken for lost: see `Known` for what recovery does then.
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
"""Of each log its recovery point, its start (-1: where its segments begin) and its high watermark;
and what each file said of partitions that are not loaded."""


class Checkpoints:
    """Reads all of them at the start, writes those that changed."""

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
        """Whether a file was written by another broker: a Kafka does not sort its lines."""
        self._written: dict[str, bytes] = {}
        self._generation = 0
        self.writing = False
        """Whether files are being written beside the work."""
        self._again: Mapping[TopicPartition, Log] | None = None
        self._waiting: list[Callable[[bool], None]] = []

    def read(self, *, used_before: bool) -> None:
        """Read the files there are; blocking. `used_before`: then there were recovery points."""
        for name in _NAMES:
            self._known[name] = self._read(name)
        self._cleaned = self._read(file_names.CLEANER_OFFSETS)
        path = f"{self._path}/{file_names.RECOVERY_POINTS}"
        if used_before and not self._context.disk.exists(path):
            self._lost.add(file_names.RECOVERY_POINTS)
            _logger.warning(
                "%s: the file is missing: this start reads more of the logs and takes longer", path
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
                "%s; taken for lost: this start reads more of the logs and takes longer", error
            )
            return {}

    def of(self, partition: TopicPartition) -> tuple[Offset, Offset, Offset, Offset]:
        """Return recovery point, log start, high watermark and cleaner's offset of a partition."""
        none = Offset(0)
        recovery, start, mark = (self._known[name].get(partition, none) for name in _NAMES)
        return recovery, start, mark, self._cleaned.get(partition, none)

    def lost(self, name: str) -> bool:
        """Tell whether the file was there and cannot be read."""
        return name in self._lost

    def forget(self, partition: TopicPartition) -> None:
        """Forget a partition that is gone, or whose log now speaks for itself."""
        for entries in self._known.values():
            entries.pop(partition, None)

    def note(self, partition: TopicPartition, flushed: Offset, start: Offset, mark: Offset) -> None:
        """Have the next checkpoints say so of a log that is about to come here."""
        for name, offset in zip(_NAMES, (flushed, start, mark), strict=True):
            self._known[name][partition] = offset

    def listed(self) -> set[TopicPartition]:
        """Return the partitions of which something is known that is not loaded."""
        return {at for entries in self._known.values() for at in entries}

    def picture(self, logs: Mapping[TopicPartition, Log]) -> Picture:
        """Return what the files should say, taken at once; `contents_of` makes text of it anywhere.

        The high watermark counts only as far as it was flushed (G12): what is written here must
        not outrun the disk.
        """
        none = Offset(-1)
        rows = [
            (
                partition,
                flushed := log.flushed_offset,
                log.start_offset if log.start_offset > log.segments.first_base else none,
                mark if (mark := log.high_watermark) < flushed else flushed,
            )
            for partition, log in logs.items()  # many: no call for each
        ]
        return rows, [dict(self._known[name]) for name in _NAMES]

    def write_now(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Write what changed; blocking. OSError."""
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
        """Write what changed, off the thread; one writer at a time, asked again it writes again.

        `done`: told whether all that `logs` say now is on the disk; else the directory failed.
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
                    break  # written since, and newer
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
    """Return the bytes each file should have; on any thread."""
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
