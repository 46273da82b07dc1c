"""`DirectoryLoader`: open the logs of a `log.dir` at a start and decide what is damaged or lost.

Boot ids tell whether the page cache survived, checkpoints and `gaps` which records must exist,
`recover` which records exist.

    clean stop                     logs are opened as they are
    same boot id, killed           segments above the recovery point are scanned
    other boot id (power lost)     the same; any unflushed part may be missing
    a flush failed ("doubted")     the same, read from the disk and not from the page cache
"""

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress

from headrace.config.log_config import LogConfig
from headrace.log import file_names, text_files
from headrace.log.directory.directory_parts import DirectoryParts
from headrace.log.directory.stray_logs import StrayLog, log_strays, stray_log, topic_id_of
from headrace.log.log import Log
from headrace.log.recovery.known import Known
from headrace.log.text_files import read_file
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.disk import Disk, DiskFile

_logger = logging.getLogger(__name__)
_CHUNK_LOGS = 64
_NO_PARTITIONS = frozenset({file_names.KRAFT_METADATA, file_names.SECURE})
_SYNCED_SINGLY_MAX = 64
"""Above this number of files, one sync of the whole file system replaces single fsyncs."""

Loaded = list[tuple[TopicPartition, Log | CorruptLogError]]


class DirectoryLoader:
    """The start of one log directory: opens its logs and knows how the last stop went."""

    def __init__(self, parts: DirectoryParts) -> None:
        self._parts = parts
        self._disk = parts.disk
        self._path = parts.path
        self.was_clean = False
        """Whether the last stop was clean."""
        self.same_boot = False
        """Whether the machine has not rebooted since the directory was last used."""
        self.power_lost = False
        """Whether the machine went down since without a clean stop of the broker."""
        self.doubted = False
        """Whether a flush failed before: the page cache may differ from the disk."""
        self.used_before = False
        """Whether a Headrace broker has used the directory before."""

    def know_the_boot(self) -> None:
        """Compare the stored boot id with the machine's, and set the flags. `gaps` must be read."""
        path = f"{self._path}/{file_names.BOOT_ID}"
        content = read_file(self._disk, path)
        before = "" if content is None else text_files.read_boot_id(content)
        now = self._disk.boot_id()
        self.used_before = content is not None or self._parts.gaps.known
        if before == text_files.DOUBTED or (content is None and self._parts.gaps.known):
            self.doubted = not self.was_clean
            before = ""
        self.same_boot = bool(now) and before == now
        self.power_lost = bool(now and before) and before != now and not self.was_clean
        if self.doubted:
            _logger.warning(
                "%s: a flush failed before this start: records above the recovery points are read "
                "from the disk, and any part that was not flushed may be missing",
                self._path,
            )
        if self.power_lost:
            _logger.warning(
                "%s: the machine went down without a clean stop of the broker: any part that was "
                "not flushed may be missing; logs are read above their recovery points",
                self._path,
            )

    # --- loading -----------------------------------------------------------------------------

    def doubt(self) -> None:
        """Store that the next start must not trust the page cache, if the disk allows. Blocking."""
        path = f"{self._path}/{file_names.BOOT_ID}"
        try:
            self._disk.replace(path, text_files.write_boot_id(text_files.DOUBTED))
        except OSError:
            with suppress(OSError):
                self._disk.remove(path)

    def found(self) -> list[TopicPartition]:
        """Return the partitions that have a directory. Blocking.

        Removes leftovers of deletions and spill files of a killed process; notes `-future` and
        `-stray` directories.
        """
        partitions = []
        deleted = []
        for name in self._disk.list(self._path):
            path = f"{self._path}/{name}"
            if file_names.is_process_file(name):
                self._remove_left(path)
                continue
            if name in _NO_PARTITIONS or not self._disk.is_directory(path):
                continue
            if name.endswith(file_names.DELETE_SUFFIX):
                deleted.append(name)
                continue
            moving = file_names.parse_future(name)
            if moving is not None:
                _logger.warning(
                    "%s: an incomplete copy of a log from an interrupted move; it stays until its "
                    "partition is loaded and the move is restarted", path,
                )  # fmt: skip
                self._parts.futures_left[moving] = name, topic_id_of(self._disk, path)
                continue
            if (stray := self._stray(path)) is not None:
                self._parts.strays.append(stray)
                continue
            partition = file_names.parse_directory(name)
            if partition is None:
                _logger.warning("%s: not a partition directory's name; it is left alone", path)
                continue
            partitions.append(partition)
        log_strays(self._parts.strays)
        self._forget_what_is_gone(partitions, deleted)
        return partitions

    def _stray(self, path: str) -> StrayLog | None:
        if not file_names.is_stray(path):
            return None
        return stray_log(self._disk, path)

    def _remove_left(self, path: str) -> None:
        try:
            self._disk.remove(path)
        except OSError as error:
            _logger.warning(
                "%s: a spill file of a killed broker could not be removed; it is not needed, and"
                " the next start tries again: %s", path, error,
            )  # fmt: skip

    def _forget_what_is_gone(self, present: list[TopicPartition], deleted: list[str]) -> None:
        """Remove the checkpoint entries and then the directories of deleted logs.

        The entries of a deleted log would be taken for a new log of its name. After a kill an entry
        may belong to either, so both are dropped; a clean stop has rewritten all entries.
        """
        stems = set() if self.was_clean else {file_names.stem_of(name) for name in deleted}
        there = set(present)
        gone = [
            partition
            for partition in self._parts.checkpoints.listed()
            if partition not in there or file_names.deletion_stem(partition) in stems
        ]
        for partition in gone:
            known = self._known(partition)
            end = max(known.recovery_point, known.high_watermark)
            # an interrupted move was about to use that name
            moving = partition in self._parts.futures_left
            if end > 0 and not moving and file_names.deletion_stem(partition) not in stems:
                self._parts.missing[partition] = end
        gone = [partition for partition in gone if partition not in self._parts.missing]
        for partition in gone:
            self._parts.checkpoints.forget(partition)
        try:
            if gone:
                self._parts.checkpoints.write_now({})
            for name in deleted:
                self._disk.remove_tree(f"{self._path}/{name}")
        except OSError as error:
            _logger.warning(
                "%s: cannot remove deleted logs, the next start tries again: %s",
                self._path, error,
            )  # fmt: skip

    def refused(self, partition: TopicPartition, topic_id: bytes) -> CorruptLogError | None:
        """Return why `partition` cannot be served from this directory, or None if it can."""
        if partition not in self._parts.logs and partition not in self._parts.quarantined:
            end = self.flushed_before(partition, topic_id)
            self._parts.missing.pop(partition, None)
            if end > 0:
                self._quarantine(partition, self._gone(partition, end))
        return self._parts.quarantined.get(partition)

    def flushed_before(self, partition: TopicPartition, topic_id: bytes) -> Offset:
        """Return the flushed offset of a log whose directory is missing; 0 if unknown."""
        if partition in self._parts.logs or partition in self._parts.quarantined:
            return Offset(0)
        # The read bounds are newer: they are written with each flush.
        return max(
            self._parts.missing.get(partition, Offset(0)),
            self._parts.bounds.end_of(topic_id, partition.partition),
        )

    def forget_missing(self, partition: TopicPartition, topic_id: bytes) -> None:
        """Forget a log whose directory is missing: its loss is recorded elsewhere; it may be
        created."""
        self._parts.missing.pop(partition, None)
        self._parts.checkpoints.forget(partition)
        self._parts.bounds.forget(topic_id, partition.partition)

    def _gone(self, partition: TopicPartition, end: Offset) -> CorruptLogError:
        return CorruptLogError(
            f"{self._path}/{partition}: the directory is missing, and with it flushed offsets up "
            f"to {end - 1}; restore it from a copy, or delete the topic"
        )

    def load_blocking(self, config_of: Callable[[TopicPartition], LogConfig]) -> None:
        """Load every log of the directory now. Blocking."""
        self._take(self._load_some(self.found(), config_of))
        self._settle_recovery()

    def _settle_recovery(self) -> None:
        """Make durable what recovery changed, then store the boot id; blocking. Raises OSError.

        The boot id comes last: after a kill halfway the logs may still have a power cut's damage.
        """
        unsynced, self._parts.context.unsynced = self._parts.context.unsynced, []
        self._make_durable(unsynced)
        if not self.was_clean:
            # A process killed before its first flush leaves directory entries that are not durable.
            self._disk.sync_directory(self._path)
        try:
            if self.doubted:
                # Logs were read from the disk. Pages of the other files may count as clean although
                # the disk never got them: they are rewritten, as a flush would skip them.
                beside = [path for path in unsynced if not path.endswith(file_names.LOG)]
                _write_again(self._disk, beside)
                self._make_durable(beside)
            if not self.same_boot:
                self._parts.checkpoints.write_now(self._parts.logs)
                boot_id = text_files.write_boot_id(self._disk.boot_id())
                self._disk.replace(f"{self._path}/{file_names.BOOT_ID}", boot_id)
                self.same_boot = True
            # Last: from now on records above the recovery points count as appended by this broker.
            self._parts.gaps.write(self._parts.gaps.content())
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # Serving needs no space; the next start repeats this work.
            _logger.warning(
                "%s: no space to store the results of this recovery; the next start repeats it;"
                " free some space: %s", self._path, error,
            )  # fmt: skip

    def _make_durable(self, paths: Sequence[str]) -> None:
        if len(paths) > _SYNCED_SINGLY_MAX:
            self._disk.sync_all(self._path)
        else:
            _sync_each(self._disk, paths)

    def load(
        self,
        config_of: Callable[[TopicPartition], LogConfig],
        done: Callable[[BaseException | None], None],
        parallel: int = 2,
    ) -> None:
        """Load every log on threads, `parallel` chunks at once; `done` gets an error or None.

        `config_of` is called on the threads too. A damaged log is no error: it is added to
        `quarantined`. An OSError is an error.
        """
        waiting: list[list[TopicPartition]] = []
        running = 0
        failed: list[BaseException] = []

        def next_chunk() -> None:
            nonlocal running
            if waiting and not failed:
                chunk = waiting.pop()
                running += 1
                self._disk.run(lambda: self._load_some(chunk, config_of), taken)
            elif running == 0:
                finish(failed[0] if failed else None)

        def finish(error: BaseException | None) -> None:
            if error is None:
                self._disk.run(self._settle_recovery, done)
            else:
                done(error)

        def taken(result: Loaded | BaseException) -> None:
            nonlocal running
            running -= 1
            if isinstance(result, BaseException):
                failed.append(result)
            else:
                self._take(result)
            next_chunk()

        def listed(result: list[TopicPartition] | BaseException) -> None:
            if isinstance(result, BaseException):
                done(result)
                return
            step = _CHUNK_LOGS
            waiting.extend(result[at : at + step] for at in range(0, len(result), step))
            for _ in range(max(1, min(parallel, len(waiting)))):
                next_chunk()

        self._disk.run(self.found, listed)

    def _load_some(
        self,
        partitions: Sequence[TopicPartition],
        config_of: Callable[[TopicPartition], LogConfig],
    ) -> Loaded:
        loaded: Loaded = []
        for partition in partitions:
            known = self._known(partition)
            path = f"{self._path}/{partition}"
            try:
                config = config_of(partition)
                log = self._parts.at_rest.open(path, partition, config, known)
                if log is None:
                    from headrace.log.recovery.recover import open_log

                    log = open_log(self._parts.context, path, partition, config, known)
                loaded.append((partition, log))
            except CorruptLogError as error:
                loaded.append((partition, error))
        return loaded

    def _known(self, partition: TopicPartition) -> Known:
        recovery_point, start, mark, cleaned = self._parts.checkpoints.of(partition)
        seen, exact, seen_gaps = self._parts.at_rest.seen(partition)
        return Known(
            self.was_clean,
            recovery_point,
            start,
            mark,
            now_ms=self._parts.clock.wall_ms(),
            producer_expiration_ms=self._parts.periods.producer_id_expiration_ms,
            same_boot=self.same_boot,
            recovery_point_lost=self._parts.checkpoints.lost(file_names.RECOVERY_POINTS),
            start_lost=self._parts.checkpoints.lost(file_names.LOG_STARTS),
            gaps_below=max(cleaned, self._parts.gaps.below(partition)),
            # Kafka may have used the directory since the gaps file was written.
            gaps_known=self._parts.gaps.known and not self._parts.checkpoints.foreign,
            seen=seen,
            seen_exact=exact,
            seen_gaps=seen_gaps,
            doubted=self.doubted,
        )

    def _take(self, loaded: Loaded) -> None:
        for partition, result in loaded:
            if isinstance(result, Log):
                self._parts.logs[partition] = result
                self._parts.checkpoints.forget(partition)
            else:
                self._quarantine(partition, result)

    def _quarantine(self, partition: TopicPartition, why: CorruptLogError) -> None:
        self._parts.quarantined[partition] = why
        _logger.error("%s: out of service: %s", partition, why)


def _present(disk: Disk, paths: Sequence[str]) -> Iterator[DiskFile]:
    """Yield each existing file, open until the next one is requested. Raises OSError."""
    for path in paths:
        try:
            file = disk.open(path)
        except FileNotFoundError:
            continue
        with closing(file):
            yield file


def _write_again(disk: Disk, paths: Sequence[str]) -> None:
    """Rewrite the content of these files, so that the next flush writes them. Raises OSError.

    Missing files are skipped.
    """
    for file in _present(disk, paths):
        file.write_at(0, (file.read(0, file.size()),))


def _sync_each(disk: Disk, paths: Sequence[str]) -> None:
    """Make files and their directory entries durable; skip missing files. Blocking.

    Raises OSError.
    """
    for file in _present(disk, paths):
        file.sync()
    for parent in sorted({path.rpartition("/")[0] for path in paths}):
        disk.sync_directory(parent)


def make_durably(disk: Disk, path: str) -> None:
    """Create a directory and its parents, durably."""
    missing = []
    while path and not disk.is_directory(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    if missing:
        disk.make_directory(missing[0])
    for made in missing:
        disk.sync_directory(made.rpartition("/")[0] or ("/" if made.startswith("/") else "."))
