"""`GivenUpReplicas`: logs of this broker that lack flushed records.

The logs were repaired, or their files are missing.

The file of `log.directory.given_up` names them until a controller that knows of it orders the
replica to lead or to follow. A replica that is to follow starts with an empty log: its former log
may have gaps between offsets, and a follower never fetches the missing records. The former log is
renamed to a `-stray` directory and keeps all its bytes.
"""

import logging
from collections.abc import Iterable
from functools import partial

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import NO_LEADER
from headrace.cluster.decisions.orders import Follow, Order, Orders, Stop
from headrace.log.directory import given_up
from headrace.log.directory.log_directory import LogDirectory
from headrace.model.errors import CorruptLogError, StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.callbacks import Done
from headrace.posix.awaiting import called_back

_logger = logging.getLogger(__name__)


class GivenUpReplicas:
    """The logs of this broker that lack flushed records. On the deciding thread."""

    def __init__(self, broker: Broker) -> None:
        """Create without logs; `read` loads them."""
        self._broker = broker
        self._ends: dict[str, dict[TopicPartition, Offset]] = {}
        """End offset of each log that lacks records, by the path of its log directory."""
        self._written: dict[str, dict[TopicPartition, Offset]] = {}
        """`_ends` as last written to the files."""
        self._missed: list[tuple[LogDirectory, TopicPartition, bytes]] = []
        """Missing logs that checkpoints name: directory, partition and topic id."""

    def __contains__(self, key: object) -> bool:
        """Return whether the partition's log lacks records here."""
        return any(key in ends for ends in self._ends.values())

    async def read(self) -> bool:
        """Read the files, once the logs are loaded; return False if one is malformed.

        Raises OSError.
        """
        sound = True
        for directory in self._working():
            work = partial(given_up.read, directory.disk, directory.path)
            found = await called_back(partial(directory.disk.run, work))
            sound = sound and found is not None
            self._ends[directory.path] = dict(found or {})
            self._written[directory.path] = dict(found or {})
        return sound

    def was_here(self, key: TopicPartition, topic_id: bytes) -> bool:
        """Return whether a partition without a log had one with records.

        `write` makes that durable.

        The checkpoints or the read bounds of its directory name records of it.
        """
        if key in self:
            return True
        for directory in self._working():
            end = directory.loader.flushed_before(key, topic_id)
            if end > 0:
                self._ends[directory.path][key] = end
                self._missed.append((directory, key, topic_id))
        return key in self

    def forget(self, key: TopicPartition) -> None:
        """Consider the partition's log complete; `write` makes it durable."""
        for ends in self._ends.values():
            ends.pop(key, None)

    async def write(self) -> None:
        """Write the files that changed; the checkpoints then forget the missing logs."""
        for directory in self._working():
            ends = self._ends[directory.path]
            if ends == self._written[directory.path]:
                continue
            work = partial(given_up.write, directory.disk, directory.path, dict(ends))
            try:
                await called_back(partial(directory.disk.run, work))
            except OSError as error:
                _logger.warning(
                    "%s: cannot write which replicas lack records: %s. Those without a log stay"
                    " offline. Free space on the disk, then restart the broker",
                    directory.path, error,
                )  # fmt: skip
                continue
            self._written[directory.path] = dict(ends)
            self._forget_missing(directory)

    def _forget_missing(self, directory: LogDirectory) -> None:
        """Have the directory's checkpoints forget its missing logs, which its file now names."""
        for held, key, topic_id in self._missed:
            if held is directory:
                directory.loader.forget_missing(key, topic_id)
        self._missed = [missed for missed in self._missed if missed[0] is not directory]

    # --- orders --------------------------------------------------------------------------------

    async def ordered(self, orders: Orders) -> None:
        """Set aside logs that are to follow another broker, before orders are carried out."""
        settled = {key for key in map(_settled, orders.orders) if key is not None and key in self}
        if not settled:
            return
        followed = settled & set(map(_followed, orders.orders))
        kept = {key for key in sorted(followed) if not self._set_aside(key)}
        await self._forget_former()
        for key in sorted(settled - kept):
            self.forget(key)
        await self.write()

    def _set_aside(self, key: TopicPartition) -> bool:
        """Rename a partition's remaining log to a `-stray` directory.

        Return False if the disk has no space to fetch the log again; then the replica stays
        offline.
        """
        for directory in self._working():
            log = directory.logs.get(key)
            if log is None:
                continue
            size = sum(segment.size for segment in log.segments)
            self._broker.stop_partition(*key, delete=False)
            if directory.disk.free_bytes(directory.path) < size:
                directory.logs.pop(key).close(clean=False)
                why = f"{directory.path}/{key}: lacks records, and there is no space to fetch it"
                directory.quarantined[key] = CorruptLogError(why)
                _logger.error(
                    "%s: lacks records that its leader has, and there is no space to fetch it again"
                    " next to the remaining log: stop the broker, delete %s/%s and start it",
                    key, directory.path, key,
                )  # fmt: skip
                return False
            try:
                directory.set_aside(key)
            except StorageError:
                return False  # the directory has said so
            _logger.warning(
                "%s: lacks records, and is fetched again from its leader; the remaining log is set"
                " aside as a -stray directory in %s. Delete it once the replica is in sync",
                key, directory.path,
            )  # fmt: skip
        return True

    async def _forget_former(self) -> None:
        """Write the checkpoints without the former logs' ends; the new logs begin below them."""
        for directory in self._working():
            try:
                await called_back(partial(directory.disk.run, directory.bounds.sync))
            except OSError as error:
                directory.context.fail(error, directory.path)
            await called_back(partial(_checkpointed, directory))

    def _working(self) -> Iterable[LogDirectory]:
        return [directory for directory in self._broker.directories if not directory.fenced]


def _checkpointed(directory: LogDirectory, done: Done[None]) -> None:
    directory.checkpoint(lambda _: done(None))


def _settled(order: Order) -> TopicPartition | None:
    """Return the partition of an order to stop, lead or follow; None: an order without a leader."""
    if isinstance(order, Stop):
        return order.topic_partition
    return None if order.replication.leader == NO_LEADER else order.replication.topic_partition


def _followed(order: Order) -> TopicPartition | None:
    """Return the partition of an order to follow a leader; None: another order."""
    return _settled(order) if isinstance(order, Follow) else None
