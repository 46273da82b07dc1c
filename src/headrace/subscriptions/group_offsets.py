"""Offsets of groups in the group coordinator, as their clients store and read them.

An offset is answered by a read at once, and written soon: an offset that waits for the write before
it is replaced by a newer one, so that a busy group has one record in flight for each queue. `done`
of a store is called when its offset, or a later one, is on disk.

These offsets never expire (ADR 74): the coordinator's record has an expiry time that never comes.
Its metadata says when the group first stored an offset of the topic, as `since=<ms since 1970>`:
the rule for new groups asks for it, and it must survive a restart.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from headrace.coordination.groups import commit
from headrace.coordination.groups.committed_offsets import Committed
from headrace.coordination.groups.messages import CommitRequest, OffsetToCommit
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.coordination.groups.group_coordinators import GroupCoordinators
    from headrace.ports.clock import Clock

NEVER_MS = 1 << 62
"""Retention in ms of an offset that never expires; a time of now and this is no overflow."""
UNSET = -1
"""The offset that a client stores to have none."""

_SINCE = "since="

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
        self.delete_offsets = groups.delete_offsets

    def commit(self, request: CommitRequest, done: Done[ErrorCode]) -> None:
        """Commit an offset. ApiError: the group is not served here, or groups.max is reached."""
        shard = self._groups.shard(request.group_id)
        self._groups.check_room(shard, request.group_id)
        commit.commit(shard, request, done)


class _Writing:
    """The writes of one place: the offset in flight, and the newest one behind it."""

    __slots__ = ("behind", "newest", "waiting")

    def __init__(self, offset: int, done: Done[ErrorCode]) -> None:
        self.newest = offset
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

    def read(self, group: str, topic: str, partition: int) -> int | None:
        """Return a group's offset of a partition, None if it has none.

        ApiError: the coordinator is loading, or elsewhere.
        """
        writing = self._writing.get((group, topic, partition))
        if writing is not None:
            return None if writing.newest == UNSET else writing.newest
        committed = self._coordinators().offset(group, topic, partition)
        return None if committed is None else committed.offset

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
        """Store an offset, which may be lower than the present one; UNSET deletes it.

        `done` is called once, with NONE when it is on disk, or with why it is not stored.
        """
        place = (group, topic, partition)
        writing = self._writing.get(place)
        if writing is None:
            self._writing[place] = _Writing(offset, done)
            self._write(place, offset)
        else:
            writing.newest = offset
            writing.behind.append(done)

    def _write(self, place: QueuePlace, offset: int) -> None:
        group, topic, partition = place
        try:
            coordinators = self._coordinators()
            if offset == UNSET:
                coordinators.delete_offsets(
                    group, [(topic, partition)], lambda code, _: self._written(place, code)
                )
                return
            committed = coordinators.offset(group, topic, partition)
            since_ms = self._clock.wall_ms() if committed is None else _since_ms(committed)
            entry = OffsetToCommit(topic, partition, offset, -1, f"{_SINCE}{since_ms}")
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
        offset, more = writing.newest, bool(writing.waiting)
        if not more:
            del self._writing[place]
        for callback in done:
            callback(code)
        if more:
            self._write(place, offset)


def _since_ms(committed: Committed) -> int:
    """Return when the group first stored this offset; its own time, if another client wrote it."""
    text = committed.metadata.removeprefix(_SINCE)
    is_ours = text != committed.metadata and text.isascii() and text.isdigit()
    return int(text) if is_ours else committed.committed_ms
