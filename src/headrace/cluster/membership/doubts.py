"""Which of this broker's replicas may lack what was committed: found at its start, told, resolved.

Each log directory has a file that names it and all directories of its broker, and says whether acks
waited for its flushes. So a start knows that a directory is gone, and what a power cut can have
taken. A doubt ends when a controller that was told of it orders the replica to lead or to follow;
the registration says so before the order is carried out. See ADR 27.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import NO_LEADER
from headrace.cluster.decisions.orders import Orders, Stop
from headrace.cluster.store.doubts import LOST, Doubt, Doubts
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.config.broker import BrokerConfig
from headrace.log import file_names
from headrace.log.directory.failed_at_start import give_up, hold
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.log import Log
from headrace.log.text_files import NO_TOPIC_ID, encode_uuid, read_file, read_properties
from headrace.model.errors import ConfigError
from headrace.model.nouns import NO_EPOCH, Offset, TopicPartition, counted
from headrace.posix.awaiting import called_back

_logger = logging.getLogger(__name__)

FLUSHED, UNFLUSHED, UNCLEAN = "flushed", "unflushed", "unclean"

UNKNOWN = "unknown"
"""In place of the ids of directories that there may have been."""


class Note(NamedTuple):
    """What a directory's file says."""

    directory_id: str
    together: tuple[str, ...]
    """The ids of all directories of its broker; of those that are gone too, while that matters."""
    boot_id: str
    acks: str
    """FLUSHED: they wait for the disk. UNFLUSHED: not, under this boot. UNCLEAN: a power cut came,
    and replicas are in doubt still."""


class OwnDoubts:
    """The doubts about this broker's replicas. On the deciding thread."""

    def __init__(self, broker: Broker) -> None:
        """Nothing is known yet."""
        self.doubts: dict[TopicPartition, Doubt] = {}
        """Those that no controller has taken into account."""
        self._broker = broker
        self._ids: dict[str, str] = {}
        """Of the directories, by path."""
        self._gone: set[str] = set()
        """Ids of directories that this broker had, while replicas are in doubt."""
        self._unclean: set[str] = set()
        """Paths of directories that a power cut took acknowledged records from, perhaps."""
        self._whole = False
        """Whether the directories are those that there were: what they do not have was not made."""
        self._unflushed = False
        """Whether acks have been given without a flush since the start."""
        self._never_made: set[TopicPartition] = set()

    # --- at the start --------------------------------------------------------------------------

    async def judge(self) -> None:
        """Read what the directories say of their last stop, and note what a second one must know.

        Before any log is loaded. ConfigError: a file makes no sense.
        """
        broker = self._broker
        found: dict[str, Note] = {}
        for directory in self._working():
            note = await called_back(partial(directory.disk.run, partial(_read, directory)))
            if note is not None:
                found[directory.path] = note
                if _is_unclean(directory, note):
                    self._unclean.add(directory.path)
            directory_id = note.directory_id if note else encode_uuid(broker.random.uuid())
            self._ids[directory.path] = directory_id
        together = {directory_id for note in found.values() for directory_id in note.together}
        self._gone = together - set(self._ids.values())
        if not found:  # nobody knows what there was: so says the file until that is settled
            self._gone = {UNKNOWN}
        self._whole = not self._gone
        if found and self._gone - {UNKNOWN} and self._failed() is None:
            _logger.error(
                "log.dirs=%s: of the log directories that this broker had, missing: directory.id=%s"
                " (as the file %s in it says). Name it in log.dirs again. If it is lost: replicas"
                " that lay there lead nothing; where other brokers have them they are fetched",
                ",".join(sorted(self._ids)), ", ".join(sorted(self._gone)), file_names.DIRECTORIES,
            )  # fmt: skip
        for directory in self._working():
            try:
                await self._write_in(directory)
            except OSError as error:
                # Without it a later start could take lost replicas for never created.
                give_up(directory, error)
        broker.reconfigured.append(self._reconfigured)

    def find(self, topics: Iterable[StoredTopic]) -> None:
        """Note which of the store's replicas here are in doubt. The logs are loaded."""
        here: dict[TopicPartition, tuple[Log, bool]] = {}
        for directory in self._broker.directories:
            for key, log in directory.logs.items():
                here[key] = log, directory.path in self._unclean
        for topic in topics:
            for index, replicas in topic.node.partitions.items():
                if self._broker.broker_id in replicas and index in topic.states:
                    doubt = self._doubt(topic, index, here)
                    self._leave_to_failed(TopicPartition(topic.name, index), doubt)
                    if doubt is not None and (doubt == LOST or len(replicas) > 1):
                        self.doubts[TopicPartition(topic.name, index)] = doubt
        if self.doubts:
            _logger.warning(
                "%s may lack committed records, %d of them without a log here: they lead nothing"
                " that another in-sync replica can lead, and are fetched again",
                counted(len(self.doubts), "replica"), list(self.doubts.values()).count(LOST),
            )  # fmt: skip

    def _doubt(
        self,
        topic: StoredTopic,
        index: int,
        here: Mapping[TopicPartition, tuple[Log, bool]],
    ) -> Doubt | None:
        key = TopicPartition(topic.name, index)
        log, is_unclean = here.get(key, (None, bool(self._unclean)))
        if log is not None and log.topic_id in (topic.node.topic_id, NO_TOPIC_ID):
            return Doubt(log.epochs.latest, log.end_offset) if is_unclean else None
        if any(key in directory.quarantined for directory in self._working()):
            return None  # it is damaged, and refuses by itself
        if not self._whole or self._broker.has_replica(key) or self._was_set_aside(topic, index):
            return LOST
        if self._failed() is not None:
            return LOST
        # All directories are there, and none has it: it was never made, or gone with a power cut.
        self._never_made.add(key)
        return Doubt(NO_EPOCH, Offset(0)) if is_unclean else None

    def _working(self) -> list[LogDirectory]:
        return [directory for directory in self._broker.directories if not directory.fenced]

    def _failed(self) -> LogDirectory | None:
        """Return a directory whose disk failed at this start, if one did."""
        return next((each for each in self._broker.directories if each.fenced), None)

    def _leave_to_failed(self, key: TopicPartition, doubt: Doubt | None) -> None:
        """Have a replica that is missing while a directory has failed be offline, as by Kafka.

        It lies there, most probably; fetched into another directory it would be there twice.
        """
        failed = self._failed()
        if doubt == LOST and failed is not None and not self._broker.has_replica(key):
            hold(failed, key)

    def _was_set_aside(self, topic: StoredTopic, index: int) -> bool:
        """Return whether this topic's own log lies in a `-stray` directory: it is not served."""
        return any(
            stray.topic_id == topic.node.topic_id and stray.partition.partition == index
            for directory in self._broker.directories
            for stray in directory.strays
        )

    async def settle(self) -> None:
        """Have the next start doubt nothing of what this one found, where that is settled.

        Where a replica is lost though all directories are there, the next start must know: by then
        the directory or checkpoint that showed it may be gone.
        """
        if self.doubts:
            if self._gone or LOST not in self.doubts.values():
                return
            self._gone = {UNKNOWN}
        elif self._gone or self._unclean:
            self._gone.clear()
            self._unclean.clear()
        else:
            return
        try:
            await self._write()
        except OSError as error:
            _logger.warning("log.dirs: %s: the next start doubts the same replicas again", error)

    # --- later ---------------------------------------------------------------------------------

    def may_make(self, key: TopicPartition) -> bool:
        """Tell whether a log that is not here was never here: then it may be made to be led."""
        fenced = any(directory.fenced for directory in self._broker.directories)
        return key in self._never_made and not fenced

    async def heard(
        self, orders: Orders, broker_epoch: int, tell: Callable[[Doubts], Awaitable[None]]
    ) -> None:
        """End the doubts that a controller has taken into account: before its orders are done.

        `tell` has the registration say what is left.
        """
        if not self.doubts or orders.broker_epoch < broker_epoch:
            return
        left = dict(self.doubts)
        for order in orders.orders:
            if isinstance(order, Stop):
                left.pop(order.topic_partition, None)
            elif order.replication.leader != NO_LEADER:
                left.pop(order.replication.topic_partition, None)
        if len(left) < len(self.doubts):
            await tell(left)
            self.doubts = left
            await self.settle()

    def _reconfigured(self, config: BrokerConfig) -> None:
        """Note at once that acks wait for flushes no more."""
        if not config.log_flush_on_ack and not self._unflushed:
            for directory in self._broker.directories:
                if not directory.fenced:
                    directory.disk.run(
                        partial(_put, directory, self._content(directory)), _put_late
                    )

    # --- files ---------------------------------------------------------------------------------

    def _content(self, directory: LogDirectory) -> bytes:
        self._unflushed = self._unflushed or not self._broker.config.log_flush_on_ack
        acks = UNFLUSHED if self._unflushed else FLUSHED
        if directory.path in self._unclean:
            acks = UNCLEAN
        together = sorted({*self._ids.values(), *self._gone})
        return (
            f"version=0\ndirectory.id={self._ids[directory.path]}\ntogether={','.join(together)}\n"
            f"boot.id={directory.disk.boot_id()}\nacks={acks}\n"
        ).encode()

    async def _write(self) -> None:
        for directory in self._working():
            await self._write_in(directory)

    async def _write_in(self, directory: LogDirectory) -> None:
        work = partial(_put, directory, self._content(directory))
        await called_back(partial(directory.disk.run, work))


def _path_in(directory: LogDirectory) -> str:
    return f"{directory.path}/{file_names.DIRECTORIES}"


def _put(directory: LogDirectory, content: bytes) -> None:
    """Write the file where it says something else: a full disk has no room. Blocking. OSError."""
    if read_file(directory.disk, _path_in(directory)) != content:
        directory.disk.replace(_path_in(directory), content)


def _put_late(result: BaseException | None) -> None:
    if result is not None:
        _logger.error("log.dirs: that acks do not wait for flushes cannot be noted: %s", result)


def _read(directory: LogDirectory) -> Note | None:
    """Return what the file says; None where there is none. Blocking. ConfigError."""
    content = read_file(directory.disk, _path_in(directory))
    if content is None:
        return None
    found = read_properties(content)
    try:
        together = tuple(found["together"].split(","))
        return Note(found["directory.id"], together, found["boot.id"], found["acks"])
    except KeyError as missing:
        raise ConfigError(
            f"{_path_in(directory)}: {missing.args[0]} is missing; remove the file: what is not"
            " in this broker's directories is then fetched from others"
        ) from None


def _is_unclean(directory: LogDirectory, note: Note) -> bool:
    """Tell whether records may be gone that were acknowledged from the page cache."""
    if note.acks == UNCLEAN:
        return True
    loader, boot_id = directory.loader, directory.disk.boot_id()
    same_boot = bool(boot_id) and boot_id == note.boot_id and not loader.doubted
    return note.acks == UNFLUSHED and not loader.was_clean and not same_boot
