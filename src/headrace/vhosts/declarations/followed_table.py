"""`FollowedTable`: one partition of the log of declarations, applied to this broker's vhosts.

    take ──► committed: the vhosts' tables have the record
    hold ──► a command's changes, which the tables have before they are committed
             commit ──► they stay        undo ──► each record has its last committed value again

A broker has one table for each partition, whichever broker leads it. A binding waits for an
exchange or queue that is missing: compaction may leave an exchange behind the bindings from it.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from headrace.model.errors import HeadraceError, Malformed
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done
from headrace.queues.model.bindings import Removed
from headrace.queues.model.declaration_table import Applied, apply, remove
from headrace.queues.model.stored_model import BindingRecord, PolicyRecord, QueueRecord, Record
from headrace.queues.model.stored_records import decode_record
from headrace.queues.model.vhost_table import VhostTable
from headrace.queues.refusals import EXCHANGE, QUEUE

STALE_SECONDS = 3600.0
"""Seconds after which a table that lacks records is read again. Deletions are longer in the log."""
Located = tuple[str, Record]
"""A vhost's name and a declaration in it."""
_End = tuple[str, str, str]
"""A vhost, `queue` or `exchange`, and its name."""


class Held:
    """The changes of one command that are not committed."""

    __slots__ = ("formers", "later")

    def __init__(self) -> None:
        self.formers: dict[bytes, Located | None] = {}
        """The values before the command, by key; None: there was none."""
        self.later: list[tuple[str, Applied]] = []
        """Changes, by vhost, of which the table's owner learns once they are committed: deletions
        and policies."""


class Waiter(NamedTuple):
    """A callback that waits until the table has a part of the log."""

    offset: Offset
    done: Callable[[], None]


class FollowedTable:
    """The declarations of one partition on one broker. On the deciding thread."""

    def __init__(
        self,
        table_of: Callable[[str], VhostTable],
        changed: Callable[[str, Applied], None],
        now: float,
        has_vhost: Callable[[str], bool] = lambda _: True,
        loaded: Callable[[], None] = lambda: None,
    ) -> None:
        """Create without declarations, at the monotonic time `now`.

        `table_of` returns the table of a vhost, which is created if it is missing; `has_vhost`
        tells whether it is not. `changed` is called with a vhost's name and each change of it by a
        record, `loaded` once the table has had all committed records.
        """
        self._table_of = table_of
        self._changed = changed
        self._has_vhost = has_vhost
        self._loaded = loaded
        self.records: dict[bytes, Located] = {}
        """The declarations by their keys."""
        self.applied = Offset(0)
        """All committed records below this offset are applied."""
        self.malformed = 0
        """Number of records that could not be applied."""
        self.planned_leaders: Counter[int] = Counter()
        """The number of durable queues that each broker is planned to lead first."""
        self.deleting: set[bytes] = set()
        """Keys of queues that are deleted but for their topics."""
        self._of_homes: dict[tuple[int, ...], set[bytes]] = {}
        self._held: deque[Held] = deque()
        self._unbound: dict[_End, dict[bytes, None]] = {}
        """Keys of bindings that wait for one of their ends."""
        self._seen: set[bytes] | None = None
        """Keys that were read since the last `reread`; None: the table is not read again."""
        self._waiting: list[Waiter] = []
        self._current_at = now
        self.is_loaded = False
        """Whether the table has ever had all committed records."""

    # Committed records

    def take(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of the log, None: a tombstone. Raises Malformed: no change."""
        seen = self._seen
        if value is None:
            self.remove(key)
            if seen is not None:
                seen.discard(key)
            return
        if seen is not None:
            seen.add(key)
        try:
            self._put(key, *decode_record(value))
        except (HeadraceError, ValueError) as error:
            self.malformed += 1
            raise Malformed(str(error)) from error

    def advance(self, offset: Offset) -> None:
        """Note that all below `offset` is committed and applied; call those that wait for it."""
        self.applied = max(self.applied, offset)
        if self._waiting:
            ready = [each for each in self._waiting if each.offset <= self.applied]
            self._waiting = [each for each in self._waiting if each.offset > self.applied]
            for each in ready:
                each.done()

    def when_applied(self, offset: Offset, done: Done[None]) -> None:
        """Call `done` once all below `offset` is applied, perhaps before this returns."""
        if offset <= self.applied:
            done(None)
        else:
            self._waiting.append(Waiter(offset, lambda: done(None)))

    def note_current(self, now: float) -> None:
        """Note that the table has all committed records at the monotonic time `now`."""
        self._current_at = now
        if not self.is_loaded:
            self.is_loaded = True
            self._loaded()

    def is_stale(self, now: float) -> bool:
        """Tell whether compaction may have removed deletions that the table lacks."""
        return now - self._current_at > STALE_SECONDS

    def reread(self) -> None:
        """Begin to read the log from its start: it may lack deletions that the table lacks."""
        self._seen = set()
        self.applied = Offset(0)

    @property
    def is_reread(self) -> bool:
        """Whether the log is read again from its start."""
        return self._seen is not None

    def have_reread(self) -> None:
        """Remove the declarations that the log, which was read to its end, does not have."""
        seen, self._seen = self._seen, None
        if seen is not None:
            for key in [key for key in self.records if key not in seen]:
                self.remove(key)

    # Changes of commands

    def hold(self) -> Held:
        """Return the empty changes of a command, which follow all held ones."""
        held = Held()
        self._held.append(held)
        return held

    def note(self, held: Held, key: bytes, located: Located | None) -> None:
        """Note the new value of a key, which a command has given to the vhost's table."""
        held.formers.setdefault(key, self.records.get(key))
        self._forget(key)
        if located is not None:
            self._remember(key, located)

    def report(self, vhost: str, applied: Applied) -> None:
        """Report a change that a command has made in a vhost's table."""
        self._changed(vhost, applied)

    def take_held(self, held: Held, key: bytes, value: bytes | None) -> None:
        """Apply a record of the log that may not be committed. Raises Malformed."""
        held.formers.setdefault(key, self.records.get(key))
        self.take(key, value)

    def commit(self, held: Held) -> None:
        """Keep the changes of the oldest command; its deletions and policies are reported."""
        self._held.remove(held)
        for vhost, applied in held.later:
            self._changed(vhost, applied)

    def undo(self) -> None:
        """Give each record that commands changed its last committed value."""
        formers: dict[bytes, Located | None] = {}
        while self._held:
            # The oldest command is the last one here: its former values are the committed ones.
            formers.update(self._held.pop().formers)
        for key, former in formers.items():
            if former is None:
                self.remove(key)
        back = [(key, former) for key, former in formers.items() if former is not None]
        back.sort(key=lambda each: isinstance(each[1][1], BindingRecord))
        for key, (vhost, record) in back:
            self._put(key, vhost, record)

    # Questions

    def of_home(self, broker: int, epoch: int) -> list[bytes]:
        """Return the keys of the transient queues of a broker's registration."""
        return list(self._of_homes.get((broker, epoch), ()))

    def deleted(self) -> dict[bytes, tuple[str, QueueRecord]]:
        """Return the queues, by key, whose `deleting` records are committed."""
        keys = self.deleting.difference(*(held.formers for held in self._held))
        located = {key: self.records[key] for key in keys}
        return {
            key: (vhost, record)
            for key, (vhost, record) in located.items()
            if isinstance(record, QueueRecord)
        }

    def homes(self) -> Iterable[tuple[int, ...]]:
        """Return the brokers, with their epochs, that have transient queues."""
        return tuple(self._of_homes)

    # One record

    def _put(self, key: bytes, vhost: str, record: Record) -> None:
        """Apply a record in place of the key's former one. Refused, ValueError: it is invalid."""
        former = self.records.get(key)
        if former == (vhost, record):
            return
        if former is not None and _home(former[1]) != _home(record):
            self.remove(key)
        if _is_deleting(record) and not self._has_vhost(vhost):
            self._forget(key)
            self._remember(key, (vhost, record))
            return
        table = self._table_of(vhost)
        applied = apply(table, record)
        self._forget(key)
        self._remember(key, (vhost, record))
        if isinstance(record, BindingRecord):
            if applied.added is None:
                self._wait_for_ends(key, vhost, record, table)
        elif not isinstance(record, PolicyRecord):
            kind = QUEUE if isinstance(record, QueueRecord) else EXCHANGE
            self._bind_waiting((vhost, kind, record.name), table)
        if applied != Applied():
            self._changed(vhost, applied)

    def remove(self, key: bytes) -> None:
        """Remove the declaration of a key, if there is one."""
        located = self.records.get(key)
        if located is None:
            return
        self._forget(key)
        vhost, record = located
        if _is_deleting(record) or not self._has_vhost(vhost):
            return
        removed = remove(self._table_of(vhost), record)
        if removed != Removed():
            self._changed(vhost, Applied(removed=removed))

    def _remember(self, key: bytes, located: Located) -> None:
        self.records[key] = located
        if _is_deleting(located[1]):
            self.deleting.add(key)
        home = _home(located[1])
        if home:
            self._of_homes.setdefault(home[:2], set()).add(key)
        elif (leader := _first_leader(located)) is not None:
            self.planned_leaders[leader] += 1

    def _forget(self, key: bytes) -> None:
        located = self.records.pop(key, None)
        self.deleting.discard(key)
        home = () if located is None else _home(located[1])
        if home:
            keys = self._of_homes[home[:2]]
            keys.discard(key)
            if not keys:
                del self._of_homes[home[:2]]
        elif located is not None and (leader := _first_leader(located)) is not None:
            self.planned_leaders[leader] -= 1

    def _wait_for_ends(
        self, key: bytes, vhost: str, record: BindingRecord, table: VhostTable
    ) -> None:
        """Have a binding wait for an end of it that is missing, if one is."""
        ends = table.queues if record.destination_kind == QUEUE else table.exchanges
        if record.source not in table.exchanges:
            end = vhost, EXCHANGE, record.source
        elif record.destination not in ends:
            end = vhost, record.destination_kind, record.destination
        else:
            return
        self._unbound.setdefault(end, {})[key] = None

    def _bind_waiting(self, end: _End, table: VhostTable) -> None:
        """Add the bindings that waited for an end, and are still declared."""
        for key in self._unbound.pop(end, ()):
            vhost, record = self.records.get(key, ("", None))
            if not isinstance(record, BindingRecord):
                continue
            applied = apply(table, record)
            if applied.added is None:
                self._wait_for_ends(key, vhost, record, table)
            else:
                self._changed(vhost, applied)


def _home(record: Record) -> tuple[int, ...]:
    """Return the broker, epoch and connection of a transient queue; empty for all else."""
    return record.home if isinstance(record, QueueRecord) else ()


def _first_leader(located: Located) -> int | None:
    record = located[1]
    return record.replicas[0] if isinstance(record, QueueRecord) and record.replicas else None


def _is_deleting(record: Record) -> bool:
    return isinstance(record, QueueRecord) and record.deleting
