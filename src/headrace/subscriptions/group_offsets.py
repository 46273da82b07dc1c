"""Offsets of groups in the group coordinator, as their clients store and read them.

An offset is answered by a read at once, and written soon: an offset that waits for the write before
it is replaced by a newer one, so that a busy group has one record in flight for each queue. `done`
of a store is called when its offset, or a later one, is on disk.

An offset that comes with a pull waits for `SOON_SECONDS` before it is written: a busy group sends
thousands in a second. Nothing is answered for it, and a read returns it at once.

These offsets never expire (ADR 74): the coordinator's record has an expiry time that never comes.
Its metadata says when the group first stored an offset of the topic, as `since=<ms since 1970>`:
the rule for new groups asks for it, and it must survive a restart.

An operator's reset is an offset that the group's client has not heard of yet:

    reset ──> pending: stores of clients are ignored ── taken by the next pull ──> an offset
                  ^── a later reset replaces it

Whether it is pending is in the record, too (`since=<ms>;reset`): a client that pulls on after a
restart of the broker would otherwise store its own offset over that of the operator.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.coordination.groups import commit
from headrace.coordination.groups.committed_offsets import Committed
from headrace.coordination.groups.messages import CommitRequest, OffsetToCommit
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done, ignore_result

if TYPE_CHECKING:
    from headrace.coordination.groups.group_coordinators import GroupCoordinators
    from headrace.ports.clock import Clock, Timer

NEVER_MS = 1 << 62
"""Retention in ms of an offset that never expires; a time of now and this is no overflow."""
SOON_SECONDS = 0.1
"""Seconds that an offset of a pull waits for a newer one."""
WRITTEN_AT_ONCE = 100
"""Offsets of pulls that are written in one turn of the loop, some 50 µs each."""
UNSET = -1
"""The offset that a client stores to have none."""

_SINCE = "since="
_PENDING_RESET = ";reset"

QueuePlace = tuple[str, str, int]
"""Group, topic, partition."""


class OffsetCoordinator(Protocol):
    """The coordinator's part that is used. Implemented by `OwnCommits`."""

    def commit(self, request: CommitRequest, done: Done[ErrorCode], /) -> None: ...

    def offset(self, group_id: str, topic: str, partition: int, /) -> Committed | None: ...

    def delete_offsets(
        self,
        group_id: str,
        wanted: list[tuple[str, int]],
        done: Callable[[ErrorCode, list[ErrorCode]], None],
        /,
    ) -> None: ...


class OwnCommits:
    """The group coordinator for groups whose members are not Kafka's. `OffsetCoordinator`.

    Kafka's clients may not commit to such a group, so these commits go around that check.
    """

    def __init__(self, groups: "GroupCoordinators") -> None:
        self._groups = groups
        self.offset = groups.offset

    def commit(self, request: CommitRequest, done: Done[ErrorCode]) -> None:
        """Commit an offset. ApiError: the group is not served here, or groups.max is reached."""
        shard = self._groups.shard(request.group_id)
        self._groups.check_room(shard, request.group_id)
        commit.commit(shard, request, done)

    def delete_offsets(
        self,
        group_id: str,
        wanted: list[tuple[str, int]],
        done: Callable[[ErrorCode, list[ErrorCode]], None],
    ) -> None:
        """Delete offsets. ApiError: the group is not served here."""
        commit.delete_offsets(self._groups.shard(group_id), group_id, wanted, done)

    def delete(self, group_id: str, done: Done[ErrorCode]) -> None:
        """Delete a group with all its offsets. ApiError: the group is not served here."""
        commit.delete_group(self._groups.shard(group_id), group_id, done)

    def groups(self) -> Iterator[str]:
        """Yield the groups that have stored offsets here. ApiError: a coordinator is loading."""
        for shard in self._groups.led.active():
            for group, topics in shard.context.offsets.by_group.items():
                stored = next(iter(next(iter(topics.values())).values()), None)
                if stored is not None and stored.metadata.startswith(_SINCE):
                    yield group

    def offsets(self, group_id: str) -> Mapping[str, Mapping[int, Committed]]:
        """Return a group's stored offsets by topic and partition. ApiError: loading."""
        return self._groups.offsets(group_id)


class _Value(NamedTuple):
    """An offset as it is stored."""

    offset: int
    reset: bool = False
    """Whether it is an operator's, and no client has heard of it."""


class _Writing:
    """The writes of one place: the offset in flight, and the newest one behind it."""

    __slots__ = ("behind", "newest", "waiting")

    def __init__(self, value: _Value, done: Done[ErrorCode]) -> None:
        self.newest = value
        self.waiting = [done]
        """Callbacks of the write in flight."""
        self.behind: list[Done[ErrorCode]] = []
        """Callbacks of the newest offset, if it is not the one in flight."""


class GroupOffsets:
    """The offsets of all groups, for clients on this broker. On the deciding thread."""

    def __init__(self, coordinators: Callable[[], OffsetCoordinator], clock: "Clock") -> None:
        """`coordinators`: made by its first call, which comes with the first offset."""
        self._coordinators = coordinators
        self._clock = clock
        self._writing: dict[QueuePlace, _Writing] = {}
        self._soon: dict[QueuePlace, int] = {}
        """Offsets of pulls that are not written yet."""
        self._timer: Timer | None = None

    def close(self) -> None:
        """Write the offsets that wait, and stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._write_soon(len(self._soon))

    def read(self, group: str, topic: str, partition: int) -> int | None:
        """Return a group's offset of a partition, None if it has none.

        ApiError: the coordinator is loading, or elsewhere.
        """
        value = self._value((group, topic, partition))
        return None if value is None or value.offset == UNSET else value.offset

    def _value(self, place: QueuePlace) -> _Value | None:
        soon = self._soon.get(place)
        if soon is not None:
            return _Value(soon)
        writing = self._writing.get(place)
        if writing is not None:
            return writing.newest
        committed = self._coordinators().offset(*place)
        if committed is None:
            return None
        return _Value(committed.offset, _is_pending(committed.metadata))

    def first_stored_ms(self, group: str, topic: str, partitions: int) -> int | None:
        """Return when a group first stored an offset of a topic; None: it has none there.

        Written offsets count. ApiError: the coordinator is loading, or elsewhere.
        """
        offset = self._coordinators().offset
        stored = (offset(group, topic, partition) for partition in range(partitions))
        return min((_since_ms(found) for found in stored if found is not None), default=None)

    def store(
        self, group: str, topic: str, partition: int, offset: int, done: Done[ErrorCode]
    ) -> None:
        """Store a client's offset, which may be lower than the present one; UNSET deletes it.

        `done` is called once, with NONE when it is on disk, or with why it is not stored. While a
        reset is pending nothing is stored, and `done` is called with NONE.
        """
        try:
            ignored = self.is_reset(group, topic, partition)
        except ApiError as error:
            done(error.code)
            return
        if ignored:
            done(ErrorCode.NONE)
        else:
            self._put((group, topic, partition), _Value(offset), done)

    def store_soon(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Store an offset that comes with a pull, if no reset is pending; nothing is reported.

        It is written after `SOON_SECONDS`, unless a newer one replaces it.
        """
        place = (group, topic, partition)
        try:
            value = self._value(place)
        except ApiError:
            return  # the client stores the offset again with its next pull
        if value is None or not (value.reset or value.offset == offset):
            self._soon[place] = offset
            if self._timer is None:
                self._timer = self._clock.call_later(SOON_SECONDS, self._soon_due)

    def forget_deleted(self, topics: Container[str]) -> None:
        """Forget offsets of pulls that are not written yet, but for those of `topics`.

        A new topic may have a deleted one's name.
        """
        self._soon = {place: offset for place, offset in self._soon.items() if place[1] in topics}

    def _soon_due(self) -> None:
        self._timer = None
        self._write_soon(WRITTEN_AT_ONCE)
        if self._soon:
            self._timer = self._clock.call_later(0, self._soon_due)

    def _write_soon(self, count: int) -> None:
        for place in list(islice(self._soon, count)):
            self._put(place, _Value(self._soon[place]), ignore_result)

    def is_reset(self, group: str, topic: str, partition: int) -> bool:
        """Return whether a reset is pending. ApiError: the coordinator is loading, or elsewhere."""
        value = self._value((group, topic, partition))
        return value is not None and value.reset

    def reset(
        self, group: str, topic: str, partition: int, offset: int, done: Done[ErrorCode]
    ) -> None:
        """Store an operator's offset over that of the clients; the last reset counts.

        `done` is called once, with NONE when it is on disk, or with why it is not stored.
        """
        self._put((group, topic, partition), _Value(offset, reset=True), done)

    def take_reset(self, group: str, topic: str, partition: int) -> int | None:
        """Return a pending reset's offset, once; None: no reset is pending.

        From now on clients' offsets are stored again. ApiError: the coordinator is loading, or
        elsewhere.
        """
        place = (group, topic, partition)
        value = self._value(place)
        if value is None or not value.reset:
            return None
        # If it cannot be written, the reset is pending again, and is returned a second time.
        self._put(place, _Value(value.offset), ignore_result)
        return value.offset

    def _put(self, place: QueuePlace, value: _Value, done: Done[ErrorCode]) -> None:
        self._soon.pop(place, None)
        writing = self._writing.get(place)
        if writing is None:
            self._writing[place] = _Writing(value, done)
            self._write(place, value)
        else:
            writing.newest = value
            writing.behind.append(done)

    def _write(self, place: QueuePlace, value: _Value) -> None:
        group, topic, partition = place
        try:
            coordinators = self._coordinators()
            if value.offset == UNSET:
                coordinators.delete_offsets(
                    group, [(topic, partition)], lambda code, _: self._written(place, code)
                )
                return
            committed = coordinators.offset(group, topic, partition)
            since_ms = self._clock.wall_ms() if committed is None else _since_ms(committed)
            metadata = f"{_SINCE}{since_ms}{_PENDING_RESET if value.reset else ''}"
            entry = OffsetToCommit(topic, partition, value.offset, -1, metadata)
            request = CommitRequest(group, -1, "", None, [entry], retention_ms=NEVER_MS)
            coordinators.commit(request, partial(self._written, place))
        except ApiError as error:
            self._written(place, error.code)

    def _written(self, place: QueuePlace, code: ErrorCode) -> None:
        """Call back, and write the newest offset if a later one has come."""
        writing = self._writing[place]
        if code is ErrorCode.GROUP_ID_NOT_FOUND:
            code = ErrorCode.NONE  # deleted from a group that has no offset
        done, writing.waiting, writing.behind = writing.waiting, writing.behind, []
        value, more = writing.newest, bool(writing.waiting)
        if not more:
            del self._writing[place]
        for callback in done:
            callback(code)
        if more:
            self._write(place, value)


def _since_ms(committed: Committed) -> int:
    """Return when the group first stored this offset; its own time, if another client wrote it."""
    text = committed.metadata.removeprefix(_SINCE)
    since = text.removesuffix(_PENDING_RESET)
    is_ours = text != committed.metadata and since.isascii() and since.isdigit()
    return int(since) if is_ours else committed.committed_ms


def _is_pending(metadata: str) -> bool:
    return metadata.startswith(_SINCE) and metadata.endswith(_PENDING_RESET)
