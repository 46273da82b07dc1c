"""`OwnDoubts`: replicas of this broker that may lack committed records, found at its start.

Each log directory has a file that names it and all directories of its broker, and says whether acks
waited for flushes (`directory_notes`). From these files a start learns that a directory is missing,
that a directory is an older copy (`directory_stamps`), and that a power failure may have taken
acknowledged records. Another file names single logs that lack records (`given_up_replicas`).

      in doubt ──► in the broker's registration ──► an order to lead, follow or stop arrives
         ▲                                                      │
         └── the next start finds it again    registration without it ──► order carried out

A doubt ends when a controller that read it in the registration orders the replica to lead, to
follow or to stop. The registration is updated before the order is carried out. See ADR 27, ADR 64.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import NO_LEADER
from headrace.cluster.decisions.orders import Orders, Stop
from headrace.cluster.membership import directory_notes
from headrace.cluster.membership.directory_notes import FLUSHED, UNCLEAN, UNFLUSHED, Note
from headrace.cluster.membership.directory_stamps import DirectoryStamps
from headrace.cluster.membership.given_up_replicas import GivenUpReplicas
from headrace.cluster.store.reaction import Reaction
from headrace.cluster.store.stored_doubts import (
    LOST,
    OLDER,
    OUT_OF_SERVICE,
    REPAIRED,
    Doubt,
    Doubts,
)
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.config.broker import BrokerConfig
from headrace.log import file_names
from headrace.log.directory.failed_at_start import give_up, hold
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.log import Log
from headrace.log.text_files import NO_TOPIC_ID, encode_uuid
from headrace.model.nouns import NO_EPOCH, Offset, TopicPartition, counted
from headrace.ports.store import Store
from headrace.posix.awaiting import called_back

_logger = logging.getLogger(__name__)

UNKNOWN = "unknown"
"""Stands in a note for the ids of directories that may have existed."""
NAMED_MAX = 20
"""Replicas in doubt that are named in one log line at most."""


class OwnDoubts:
    """The doubts about this broker's replicas. On the deciding thread."""

    def __init__(self, broker: Broker, store: Store) -> None:
        """Create without doubts; `judge` and `find` add them.

        `store`: the cluster's metadata store.
        """
        self.doubts: dict[TopicPartition, Doubt] = {}
        """Replicas in doubt for which no controller has sent an order yet."""
        self._broker = broker
        self._ids: dict[str, str] = {}
        """Id of each log directory, by its path."""
        self._gone: set[str] = set()
        """Ids of missing directories of this broker; {UNKNOWN}: they are not known. Empty once
        settled."""
        self._unclean: set[str] = set()
        """Paths of directories where a power failure may have taken acknowledged records."""
        self._older: set[str] = set()
        """Paths of directories that are older copies of this broker's directories."""
        self._whole = False
        """Whether no directory is missing, so that a log in none of them was never created."""
        self._unflushed = False
        """Whether records have been acknowledged without a flush since the start."""
        self._never_made: set[TopicPartition] = set()
        """Replicas whose logs were never created, or were lost with the page cache in a power
        failure."""
        self._writing = asyncio.Lock()
        """Held while a note is composed and written, so that the newest note is written last."""
        self._noting = Reaction(
            self._note_unflushed, "log.dirs: log.flush.on.ack=false is not recorded"
        )
        self._stamps = DirectoryStamps(broker, store, self._write_stamped)
        self._given_up = GivenUpReplicas(broker)
        self.stop = self._stamps.stop

    # --- at the start --------------------------------------------------------------------------

    async def judge(self) -> None:
        """Read each directory's note of its last stop, and write the note for the next start.

        Call it before any log is loaded. ConfigError: a note is malformed. Raises StoreError.
        """
        broker, stamps = self._broker, self._stamps
        await stamps.read()
        found: dict[str, Note] = {}
        for directory in self._working():
            note = await called_back(
                partial(directory.disk.run, partial(directory_notes.read, directory))
            )
            if note is not None:
                found[directory.path] = note
                if _is_unclean(directory, note):
                    self._unclean.add(directory.path)
            directory_id = note.directory_id if note else encode_uuid(broker.random.uuid())
            self._ids[directory.path] = directory_id
            holds_logs = await called_back(
                partial(directory.disk.run, partial(_holds_logs, directory))
            )
            lost = directory.checkpoints.lost(file_names.RECOVERY_POINTS)
            if lost or stamps.is_older(note, holds_logs=holds_logs):
                self._older.add(directory.path)
        together = {directory_id for note in found.values() for directory_id in note.together}
        self._gone = together - set(self._ids.values())
        if not found:  # no note: noted as such until the doubts end
            self._gone = {UNKNOWN}
        self._whole = not self._gone
        self._say(found)
        for directory in self._working():
            try:
                await self._write_note(directory)
            except OSError as error:
                # Without it a later start could take lost replicas for never created.
                give_up(directory, error)
        broker.reconfigured.append(self._reconfigured)

    def _say(self, found: Mapping[str, Note]) -> None:
        """Log older copies and missing directories."""
        for path in sorted(self._older):
            _logger.error(
                "%s: this is an older copy of a log directory of broker %d, or its checkpoints are"
                " gone. Its replicas leave the ISR where another in-sync replica exists, and are"
                " fetched from their leaders", path, self._broker.broker_id,
            )  # fmt: skip
        if found and self._gone - {UNKNOWN} and self._failed() is None:
            _logger.error(
                "log.dirs=%s: a log directory that this broker had is missing: directory.id=%s"
                " (in its file %s). Add it to log.dirs again. If it is lost: its replicas are not"
                " elected, and are fetched from their leaders",
                ",".join(sorted(self._ids)), ", ".join(sorted(self._gone)), file_names.DIRECTORIES,
            )  # fmt: skip

    async def find(self, topics: Iterable[StoredTopic]) -> None:
        """Find the replicas in doubt among `topics` of the store.

        Call it after the logs are loaded.
        """
        if not await self._given_up.read():
            self._older |= {directory.path for directory in self._broker.directories}
            await self._write()
        here: dict[TopicPartition, tuple[Log, str]] = {}
        for directory in self._broker.directories:
            for key, log in directory.logs.items():
                here[key] = log, directory.path
        for topic in topics:
            for index, replicas in topic.node.partitions.items():
                if self._broker.broker_id in replicas and index in topic.states:
                    doubt = self._doubt(topic, index, here)
                    key = TopicPartition(topic.name, index)
                    self._leave_to_failed(key, doubt)
                    if doubt is not None and (doubt == LOST or len(replicas) > 1):
                        self.doubts[key] = doubt
                    else:
                        self._given_up.forget(key)
        await self._given_up.write()
        if self.doubts:
            by_name = sorted(self.doubts.items(), key=lambda it: (it[1].cause == OLDER, it[0]))
            named = [f"{key} ({doubt.cause})" for key, doubt in by_name]
            more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
            _logger.warning(
                "%s may lack committed records, %d of them without a log here: they leave the ISR"
                " where another in-sync replica exists, and are fetched from their leaders: %s%s",
                counted(len(self.doubts), "replica"),
                sum(doubt.is_lost for doubt in self.doubts.values()),
                ", ".join(named[:NAMED_MAX]), more,
            )  # fmt: skip

    def _doubt(
        self,
        topic: StoredTopic,
        index: int,
        here: Mapping[TopicPartition, tuple[Log, str]],
    ) -> Doubt | None:
        """Return the doubt about a replica assigned to this broker; None: there is no doubt."""
        key = TopicPartition(topic.name, index)
        log, path = here.get(key, (None, ""))
        if log is not None and log.topic_id in (topic.node.topic_id, NO_TOPIC_ID):
            return self._doubt_of(log, path)
        if any(key in directory.quarantined for directory in self._working()):
            return OUT_OF_SERVICE
        if self._given_up.was_here(key, topic.topic_id) or self._older:
            return LOST
        if not self._whole or self._broker.has_replica(key) or self._was_set_aside(topic, index):
            return LOST
        if self._failed() is not None:
            return LOST
        # No directory is missing and none has the log: it was never created, or a power failure
        # took it.
        self._never_made.add(key)
        return Doubt(NO_EPOCH, Offset(0)) if self._unclean else None

    def _doubt_of(self, log: Log, path: str) -> Doubt | None:
        """Return the doubt about an existing log, with its last leader epoch and its end offset."""
        found = Doubt(log.epochs.latest, log.end_offset)
        if log.topic_partition in self._given_up:
            return found._replace(cause=REPAIRED)
        if path in self._older:
            return found._replace(cause=OLDER)
        return found if path in self._unclean else None

    def start(self) -> None:
        """Begin to renew the log directories' stamps. Call it once the broker is registered."""
        self._stamps.start()

    def _working(self) -> list[LogDirectory]:
        """Return the directories that are not fenced."""
        return [directory for directory in self._broker.directories if not directory.fenced]

    def _failed(self) -> LogDirectory | None:
        """Return a directory whose disk failed at this start, or None."""
        return next((each for each in self._broker.directories if each.fenced), None)

    def _leave_to_failed(self, key: TopicPartition, doubt: Doubt | None) -> None:
        """Keep a missing replica offline while a log directory has failed, as Kafka does.

        Its log is most probably in that directory. Fetched into another directory, it would exist
        twice.
        """
        failed = self._failed()
        if doubt == LOST and failed is not None and not self._broker.has_replica(key):
            hold(failed, key)

    def _was_set_aside(self, topic: StoredTopic, index: int) -> bool:
        """Return whether this topic's log is in a `-stray` directory, which is not served."""
        return any(
            stray.topic_id == topic.node.topic_id and stray.partition.partition == index
            for directory in self._broker.directories
            for stray in directory.strays
        )

    async def settle(self) -> None:
        """Clear the notes for the next start once no replica is in doubt.

        If replicas are lost although no directory is missing, the notes say so instead: at the next
        start the directory or checkpoint that showed it may not exist any more.
        """
        if self.doubts:
            if self._gone or not any(doubt.is_lost for doubt in self.doubts.values()):
                return
            self._gone = {UNKNOWN}
        elif self._gone or self._unclean or self._older:
            self._gone.clear()
            self._unclean.clear()
            self._older.clear()
        else:
            return
        try:
            await self._write()
        except OSError as error:
            _logger.warning(
                "log.dirs: cannot write %s: %s. The next start decides by the former content which"
                " replicas may lack committed records. Free space on the disk",
                file_names.DIRECTORIES, error,
            )  # fmt: skip

    # --- later ---------------------------------------------------------------------------------

    def may_make(self, key: TopicPartition) -> bool:
        """Return whether a missing log was never created: then it may be created to lead."""
        fenced = any(directory.fenced for directory in self._broker.directories)
        return key in self._never_made and not fenced

    def is_damaged(self, key: TopicPartition) -> bool:
        """Return whether damaged batches were found in the replica's log since the start."""
        return any(
            directory.context.damaged
            and (log := directory.logs.get(key)) is not None
            and log.damage.met
            for directory in self._broker.directories
        )

    async def heard(
        self, orders: Orders, broker_epoch: int, tell: Callable[[Doubts], Awaitable[None]]
    ) -> None:
        """End the doubts about replicas that `orders` have lead, follow or stop.

        Call it before the orders are carried out. `tell` updates the registration with the doubts
        that remain.
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
            await self._given_up.ordered(orders)
            await self.settle()

    def _reconfigured(self, config: BrokerConfig) -> None:
        """Note in the directories that acks no longer wait for flushes, if that is new."""
        if not config.log_flush_on_ack and not self._unflushed:
            self._noting.ask()

    async def _note_unflushed(self) -> None:
        try:
            await self._write()
        except OSError as error:
            _logger.error(
                "log.dirs: cannot write to %s that log.flush.on.ack is false: %s. After a power"
                " failure the next start may not notice that replicas lack acknowledged records."
                " Free space on the disk", file_names.DIRECTORIES, error,
            )  # fmt: skip

    # --- files ---------------------------------------------------------------------------------

    def _note(self, directory: LogDirectory) -> Note:
        """Return the note of a directory."""
        self._unflushed = self._unflushed or not self._broker.config.log_flush_on_ack
        acks = UNFLUSHED if self._unflushed else FLUSHED
        if directory.path in self._unclean:
            acks = UNCLEAN
        directory_id, older = self._ids[directory.path], directory.path in self._older
        together = tuple(sorted({*self._ids.values(), *self._gone}))
        stamps = () if older else self._stamps.of(directory_id)
        boot_id = directory.disk.boot_id()
        return Note(directory_id, together, boot_id, acks, stamps, older)

    async def _write(self) -> None:
        """Write the notes of all working directories. Raises OSError."""
        for directory in self._working():
            await self._write_note(directory)

    async def _write_note(self, directory: LogDirectory) -> None:
        async with self._writing:
            work = partial(directory_notes.write, directory, self._note(directory))
            await called_back(partial(directory.disk.run, work))

    async def _write_stamped(self) -> list[str]:
        """Write the stamps into the directories; return the ids of directories written."""
        written = []
        for directory in self._working():
            if directory.path in self._older:
                continue
            try:
                await self._write_note(directory)
            except OSError as error:
                _logger.debug("%s: %s", directory.path, error)  # its former stamp stays
            else:
                written.append(self._ids[directory.path])
        return written


def _holds_logs(directory: LogDirectory) -> bool:
    """Return whether the log directory has a partition's directory. Blocking. Raises OSError."""
    return any(map(file_names.parse_directory, directory.disk.list(directory.path)))


def _is_unclean(directory: LogDirectory, note: Note) -> bool:
    """Return whether a power failure may have taken records acknowledged before a flush."""
    if note.acks == UNCLEAN:
        return True
    loader, boot_id = directory.loader, directory.disk.boot_id()
    same_boot = bool(boot_id) and boot_id == note.boot_id and not loader.doubted
    return note.acks == UNFLUSHED and not loader.was_clean and not same_boot
