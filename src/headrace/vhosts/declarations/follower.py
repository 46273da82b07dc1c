"""`Follower`: keeps this broker's tables up to date by long polls to the coordinators.

    for each other broker that leads a partition, one poll about all partitions that it leads:

    poll from what is applied ──► records ──► applied ──► poll
        ▲                    └──► error ──► a pause ───────┤
        └────── another broker leads: a new poll ──────────┘

A poll ends the one before it at the coordinator. An answer that was overtaken is applied, too, as
records below what is applied are skipped.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.metadata_image import NO_LEADER, ImageDelta
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode, HeadraceError, Malformed
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.backoff import backoff_seconds
from headrace.ports.callbacks import Done
from headrace.queues.queue_names import DECLARATIONS_TOPIC
from headrace.record.batch import crc_ok, iterate, records, size_of
from headrace.vhosts.declarations.followed_table import FollowedTable
from headrace.vhosts.declarations.messages import Part, Poll, Wanted
from headrace.vhosts.declarations.tables import DeclarationTables

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

PAUSE_SECONDS_MIN = 0.05
PAUSE_SECONDS_MAX = 1.0
"""Bounds of the seconds between a failed poll and the next one."""
Polls = Callable[[BrokerId, Poll, Done[Sequence[Part] | ApiError]], None]
"""Sends a poll to a broker."""


class _Polling(NamedTuple):
    """The present poll of a coordinator, or the pause before it."""

    number: int
    indices: frozenset[int]
    failures: int


class Follower:
    """The polls of one broker. On the deciding thread."""

    def __init__(self, broker: "Broker", tables: DeclarationTables, poll: Polls) -> None:
        """Create without polls."""
        self._broker = broker
        self._tables = tables
        self._poll = poll
        self._polling: dict[BrokerId, _Polling] = {}
        self._number = 0
        self._open = False

    def start(self) -> None:
        """Begin to follow: the broker has joined the cluster."""
        self._open = True
        self._broker.image.observers.append(self._image_changed)
        self._look()

    def close(self) -> None:
        """Send no further polls: the broker stops."""
        if self._open:
            self._open = False
            self._broker.image.observers.remove(self._image_changed)

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        named = DECLARATIONS_TOPIC in delta.partitions or DECLARATIONS_TOPIC in delta.removed
        if named or structural or any(each.name == DECLARATIONS_TOPIC for each in delta.topics):
            self._look()

    def _look(self) -> None:
        """Poll each coordinator about the partitions that it leads now."""
        wanted = self._by_leader()
        for leader in list(self._polling):
            if leader not in wanted:
                del self._polling[leader]
        for leader, indices in wanted.items():
            present = self._polling.get(leader)
            if present is None or present.indices != indices:
                self._ask(leader, indices, 0)

    def _by_leader(self) -> dict[BrokerId, frozenset[int]]:
        image, own = self._broker.image, self._broker.broker_id
        found: dict[BrokerId, set[int]] = {}
        for index in range(self._tables.count):
            leader = image.leader_of(TopicPartition(DECLARATIONS_TOPIC, index))
            if leader not in (own, NO_LEADER) and leader in image.brokers:
                found.setdefault(leader, set()).add(index)
        return {leader: frozenset(indices) for leader, indices in found.items()}

    def _ask(self, leader: BrokerId, indices: frozenset[int], failures: int) -> None:
        self._number += 1
        number = self._number
        self._polling[leader] = _Polling(number, indices, failures)
        wanted = [Wanted(index, self._table(index).applied) for index in sorted(indices)]
        waits = all(self._tables.of(index).is_loaded for index in indices)
        self._poll(
            leader, Poll(wanted, waits), lambda answer: self._answered(leader, number, answer)
        )

    def _table(self, index: int) -> FollowedTable:
        """Return a partition's table, which is read again if compaction may have overtaken it."""
        table = self._tables.of(index)
        if table.is_stale(self._broker.clock.monotonic()) and not table.is_reread:
            table.reread()
        return table

    def _answered(self, leader: BrokerId, number: int, answer: Sequence[Part] | ApiError) -> None:
        if not self._open:
            return
        failed = isinstance(answer, ApiError)
        if not isinstance(answer, ApiError):
            for part in answer:
                failed = not self._taken(leader, part) or failed
        present = self._polling.get(leader)
        if present is None or present.number != number:
            return  # a later poll is under way
        if not failed:
            # The next poll confirms that all is applied: also policies to queues.
            self._polling[leader] = present._replace(failures=0)
            self._tables.visited(lambda _: self._ask_again(leader, number))
            return
        failures = present.failures + 1
        self._polling[leader] = present._replace(failures=failures)
        pause = backoff_seconds(failures, PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX)
        self._broker.clock.call_later(pause, lambda: self._ask_again(leader, number))

    def _ask_again(self, leader: BrokerId, number: int) -> None:
        present = self._polling.get(leader)
        if self._open and present is not None and present.number == number:
            self._ask(leader, present.indices, present.failures)

    def _taken(self, leader: BrokerId, part: Part) -> bool:
        """Apply a part of an answer; return False if it is an error, after which to pause."""
        if self._leads_now(part.partition) != leader:
            return True  # what it answers may be that of a former coordinator
        table = self._tables.of(part.partition)
        if part.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            # The log is shorter than what was applied: committed records were lost.
            table.reread()
            return False
        if part.error is not ErrorCode.NONE:
            return False
        try:
            apply_batches(table, part)
        except HeadraceError:
            return False
        if table.applied >= part.committed:
            table.have_reread()
            table.note_current(self._broker.clock.monotonic())
        return True

    def _leads_now(self, index: int) -> BrokerId:
        return self._broker.image.leader_of(TopicPartition(DECLARATIONS_TOPIC, index))


def apply_batches(table: FollowedTable, part: Part) -> None:
    """Apply the batches of an answer, but for records that are applied. CorruptLogError: a batch is
    damaged; those before it are applied."""
    view = memoryview(part.content)
    for at, header in iterate(view):
        batch = view[at : at + size_of(header)]
        if not crc_ok(batch, header):
            raise CorruptLogError(f"batch at offset {header.base_offset}: checksum does not match")
        for record in records(batch):
            if record.offset >= table.applied:
                try:
                    table.take(record.key or b"", record.value)
                except Malformed:
                    continue  # a later version wrote it; the table counts it
    table.advance(part.next_offset)
