"""`SendMode`: the event that a send waits for before its answer, and the answer if that is late.

    rocketmq.flush.disk.type  SYNC_FLUSH    the message is on this broker's disk
                              ASYNC_FLUSH   it is appended, as with Kafka's acks=1
    rocketmq.broker.role      SYNC_MASTER   it is on all in-sync replicas, as with acks=all
                              ASYNC_MASTER  replicas are not waited for

A message with the property WAIT=false (setWaitStoreMsgOK) waits for neither. In all three late
answers the message is stored, and clients count them as success:

    FLUSH_DISK_TIMEOUT   10  this broker's flush took longer than rocketmq.sync.flush.timeout.ms
    SLAVE_NOT_AVAILABLE  11  fewer replicas are in sync than min.insync.replicas, and
                             rocketmq.below.min.insync=store; with `refuse` nothing is stored
    FLUSH_SLAVE_TIMEOUT  12  the in-sync replicas took longer than rocketmq.slave.timeout.ms

A partition without other replicas waits for its own flush alone, so a single broker never answers
11 or 12.
"""

from collections import Counter
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.partition import ACKS_ALL
from headrace.model.errors import ApiError
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.properties import find_property

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.log.log import Log
    from headrace.model.nouns import Offset
    from headrace.ports.deadlines import Deadlines

_ACKS_LEADER = 1
_WAIT = b"WAIT"
_TRUE = b"true"


def waits_until_stored(properties: bytes) -> bool:
    """Return whether a message's answer waits for flush and replicas: unless WAIT is not true."""
    if _WAIT not in properties:
        return True
    value = find_property(properties, _WAIT)
    return value is None or value.lower() == _TRUE


class Event(Enum):
    """The event that an answer waits for."""

    APPENDED = 0
    FLUSHED = 1
    """This broker's own flush."""
    REPLICATED = 2
    """The high watermark: all in-sync replicas have the message."""


class SendMode(NamedTuple):
    """The settings of sends."""

    flushes: bool = True
    replicates: bool = True
    stores_below_min: bool = False
    """Whether a message is stored while too few replicas are in sync, and answered with 11."""
    flush_seconds: float = 5.0
    replicas_seconds: float = 3.0

    def event(self, partition: "Partition") -> Event:
        """Return the event that a message waits for in a partition."""
        role = partition.role
        stores = self.stores_below_min and role.too_few_replicas
        if role.term is not None and self.replicates and not stores:
            return Event.REPLICATED
        return Event.FLUSHED if self.flushes else Event.APPENDED

    def acks(self, event: Event, partition: "Partition") -> int:
        """Return Kafka's acks of an append whose answer waits for an event.

        ACKS_ALL flushes at the end of the turn, and is refused while too few replicas are in sync.
        """
        own = event is Event.FLUSHED and not partition.role.too_few_replicas
        return ACKS_ALL if own or event is Event.REPLICATED else _ACKS_LEADER

    def answer(self, partition: "Partition") -> ResponseCode:
        """Return the code of a message that is stored in time."""
        role = partition.role
        lacks = self.replicates and self.stores_below_min and role.too_few_replicas
        return ResponseCode.SLAVE_NOT_AVAILABLE if lacks else ResponseCode.SUCCESS


DURABLE = SendMode()
"""The mode of the broker's own messages: an earlier copy is settled when they are stored."""
UNWAITED = SendMode(flushes=False, replicates=False)
"""The mode of messages with WAIT=false."""
Stored = Callable[[ApiError | None], None]
Late = Callable[[ResponseCode], None]


class StoredBatch:
    """An appended batch until its event, or its timeout. `ports.deadlines.Waiting`."""

    __slots__ = ("_began", "_deadlines", "_event", "_late", "_log", "_mode", "_upto", "done",
                 "on_expire")  # fmt: skip

    def __init__(self, mode: SendMode, event: Event, log: "Log", upto: "Offset") -> None:
        self.done = False
        self.on_expire: Callable[[], None] | None = None
        self._mode = mode
        self._event = event
        self._log = log
        self._upto = upto

    def watch(self, deadlines: "Deadlines", late: Late) -> None:
        """Call `late` once, with the code, if the event does not come in time."""
        self._deadlines = deadlines
        self._late = late
        self._began = deadlines.clock.monotonic()
        self._wait_until(self._first_seconds)

    @property
    def _first_seconds(self) -> float:
        mode = self._mode
        if self._event is Event.FLUSHED:
            return mode.flush_seconds
        return min(mode.flush_seconds, mode.replicas_seconds)

    def _wait_until(self, seconds: float) -> None:
        left = self._began + seconds - self._deadlines.clock.monotonic()
        self._deadlines.add(self, max(left, 0.0), self._expired)

    def _expired(self) -> None:
        mode = self._mode
        waited = self._deadlines.clock.monotonic() - self._began
        is_flushed = self._log.flushed_offset >= self._upto
        limit = mode.replicas_seconds if is_flushed else mode.flush_seconds
        if waited < limit:
            self._wait_until(limit)
        elif is_flushed and self._event is Event.REPLICATED:
            self._late(ResponseCode.FLUSH_SLAVE_TIMEOUT)
        else:
            self._late(ResponseCode.FLUSH_DISK_TIMEOUT)

    def ended(self) -> None:
        """Release the timeout: the event has come, or never will."""
        self.done, self.on_expire = True, None


class _OwnFlush:
    """Waits until a log is flushed up to an offset, whatever its replicas have. `LogListener`."""

    def __init__(self, log: "Log", upto: "Offset", done: Stored) -> None:
        self._log = log
        self._upto = upto
        self._done = done
        log.listen(self)
        log.context.events.flush_soon(log)

    def log_flushed(self, upto: "Offset") -> None:
        if upto >= self._upto:
            self._log.unlisten(self)
            self._done(None)

    def log_readable(self) -> None:
        """Ignore the high watermark: a flush is awaited."""


class StoreWaits:
    """The waits of appended batches for their events, and how many answers were late."""

    def __init__(self, deadlines: "Deadlines") -> None:
        self._deadlines = deadlines
        self.counts: Counter[ResponseCode] = Counter()
        """Answers other than SUCCESS for stored messages, by code."""

    def wait(
        self,
        mode: SendMode,
        event: Event,
        partition: "Partition",
        upto: "Offset",
        late: Late,
        done: Stored,
    ) -> None:
        """Call `done` at a batch's event or with why it never comes; `late` before if it is late.

        `late` is called at most once. ApiError of `done`: the messages may or may not survive.
        """
        batch = StoredBatch(mode, event, partition.log, upto)
        ended = partial(_ended, batch, done)
        partition.when_committed(upto, ended)
        if event is Event.FLUSHED and partition.role.term is not None and not batch.done:
            _OwnFlush(partition.log, upto, ended)
        if not batch.done:
            batch.watch(self._deadlines, late)


def _ended(batch: StoredBatch, done: Stored, error: ApiError | None) -> None:
    if not batch.done:  # the own flush and the commit are both awaited
        batch.ended()
        done(error)
