"""A `log.dir`: its lock, its identity, its logs, its checkpoints, its failure.

Life cycle: `open` (blocking: lock, `meta.properties`, checkpoints, clean-shutdown marker), `load`
(all logs, several at once off the thread), `start` (periodic duties), `close`.

Any error of the disk below fences the directory for good: `failure` is set, every later append
raises it, `on_failure` is told. What lies in the directory and is none of ours stays untouched:
plain files, a KRaft broker's `__cluster_metadata-0`, `-stray` and `-future` directories.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from headrace.config.topic import LogConfig
from headrace.log import files, names
from headrace.log.at_rest import AtRest
from headrace.log.bounds import ReadBounds
from headrace.log.checkpoints import Checkpoints
from headrace.log.flusher import Flusher, Strategy, fdatasync_each
from headrace.log.housekeeping import Hold, Housekeeping, Periods
from headrace.log.identity import Identity, read_identity
from headrace.log.log import Log
from headrace.log.recover import create_log, open_log, read_file
from headrace.log.scrub import Scrub
from headrace.log.shared import Known, Shared
from headrace.model.errors import ConfigError, CorruptLogError, StorageError
from headrace.model.invariant import invariant
from headrace.model.nouns import TopicPartition
from headrace.world.clock import Clock, Random
from headrace.world.disk import Disk

__all__ = ["LogDirectory", "Periods", "read_identity"]

_logger = logging.getLogger(__name__)
_CHUNK_LOGS = 64
_SYNCED_SINGLY_MAX = 64
"""More files than that are made durable by one sync of all there is in the file system."""
AT_REST_EVERY = 12
"""With every so many checkpoints it is written which logs are at rest: once a minute."""

Loaded = list[tuple[TopicPartition, Log | CorruptLogError]]


class LogDirectory:
    """One log directory. All calls on the deciding thread."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        path: str,
        *,
        periods: Periods,
        strategy: Strategy,
    ) -> None:
        """Use `open`."""
        self.path = path
        self.disk = disk
        self.clock = clock
        self.random = random
        self.periods = periods
        self.shared = Shared(disk, random)
        self.flusher = Flusher(self.shared, clock, strategy)
        self.logs: dict[TopicPartition, Log] = {}
        self.quarantined: dict[TopicPartition, CorruptLogError] = {}
        """Partitions out of service: damaged below what was surely flushed. Left as they are."""
        self.identity = Identity()
        self.was_clean = False
        """Whether the stop before this start was a clean one."""
        self.same_boot = False
        """Whether the machine has run on since the directory was last used."""
        self.power_lost = False
        """Whether it went down meanwhile, without a clean stop before."""
        self._used_before = False
        self.hold: Hold = lambda _: None
        """Asked before retention deletes; the first offset a partition still wants, or None."""
        self.on_failure: Callable[[OSError], None] | None = None
        """Told once, when the directory is fenced."""
        self.checkpoints = Checkpoints(self.shared, path)
        self.at_rest = AtRest(self.shared, path)
        self.bounds = ReadBounds(self.shared, path)
        self._housekeeping = Housekeeping(self)
        self.scrub = Scrub(self)
        self._prepared: dict[TopicPartition, Log] = {}
        self._unlock: Callable[[], None] | None = None
        self._closed = False
        self._checkpoints = 0

    @classmethod
    def open(
        cls,
        disk: Disk,
        clock: Clock,
        random: Random,
        path: str,
        *,
        broker_id: int,
        cluster_id: str,
        periods: Periods | None = None,
        strategy: Strategy = fdatasync_each,
    ) -> "LogDirectory":
        """Take the directory, made where it is missing; no log is loaded yet. Blocking.

        ConfigError: another process holds it, or it belongs to another broker or cluster.
        CorruptLogError: a checkpoint file that is none. OSError.
        """
        self = cls(disk, clock, random, path, periods=periods or Periods(), strategy=strategy)
        _make_durably(disk, path)
        try:
            self._unlock = disk.lock(f"{path}/{names.LOCK}")
        except BlockingIOError:
            raise ConfigError(f"log.dirs={path}: in use by another process") from None
        try:
            self.identity = Identity.claim(disk, path, broker_id, cluster_id)
            marker = f"{path}/{names.CLEAN_SHUTDOWN}"
            self.was_clean = disk.exists(marker)
            self._know_the_boot()
            self.checkpoints.read(used_before=self._used_before)
            self.at_rest.read()
            self.bounds.open()
            if self.was_clean:
                disk.remove(marker)
                disk.sync_directory(path)
        except BaseException:
            self._unlock()
            raise
        self.shared.failed = self._failed
        self.shared.flush_soon = self.flusher.flush_soon
        self.shared.delay_removal = self._housekeeping.remove_later
        self.shared.starts_moved = self.checkpoint
        self.shared.publish = self.bounds.publish
        self.shared.lower = self.bounds.lower
        self.shared.checkpoint_now = lambda: self.checkpoints.write_now(self.logs)
        return self

    def _know_the_boot(self) -> None:
        """Tell whether the machine was down since the last start here."""
        path = f"{self.path}/{names.BOOT_ID}"
        content = read_file(self.disk, path)
        before = "" if content is None else files.read_boot_id(content)
        now = self.disk.boot_id()
        self._used_before = content is not None
        self.same_boot = bool(now) and before == now
        self.power_lost = bool(now and before) and before != now and not self.was_clean
        if self.power_lost:
            _logger.warning(
                "%s: the machine went down without a clean stop of the broker: of what was not "
                "flushed any part may be missing; it is read again above its recovery points",
                self.path,
            )

    @property
    def failure(self) -> StorageError | None:
        """Why the directory is fenced; None while it works."""
        return self.shared.failure

    @property
    def fenced(self) -> bool:
        """Whether the directory has failed."""
        return self.shared.failure is not None

    def _failed(self, error: OSError, path: str) -> None:
        _logger.critical("%s: %s; the log directory %s is fenced", path, error, self.path)
        if self.on_failure is not None:
            self.on_failure(error)

    # --- loading -----------------------------------------------------------------------------

    def found(self) -> list[TopicPartition]:
        """Partitions that have a directory here. Cleans up what deletions left. Blocking."""
        partitions = []
        deleted = []
        for name in self.disk.list(self.path):
            path = f"{self.path}/{name}"
            if name == names.KRAFT_METADATA or not self.disk.is_directory(path):
                continue
            if name.endswith(names.DELETE_SUFFIX):
                deleted.append(name)
                continue
            partition = names.parse_directory(name)
            if partition is None:
                _logger.warning("%s: not a partition's directory, left alone", path)
                continue
            partitions.append(partition)
        self._forget_what_is_gone(partitions, deleted)
        return partitions

    def _forget_what_is_gone(self, present: list[TopicPartition], deleted: list[str]) -> None:
        """Remove deleted logs, once no checkpoint says a word of them.

        What was flushed of a deleted log would else be held against a new one of that name. After a
        kill an entry may be either's; a clean stop has written them all anew.
        """
        stems = set() if self.was_clean else {names.stem_of(name) for name in deleted}
        there = set(present)
        gone = [
            partition
            for partition in self.checkpoints.listed()
            if partition not in there or names.deletion_stem(partition) in stems
        ]
        for partition in gone:
            self.checkpoints.forget(partition)
        try:
            if gone:
                self.checkpoints.write_now({})
            for name in deleted:
                self.disk.remove_tree(f"{self.path}/{name}")
        except OSError as error:
            _logger.warning("%s: deleted logs are left for the next start: %s", self.path, error)

    def load_blocking(self, config_of: Callable[[TopicPartition], LogConfig]) -> None:
        """Load every log now."""
        self._take(self._load_some(self.found(), config_of))
        self._settle_recovery()

    def _settle_recovery(self) -> None:
        """Put on the platter what recovery went by, and the boot it was done in; blocking. OSError.

        The boot is noted only now: a kill halfway leaves logs that still bear a power cut's marks.
        """
        unsynced, self.shared.unsynced = self.shared.unsynced, []
        if len(unsynced) > _SYNCED_SINGLY_MAX:
            self.disk.sync_all(self.path)
        else:
            _sync_each(self.disk, unsynced)
        if not self.same_boot:
            self.checkpoints.write_now(self.logs)
            boot_id = files.write_boot_id(self.disk.boot_id())
            self.disk.replace(f"{self.path}/{names.BOOT_ID}", boot_id)
            self.same_boot = True

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
                self.disk.run(lambda: self._load_some(chunk, config_of), taken)
            elif running == 0:
                finish(failed[0] if failed else None)

        def finish(error: BaseException | None) -> None:
            if error is None:
                self.disk.run(self._settle_recovery, done)
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

        self.disk.run(self.found, listed)

    def _load_some(
        self,
        partitions: Sequence[TopicPartition],
        config_of: Callable[[TopicPartition], LogConfig],
    ) -> Loaded:
        loaded: Loaded = []
        for partition in partitions:
            known = self._known(partition)
            path = f"{self.path}/{partition}"
            try:
                config = config_of(partition)
                log = self.at_rest.open(path, partition, config, known)
                if log is None:
                    log = open_log(self.shared, path, partition, config, known)
                loaded.append((partition, log))
            except CorruptLogError as error:
                loaded.append((partition, error))
        return loaded

    def _known(self, partition: TopicPartition) -> Known:
        return self.checkpoints.known(
            partition,
            clean=self.was_clean,
            same_boot=self.same_boot,
            now_ms=self.clock.wall_ms(),
            producer_expiration_ms=self.periods.producer_id_expiration_ms,
        )

    def _take(self, loaded: Loaded) -> None:
        for partition, result in loaded:
            if isinstance(result, Log):
                self.logs[partition] = result
                self.checkpoints.forget(partition)
            else:
                self.quarantined[partition] = result
                _logger.error("%s: out of service: %s", partition, result)

    # --- partitions come and go --------------------------------------------------------------

    def prepare_logs(
        self,
        wanted: Sequence[TopicPartition],
        topic_id: bytes,
        config: LogConfig,
        done: Callable[[BaseException | None], None],
    ) -> None:
        """Make the files of new logs off the thread, for `create_log` to take up.

        Making a file may wait for the file system's journal. What could not be made is tried again
        by `create_log`, which says why not.
        """
        missing = [one for one in wanted if one not in self.logs and one not in self.quarantined]
        for one in missing:
            # Before the directory is there: nobody takes a former topic's checkpoints for its.
            self.bounds.add(topic_id, one.partition)

        def make() -> list[Log]:
            made = []
            with suppress(OSError):
                for one in missing:
                    at = f"{self.path}/{one}"
                    made.append(create_log(self.shared, at, one, topic_id, config))
            return made

        def made(result: list[Log] | BaseException) -> None:
            if isinstance(result, BaseException):
                done(result)
                return
            self._prepared.update((log.topic_partition, log) for log in result)
            done(None)

        if self.fenced or not missing:
            done(None)
        else:
            self.disk.run(make, made)

    def prepared(self, partition: TopicPartition) -> bool:
        """Whether `prepare_logs` has made the files of this partition."""
        return partition in self._prepared

    def create_log(
        self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig
    ) -> Log:
        """A new, empty log; durable with its first flush, which is asked for here.

        StorageError: the directory has failed. CorruptLogError: the partition is out of service.
        """
        if self.shared.failure is not None:
            raise self.shared.failure
        if topic_partition in self.quarantined:
            raise self.quarantined[topic_partition]
        invariant(topic_partition not in self.logs, f"{topic_partition} exists already")
        path = f"{self.path}/{topic_partition}"
        log = self._prepared.pop(topic_partition, None)
        if log is None:
            # Before the directory is there: nobody takes a former topic's checkpoints for its.
            self.bounds.add(topic_id, topic_partition.partition)
            if self.shared.failure is not None:
                raise self.shared.failure
            try:
                log = create_log(self.shared, path, topic_partition, topic_id, config)
            except OSError as error:
                raise self.shared.fail(error, path) from error
        self.checkpoints.forget(topic_partition)
        self.logs[topic_partition] = log
        self.flusher.flush_soon(log)
        return log

    def delete_log(self, topic_partition: TopicPartition) -> None:
        """Take the partition out and rename its directory away; it is removed after its delay.

        A quarantined partition goes too. StorageError.
        """
        log = self.logs.pop(topic_partition, None)
        damaged = self.quarantined.pop(topic_partition, None)
        if log is None and damaged is None:
            return
        self.checkpoints.forget(topic_partition)
        if log is not None:
            log.retire()
            if self.shared.before_cut is not None:
                self.shared.before_cut(log, None)
            self.bounds.forget(log.topic_id, topic_partition.partition)
        source = f"{self.path}/{topic_partition}"
        target = f"{self.path}/{names.delete_directory(topic_partition, self.random.uuid())}"
        try:
            self.disk.rename(source, target)
        except OSError as error:
            raise self.shared.fail(error, source) from error
        # Else a power cut brings the partition back although its topic is gone.
        self.disk.run(lambda: self.disk.sync_directory(self.path), self._synced)
        delay_ms = (
            LogConfig().file_delete_delay_ms if log is None else (log.config.file_delete_delay_ms)
        )
        # As long as it lies there a start after a kill believes no checkpoint of that name.
        self._housekeeping.remove_later(
            delay_ms, lambda: self.checkpoint(lambda: self._remove(target, log))
        )

    def _synced(self, result: BaseException | None) -> None:
        if isinstance(result, OSError):
            self.shared.fail(result, self.path)

    def _remove(self, path: str, log: Log | None) -> None:
        if log is not None:
            log.release()

        def removed(result: BaseException | None) -> None:
            if isinstance(result, OSError) and not isinstance(result, FileNotFoundError):
                _logger.warning("%s: could not be removed: %s", path, result)

        self.disk.run(lambda: self.disk.remove_tree(path), removed)

    # --- duties ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin the periodic duties: checkpoints, retention, producer expiry, removals, scrub."""
        if not self.quarantined:
            self.bounds.keep_only(self.logs.values())
        self.bounds.publish(self.logs.values())
        self.at_rest.forget()
        self._housekeeping.start()
        self.scrub.start()

    def end_duties(self) -> None:
        """No periodic duty begins any more; what runs is over when `writing` is False."""
        self._housekeeping.stop()
        self.scrub.stop()

    @property
    def writing(self) -> bool:
        """Whether files of the directory's own are being written off the thread.

        `close` writes the same ones: whoever closes cleanly waits until it is False.
        """
        return self.checkpoints.writing or self.at_rest.writing

    def apply_retention(self) -> None:
        """Retention for every log, now."""
        self._housekeeping.retain_all()

    def checkpoint(self, done: Callable[[], None] | None = None) -> None:
        """Write the checkpoints that have changed, off the thread."""
        if self.bounds.changed and not self.fenced:
            self.disk.run(self.bounds.sync, self._bounds_synced)
        self.checkpoints.write_soon(self.logs, done)
        self._checkpoints += 1
        if self._checkpoints % AT_REST_EVERY == 0 and not self.fenced and not self._closed:
            self.at_rest.write_soon(self.logs.values(), self.clock)

    def _bounds_synced(self, result: BaseException | None) -> None:
        if isinstance(result, OSError) and not self._closed:
            self.shared.fail(result, self.path)

    def sizes(self) -> Mapping[TopicPartition, int]:
        """Bytes of each partition's segments (DescribeLogDirs)."""
        return {at: sum(one.size for one in log.segments) for at, log in self.logs.items()}

    def close(self, clean: bool = True) -> None:
        """Close all logs, write all checkpoints and, if all went well, the clean-shutdown marker.

        Blocking: for shutdown. With `clean` False, as a kill would leave it.
        """
        if self._closed:
            return
        self._closed = True
        self.flusher.close()
        self.end_duties()
        try:
            for log in self.logs.values():
                log.close(clean)
            if clean and not self.fenced:
                self.checkpoints.write_now(self.logs)
                self.at_rest.write_last(self.logs.values())
                if not self.quarantined:
                    # Without it the next start looks at what was damaged again.
                    marker = f"{self.path}/{names.CLEAN_SHUTDOWN}"
                    self.disk.replace(marker, files.write_clean_shutdown())
                    self.bounds.close(remove=True)
        except OSError as error:
            raise self.shared.fail(error, self.path) from error
        finally:
            for log in self.logs.values():
                log.close(clean=False)
            self.bounds.close(remove=False)
            if self._unlock is not None:
                self._unlock()


def _sync_each(disk: Disk, paths: Sequence[str]) -> None:
    """Make files and their names durable; missing ones are passed over. Blocking. OSError."""
    for path in paths:
        try:
            file = disk.open(path)
        except FileNotFoundError:
            continue
        try:
            file.sync()
        finally:
            file.close()
    for parent in sorted({path.rpartition("/")[0] for path in paths}):
        disk.sync_directory(parent)


def _make_durably(disk: Disk, path: str) -> None:
    """Make a directory and its parents so that a power cut takes none of them back."""
    missing = []
    while path and not disk.is_directory(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    if missing:
        disk.make_directory(missing[0])
    for made in missing:
        disk.sync_directory(made.rpartition("/")[0] or ("/" if made.startswith("/") else "."))
