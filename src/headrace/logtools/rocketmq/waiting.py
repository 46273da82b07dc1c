"""Messages of a store that wait: for a delay level, for a time, for their producer's decision.

    SCHEDULE_TOPIC_XXXX       queue = level - 1; those from delayOffset.json's offset on wait
    rmq_sys_wheel_timer       those wait that are due at the time in the timer's checkpoint, or
                              later, and those that its wheel has not read yet. A message that is
                              due beyond the wheel is stored again: the newest copy counts. A recall
                              is a message, too, which names the one that it removes
    RMQ_SYS_TRANS_HALF_TOPIC  those wait from the offset of CID_RMQ_SYS_TRANS on that neither the
                              op topic names nor a committed message. A message whose producer was
                              asked is stored again: the newest copy counts

The keys of messages that wait for a time, and of transactions since that offset, are in memory.
"""

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.logtools.rocketmq.store import QueuedEntry, Store, StoreDamaged, StoreRefused
from headrace.wire.rocketmq.delays import LEVEL_SECONDS, TIMER_OUT_MS
from headrace.wire.rocketmq.properties import UNIQUE_KEY, find_property
from headrace.wire.rocketmq.sent_messages import MessageIllegal
from headrace.wire.rocketmq.store.config_files import StoredOffset
from headrace.wire.rocketmq.store.moved_messages import awaited_message
from headrace.wire.rocketmq.store.system_names import (
    HALF_GROUP,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    REVIVE_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from headrace.wire.rocketmq.stored_messages import PulledMessage, SystemFlag

_TIMER_CHECKPOINT = "timercheck"
_TIMER_TIMES = struct.Struct(">qqqq")
"""Time read up to, position flushed, queue offset read up to, the same of the master."""
_DELETED_KEY = b"TIMER_DEL_UNIQKEY"
_OFFSETS = re.compile(rb"\d+")

Note = Callable[[StoreDamaged], None]
"""Notes a message that cannot be read."""


class Waiting(NamedTuple):
    """A message that waits, with the queue it waits for as its own."""

    due_ms: int
    """When it is due, ms since 1970; -1: when its producer decides."""
    message: PulledMessage


class _Place(NamedTuple):
    """A message in a queue, and its position in the commit log."""

    queue: int
    offset: int
    physical_offset: int


@dataclass
class WaitingMessages:
    """The messages of a store that wait, found by `find`."""

    store: Store
    note: Note
    levels: dict[int, int] = field(default_factory=dict)
    """By delay level: the queue offset from which messages wait."""
    timers: list[_Place] = field(default_factory=list)
    half: dict[int, _Place] = field(default_factory=dict)
    """Undecided messages by their position in the commit log."""
    popped: int = 0
    """Messages of the timer topic that are of popped messages."""

    def find(self, offsets: list[StoredOffset], levels: dict[int, int]) -> None:
        """Find the messages: `offsets` of groups, and those of delayOffset.json."""
        self.levels = {
            queue + 1: levels.get(queue + 1, 0) for queue in self.store.queues(SCHEDULE_TOPIC)
        }
        self._find_timers()
        self._find_half(offsets)

    def decided(self, message: PulledMessage) -> None:
        """Forget the undecided message that this one, of another topic, is committed for."""
        if message.system_flag & SystemFlag.ROLLED_BACK == SystemFlag.COMMITTED:
            self.half.pop(message.prepared_offset, None)

    def delayed(self) -> Iterator[Waiting]:
        """Yield the messages that wait for a time."""
        for level, begin in sorted(self.levels.items()):
            for each in self.store.entries(SCHEDULE_TOPIC, level - 1, begin):
                message = self._awaited(SCHEDULE_TOPIC, level - 1, each)
                if message is not None:
                    yield Waiting(_due_by_level(message, each, level), message)
        for place in self.timers:
            for each in self.store.entries(TIMER_TOPIC, place.queue, place.offset):
                message = self._awaited(TIMER_TOPIC, place.queue, each)
                if message is not None:
                    yield Waiting(_time_of(message), message)
                break

    def undecided(self) -> Iterator[Waiting]:
        """Yield the messages whose producers have not decided."""
        for place in self.half.values():
            for each in self.store.entries(HALF_TOPIC, place.queue, place.offset):
                message = self._awaited(HALF_TOPIC, place.queue, each)
                if message is not None:
                    yield Waiting(-1, message)
                break

    def _awaited(self, topic: str, queue: int, each: QueuedEntry) -> PulledMessage | None:
        message = self._read(topic, queue, each)
        if message is None:
            return None
        try:
            return awaited_message(message)
        except MessageIllegal as error:
            place = f"topic {topic}, queue {queue}, offset {each.offset}"
            self.note(StoreDamaged(place, str(error)))
            return None

    def _read(self, topic: str, queue: int, each: QueuedEntry) -> PulledMessage | None:
        try:
            return self.store.message(topic, queue, each)
        except StoreDamaged as error:
            self.note(error)
            return None

    # Messages with a time

    def _find_timers(self) -> None:
        if not self.store.queues(TIMER_TOPIC):
            return
        checkpoint = self.store.config(_TIMER_CHECKPOINT) or b""
        if len(checkpoint) < _TIMER_TIMES.size:
            text = f"config/{_TIMER_CHECKPOINT} is missing: which delayed messages wait is unknown"
            raise StoreRefused(f"{self.store.root}: {text}")
        read_ms, _, read_offset, _ = _TIMER_TIMES.unpack_from(checkpoint)
        newest: dict[tuple[int, bytes], _Place] = {}
        recalled: set[tuple[int, bytes]] = set()
        for queue in self.store.queues(TIMER_TOPIC):
            for each in self.store.entries(TIMER_TOPIC, queue):
                message = self._read(TIMER_TOPIC, queue, each)
                if message is None:
                    continue
                due_ms = _time_of(message)
                if due_ms < read_ms and each.offset < read_offset:
                    continue  # delivered
                target = find_property(message.properties, b"REAL_TOPIC") or b""
                if target.startswith(REVIVE_TOPIC_PREFIX.encode()):
                    self.popped += 1
                    continue
                removed = find_property(message.properties, _DELETED_KEY)
                if removed is not None:
                    recalled |= {(due_ms, removed), (due_ms, removed.rpartition(b"+")[2])}
                    continue
                unique = find_property(message.properties, UNIQUE_KEY)
                place = _Place(queue, each.offset, each.entry.physical_offset)
                newest[due_ms, unique or b"at %d %d" % (queue, each.offset)] = place
        self.timers = [place for key, place in newest.items() if key not in recalled]

    # Messages of transactions

    def _find_half(self, offsets: list[StoredOffset]) -> None:
        begins = {
            entry.queue: entry.offset
            for entry in offsets
            if (entry.group, entry.topic) == (HALF_GROUP, HALF_TOPIC)
        }
        newest: dict[bytes, _Place] = {}
        for queue in self.store.queues(HALF_TOPIC):
            for each in self.store.entries(HALF_TOPIC, queue, begins.get(queue, 0)):
                message = self._read(HALF_TOPIC, queue, each)
                if message is not None:
                    unique = find_property(message.properties, UNIQUE_KEY)
                    place = _Place(queue, each.offset, each.entry.physical_offset)
                    newest[unique or b"at %d %d" % (queue, each.offset)] = place
        done = self._decided_offsets()
        self.half = {
            place.physical_offset: place
            for place in newest.values()
            if (place.queue, place.offset) not in done
        }

    def _decided_offsets(self) -> set[tuple[int, int]]:
        """Return queue and offset of the messages that the op topic names."""
        done = set()
        for queue in self.store.queues(OP_HALF_TOPIC):
            for each in self.store.entries(OP_HALF_TOPIC, queue):
                message = self._read(OP_HALF_TOPIC, queue, each)
                if message is not None:
                    done |= {(queue, int(text)) for text in _OFFSETS.findall(message.body)}
        return done


def _due_by_level(message: PulledMessage, each: QueuedEntry, level: int) -> int:
    """Return when a message is due: by its queue's entry, or by the level's usual delay."""
    if each.entry.tags_code >= message.stored_at_ms:
        return each.entry.tags_code
    return message.stored_at_ms + LEVEL_SECONDS[min(level, len(LEVEL_SECONDS)) - 1] * 1000


def _time_of(message: PulledMessage) -> int:
    raw = find_property(message.properties, TIMER_OUT_MS) or b""
    return int(raw) if raw.isdigit() else message.stored_at_ms
