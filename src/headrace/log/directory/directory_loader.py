"""From the files of a `log.dir` to its logs: what was left there is judged, and taken up.

Boot ids tell what the page cache is worth, checkpoints and `gaps` what must be there, `recover`
what is.
"""

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress

from headrace.config.log_config import LogConfig
from headrace.log import file_names, text_files
from headrace.log.directory.directory_parts import DirectoryParts
from headrace.log.directory.stray_logs import StrayLog, log_strays, stray_log
from headrace.log.log import Log
from headrace.log.recovery.known import Known
from headrace.log.recovery.recover import open_log, topic_id_in
from headrace.log.text_files import read_file
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.disk import Disk, DiskFile

_logger = logging.getLogger(__name__)
_CHUNK_LOGS = 64
_NO_PARTITIONS = frozenset({file_names.KRAFT_METADATA, file_names.SECURE})
_SYNCED_SINGLY_MAX = 64
"""More files than that are made durable by one sync of all there is in the file system."""

Loaded = list[tuple[TopicPartition, Log | CorruptLogError]]


class DirectoryLoader:
    """Opens the logs of one directory, and knows what the files were worth at this start."""

    def __init__(self, parts: DirectoryParts) -> None:
        self._parts = parts
        self._disk = parts.disk
        self._path = parts.path
        self.was_clean = False
        """Whether the stop before this start was a clean one."""
        self.same_boot = False
        """Whether the machine has run on since the directory was last used."""
        self.power_lost = False
        """Whether it went down meanwhile, without a clean stop before."""
        self.doubted = False
        """Whether a flush has failed since: the page cache is not believed."""
        self.used_before = False
        """Whether a broker of ours has had it."""

    def know_the_boot(self) -> None:
        """Tell whether the machine was down since the last start here; after `gaps` was read."""
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
                "%s: a flush has failed before this start: what was not flushed before is read "
                "from the disk itself above its recovery points, and any part may be missing",
                self._path,
            )
        if self.power_lost:
            _logger.warning(
                "%s: the machine went down without a clean stop of the broker: of what was not "
                "flushed any part may be missing; it is read again above its recovery points",
                self._path,
            )

    # --- loading -----------------------------------------------------------------------------

    def doubt(self) -> None:
        """Have the next start believe no cached page, if the disk still takes a word. Blocking."""
        path = f"{self._path}/{file_names.BOOT_ID}"
        try:
            self._disk.replace(path, text_files.write_boot_id(text_files.DOUBTED))
        except OSError:
            with suppress(OSError):
                self._disk.remove(path)

    def found(self) -> list[TopicPartition]:
        """Return the partitions that have a directory. Blocking.

        Cleans up what deletions left, and what was of a process that was killed alone.
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
                    "%s: a copy that was in the making; it is left alone until its partition is"
                    " here, and then made anew", path,
                )  # fmt: skip
                self._parts.futures_left[moving] = name, topic_id_in(self._disk, path)
                continue
            if (stray := self._stray(path)) is not None:
                self._parts.strays.append(stray)
                continue
            partition = file_names.parse_directory(name)
            if partition is None:
                _logger.warning("%s: the name is no partition's, the directory is left alone", path)
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
                "%s: messages of a broker that was killed, which nobody needs, could not be"
                " removed, the next start tries again: %s", path, error,
            )  # fmt: skip

    def _forget_what_is_gone(self, present: list[TopicPartition], deleted: list[str]) -> None:
        """Remove deleted logs, once no checkpoint says a word of them.

        What was flushed of a deleted log would else be held against a new one of that name. After a
        kill an entry may be either's; a clean stop has written them all anew.
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
            moving = partition in self._parts.futures_left  # a copy was to take that name
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
                "%s: deleted logs could not be removed, the next start tries again: %s",
                self._path, error,
            )  # fmt: skip

    def refused(self, partition: TopicPartition, topic_id: bytes) -> CorruptLogError | None:
        """Return why a partition that is to be served is out of service here; None: it is not."""
        if partition not in self._parts.logs and partition not in self._parts.quarantined:
            end = self.flushed_before(partition, topic_id)
            self._parts.missing.pop(partition, None)
            if end > 0:
                self._quarantine(partition, self._gone(partition, end))
        return self._parts.quarantined.get(partition)

    def flushed_before(self, partition: TopicPartition, topic_id: bytes) -> Offset:
        """Return the flushed offset of a log without a directory; 0: unknown."""
        if partition in self._parts.logs or partition in self._parts.quarantined:
            return Offset(0)
        # Checkpoints are written now and then, the read bounds with each flush.
        return max(
            self._parts.missing.get(partition, Offset(0)),
            self._parts.bounds.end_of(topic_id, partition.partition),
        )

    def forget_missing(self, partition: TopicPartition, topic_id: bytes) -> None:
        """Forget a log without a directory: its loss is noted elsewhere, and it may be created."""
        self._parts.missing.pop(partition, None)
        self._parts.checkpoints.forget(partition)
        self._parts.bounds.forget(topic_id, partition.partition)

    def _gone(self, partition: TopicPartition, end: Offset) -> CorruptLogError:
        return CorruptLogError(
            f"{self._path}/{partition}: is gone, and with it the offsets up to {end - 1} that were "
            f"flushed; restore it from a copy, or delete the topic"
        )

    def load_blocking(self, config_of: Callable[[TopicPartition], LogConfig]) -> None:
        """Load every log now."""
        self._take(self._load_some(self.found(), config_of))
        self._settle_recovery()

    def _settle_recovery(self) -> None:
        """Put on the disk what recovery went by, and the boot it was done in; blocking. OSError.

        The boot is noted only now: a kill halfway leaves logs that still bear a power cut's marks.
        """
        unsynced, self._parts.context.unsynced = self._parts.context.unsynced, []
        self._make_durable(unsynced)
        if not self.was_clean:
            # A process killed before its first flush has left names that are not durable.
            self._disk.sync_directory(self._path)
        try:
            if self.doubted:
                # Logs were read from the disk itself; of the files beside them pages may count as
                # clean that the disk never got: no flush would write those.
                beside = [path for path in unsynced if not path.endswith(file_names.LOG)]
                _write_again(self._disk, beside)
                self._make_durable(beside)
            if not self.same_boot:
                self._parts.checkpoints.write_now(self._parts.logs)
                boot_id = text_files.write_boot_id(self._disk.boot_id())
                self._disk.replace(f"{self._path}/{file_names.BOOT_ID}", boot_id)
                self.same_boot = True
            # Last: with it all above the recovery points counts as appended by us.
            self._parts.gaps.write(self._parts.gaps.content())
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # To serve what is there takes no space; the next start does all of this again.
            _logger.warning(
                "%s: there is no room to note what this start has recovered, the next one does it"
                " again; make room: %s", self._path, error,
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
        """Load every log off the thread, `parallel` chunks at once; `done` with an error or None.

        `config_of` is called off the thread too. Damaged logs end up in `quarantined`, which is no
        error; an OSError is.
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
            # A Kafka may have had the directory since our file was written.
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
    """Yield the files that are there, each open until the next one is asked for. OSError."""
    for path in paths:
        try:
            file = disk.open(path)
        except FileNotFoundError:
            continue
        with closing(file):
            yield file


def _write_again(disk: Disk, paths: Sequence[str]) -> None:
    """Have the next flush write all of these files; missing ones are passed over. OSError."""
    for file in _present(disk, paths):
        file.write_at(0, (file.read(0, file.size()),))


def _sync_each(disk: Disk, paths: Sequence[str]) -> None:
    """Make files and their names durable; missing ones are passed over. Blocking. OSError."""
    for file in _present(disk, paths):
        file.sync()
    for parent in sorted({path.rpartition("/")[0] for path in paths}):
        disk.sync_directory(parent)


def make_durably(disk: Disk, path: str) -> None:
    """Make a directory and its parents so that a power cut takes none of them back."""
    missing = []
    while path and not disk.is_directory(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    if missing:
        disk.make_directory(missing[0])
    for made in missing:
        disk.sync_directory(made.rpartition("/")[0] or ("/" if made.startswith("/") else "."))
