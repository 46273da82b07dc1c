"""The consumers of a stream that this broker serves from its own replica of the partition.

    leader's  --`Begun`, or no leader, while a replica is in sync-->  served here
              <--the replica is closed or cannot be read------------

Consumers here read up to the replica's high watermark, whoever leads: also while no broker does.
Publishes go to the leader.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import HeadraceError
from headrace.model.invariant import InvariantError
from headrace.ports.clock import Clock
from headrace.queue_stores.queue_settings import ConsumerSettings
from headrace.queue_stores.stream.replica_log import ReplicaLog
from headrace.queue_stores.stream.stream_reader import StreamReader
from headrace.queues.engine.stream_readers import StreamReaders
from headrace.queues.port import Consumer, Disposition
from headrace.queues.queue_traffic import QueueTraffic

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.ports.clock import Timer
    from headrace.ports.disk import Disk
    from headrace.queue_stores.log.message_window import WindowsBytes

_logger = logging.getLogger(__name__)


class Replica(NamedTuple):
    """This broker's replica of a stream's partition, if it has one."""

    find: "Callable[[], Partition | None]"
    """Returns the replica that may serve new consumers: in sync, and not closed."""
    disk: "Disk"
    windows: "WindowsBytes"
    """Counts the memory of messages that were read, with those of all queues."""


class ReplicaReaders:
    """The consumers of one stream that are served here. Implements `ReplicaListener`."""

    def __init__(
        self,
        title: str,
        replica: Replica,
        clock: Clock,
        lost: Callable[[list[Consumer]], None],
    ) -> None:
        """Begin without consumers. `lost` takes those that the leader is to serve from now on."""
        self.traffic = QueueTraffic()
        """The deliveries to these consumers, and their acknowledgements."""
        self.log: ReplicaLog | None = None
        """The replica that is read; None: there are no consumers."""
        self._title = title
        self._replica = replica
        self._clock = clock
        self._lost = lost
        self._readers: dict[StreamReader, None] = {}
        self._served = StreamReaders(title, self, self.traffic)
        self._unreadable: Partition | None = None
        """A replica that could not be read: the leader serves its consumers."""
        self._failure: Exception | None = None
        """Why the replica that is read cannot be read on."""
        self._timer: Timer | None = None

    def __len__(self) -> int:
        """Return the number of consumers."""
        return len(self._served.consumers)

    def __contains__(self, consumer: Consumer) -> bool:
        """Tell whether a consumer is served here."""
        return consumer in self._served.consumers

    @property
    def unacked(self) -> int:
        """Number of deliveries that are not settled."""
        return self._served.unacked

    @property
    def is_available(self) -> bool:
        """Whether a replica here may serve further consumers."""
        return self._found() is not None

    def _found(self) -> "Partition | None":
        found = self._replica.find()
        present = None if self.log is None else self.log.partition
        if self._failure is not None or found is self._unreadable:
            return None
        return found if present in {None, found} else None

    # Consumers

    def add(self, consumer: Consumer) -> bool:
        """Serve a consumer; return False if no replica here may."""
        found = self._found()
        if found is None:
            return False
        if self.log is None:
            self.log = self._read(found)
        consumer.channel.forget(consumer)  # it was parked until another queue has its turn
        self._served.add(consumer)
        self._soon()
        return True

    def _read(self, partition: "Partition") -> ReplicaLog:
        _, disk, windows = self._replica
        return ReplicaLog(partition, disk, self._clock, self, self._readers, windows)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer that is served here."""
        self._served.remove(consumer)
        self._close_if_unused()

    def remove_all(self) -> list[Consumer]:
        """Remove all consumers, and return them: they are cancelled."""
        consumers = [*self._served.consumers]
        for consumer in consumers:
            self._served.remove(consumer)
        self._close_if_unused()
        return consumers

    def _close_if_unused(self) -> None:
        if self.log is not None and not len(self):
            self.log.close()
            self.log = self._failure = None

    def enter(self, consumer: Consumer) -> None:
        """Let a parked consumer that has credit again take turns."""
        self._served.enter(consumer)
        self._soon()

    def settle(self, disposition: Disposition, count: int) -> None:
        """Count settled deliveries; this broker may have made some as the leader."""
        count = min(count, self._served.unacked)
        self._served.unacked -= count
        if disposition is Disposition.ACKNOWLEDGED:
            self.traffic.acknowledged += count

    # Deliveries

    def _soon(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(0, self._turn)

    def _turn(self) -> None:
        self._timer = None
        if self.log is None:
            return
        if self._failure is not None:
            self._stop(self._failure)
            return
        try:
            served = self._served.deliver(self._clock.monotonic())
        except InvariantError as error:
            self._stop(error)
            return
        for channel in served:
            channel.send()
        if self._served.more:
            self._soon()

    # The replica: `ReplicaListener`

    def readable(self) -> None:
        """Let the consumers continue: more may be read. Implements `ReplicaListener`."""
        self._soon()

    def failed(self, error: HeadraceError) -> None:
        """Have the leader serve the consumers, soon: readers may be having their turn.

        Implements `ReplicaListener`.
        """
        self._failure = error
        self._soon()

    def _stop(self, error: Exception) -> None:
        log, self.log, self._failure = self.log, None, None
        if log is None:
            return
        self._unreadable = log.partition
        if not log.partition.role.closed:
            _logger.error(
                "%s: the replica of this broker cannot be read: %s. The leader serves its %d"
                " consumers", self._title, error, len(self),
            )  # fmt: skip
            log.close()
        self._lost(self._served.resign())

    # The stream: `stream_readers.ReaderSource`, `stream_reader.ReadStream`

    @property
    def end(self) -> int:
        """Position after the last message that is known to be committed."""
        return 0 if self.log is None else self.log.end

    def reader(self, wishes: ConsumerSettings) -> StreamReader:
        """Return a new reader; it begins once the offset that `wishes` asks for is found."""
        reader = StreamReader(self, wishes.stream_filter)
        self._readers[reader] = None
        if self.log is not None:
            self.log.find(wishes.stream_offset, reader.begin)
        return reader

    def leave(self, reader: StreamReader) -> None:
        """Remove a reader."""
        self._readers.pop(reader, None)
        if self.log is not None:
            self.log.forget(reader)

    def end_turn(self, *, complete: bool) -> None:
        """Note that readers had their turn; `complete`: all of them."""
        if self.log is not None:
            self.log.end_turn(complete=complete)
