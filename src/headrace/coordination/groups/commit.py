"""OffsetCommit, TxnOffsetCommit, OffsetDelete and DeleteGroups.

Offsets become visible, and the request is answered, when their records are committed: an offset
that a client has read survives this broker.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from headrace.coordination.groups import records
from headrace.coordination.groups.classic import rebalance
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.committed_offsets import Committed, Place
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.offset_access import check_commit
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.messages import CommitRequest
from headrace.coordination.groups.modern import ending
from headrace.coordination.groups.repeated_commits import RepeatedCommit
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done, Once
from headrace.shards.journal import KeyValue

_S = GroupState
_ANSWERS_UNKNOWN_GROUP_SINCE = 9


def commit(shard: ShardContext, request: CommitRequest, done: Done[ErrorCode]) -> None:
    """Store the request's offsets; call `done` once, after they are committed or refused."""
    if _is_admitted(shard, request, done):
        changes, written = _records(shard, request)
        _keep(shard, request.group_id, changes, written, done)


def commit_repeated(
    shard: ShardContext,
    repeated: RepeatedCommit,
    offsets: Sequence[int],
    leader_epochs: Sequence[int],
    done: Done[ErrorCode],
) -> None:
    """Commit as `commit` does for several requests of one member, all answered with the same code.

    The requests are handled together, so nothing changes the group between them.
    """
    request = repeated.request
    if _is_admitted(shard, request, done):
        changes, written = repeated.written(offsets, leader_epochs, shard.clock.wall_ms())
        _keep(shard, request.group_id, changes, written, done)


def _is_admitted(shard: ShardContext, request: CommitRequest, done: Done[ErrorCode]) -> bool:
    """Return whether the request may commit to its group, and renew the member's session.

    Otherwise call `done` with the error.
    """
    try:
        group = _checked(shard, request)
    except ApiError as error:
        done(error.code)
        return False
    if isinstance(group, ClassicGroup) and group.state in (_S.STABLE, _S.PREPARING_REBALANCE):
        rebalance.keep_alive(shard, group, group.members[request.member_id])
    return True


def _keep(
    shard: ShardContext,
    group_id: str,
    changes: list[tuple[Place, Committed]],
    written: list[KeyValue],
    done: Done[ErrorCode],
) -> None:
    shard.commits_in_flight.begin(group_id)
    answer = Once(done)

    def settled(error: ErrorCode | None) -> None:
        if error is None:
            put = shard.offsets.put
            for place, committed in changes:
                put(place, committed)
        answer(error or ErrorCode.NONE)
        shard.commits_in_flight.end(group_id)

    late = partial(answer, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    shard.journal.append_soon(written, settled, late)


def commit_in_transaction(
    shard: ShardContext, request: CommitRequest, producer_id: int, epoch: int, done: Done[ErrorCode]
) -> None:
    """Store the request's offsets as pending until the producer's transaction ends.

    `done` is called once, after their records are committed or refused; INVALID_PRODUCER_EPOCH for
    a fenced producer.
    """
    try:
        _checked(shard, request, transactional=True)
    except ApiError as error:
        done(error.code)
        return
    changes, written = _records(shard, request)
    shard.commits_in_flight.begin(request.group_id)

    def settled(error: ErrorCode | None) -> None:
        if error is None:
            for place, committed in changes:
                shard.offsets.put_in_transaction(producer_id, place, committed)
        done(error or ErrorCode.NONE)
        shard.commits_in_flight.end(request.group_id)

    shard.journal.append_transactional(written, producer_id, epoch, settled)


def _records(
    shard: ShardContext, request: CommitRequest
) -> tuple[list[tuple[Place, Committed]], list[KeyValue]]:
    """Return the offsets that the request commits and the records that store them."""
    now_ms = shard.clock.wall_ms()
    expires_ms = -1 if request.retention_ms < 0 else now_ms + request.retention_ms
    group_id = request.group_id
    changes: list[tuple[Place, Committed]] = []
    written: list[KeyValue] = []
    for topic, partition, offset, leader_epoch, metadata in request.offsets:
        committed = Committed(offset, leader_epoch, metadata, now_ms, expires_ms)
        place = (group_id, topic, partition)
        changes.append((place, committed))
        written.append((records.offset_key(place), records.offset_value(committed)))
    return changes, written


def _checked(
    shard: ShardContext, request: CommitRequest, *, transactional: bool = False
) -> ClassicGroup | ConsumerGroup:
    """Return the group if the request may commit now; ApiError as Kafka's validateOffsetCommit.

    In a transaction the request may lack a member id (before KIP-447).
    """
    consumers = shard.modern.find(ConsumerGroup, request.group_id)
    if consumers is not None:
        check_commit(consumers, request, shard.image(), in_transaction=transactional)
        return consumers
    group = shard.groups.get(request.group_id)
    generation = request.generation
    if group is None:
        if generation >= 0:
            knows = request.version >= _ANSWERS_UNKNOWN_GROUP_SINCE and not transactional
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND if knows else ErrorCode.ILLEGAL_GENERATION)
        # A consumer with manual assignment: the group has committed offsets and no members.
        group = ClassicGroup(request.group_id, shard.clock.wall_ms())
        shard.groups[request.group_id] = group
        return group
    if generation < 0 and group.state is _S.EMPTY:
        return group
    if generation < 0 and not request.member_id and request.instance_id is None:
        if transactional:
            return group
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.instance_id)
    if generation != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    if group.state is _S.COMPLETING_REBALANCE and not transactional:
        # The member is about to receive a new assignment and may not own the partitions it commits.
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    return group


def delete_offsets(
    shard: ShardContext,
    group_id: str,
    wanted: Sequence[tuple[str, int]],
    done: Callable[[ErrorCode, list[ErrorCode]], None],
) -> None:
    """Delete committed offsets of topics that no group member is subscribed to.

    `done(error of the group, one code for each of wanted)` is called once the tombstones are
    committed.
    """
    group = shard.groups.get(group_id) or shard.modern.find(ConsumerGroup, group_id)
    if group is None:
        done(ErrorCode.GROUP_ID_NOT_FOUND, [])
        return
    if isinstance(group, ClassicGroup) and group.state is not _S.EMPTY and not group.is_consumer:
        done(ErrorCode.NON_EMPTY_GROUP, [])
        return
    again = partial(delete_offsets, shard, group_id, wanted, done)
    if shard.commits_in_flight.postpone(group_id, again):
        return
    codes: list[ErrorCode] = []
    places: list[Place] = []
    for topic, partition in wanted:
        reading = group.subscribes(topic)
        codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if reading else ErrorCode.NONE)
        place = (group_id, topic, partition)
        if not reading and (shard.offsets.get(place) or shard.offsets.is_unstable(place)):
            places.append(place)

    def deleted(error: ErrorCode | None) -> None:
        done(error or ErrorCode.NONE, [] if error else codes)

    forget(shard, places, deleted)


def forget(shard: ShardContext, places: Iterable[Place], done: Done[ErrorCode | None]) -> None:
    """Write tombstones for the offsets at `places`; remove them once the tombstones are
    committed."""
    gone = list(places)
    if not gone:
        done(None)
        return

    def committed(error: ErrorCode | None) -> None:
        if error is None:
            for place in gone:
                shard.offsets.remove(place)
        done(error)

    shard.journal.append_soon([(records.offset_key(place), None) for place in gone], committed)


def delete_group(shard: ShardContext, group_id: str, done: Done[ErrorCode]) -> None:
    """Delete an empty group and its committed offsets; `done` is called once that is committed."""
    group = shard.groups.get(group_id) or shard.modern.find(ConsumerGroup, group_id)
    if group is None:
        done(ErrorCode.GROUP_ID_NOT_FOUND)
        return
    if is_occupied(group):
        done(ErrorCode.NON_EMPTY_GROUP)
        return
    # Commits in flight must not outlive the group.
    if shard.commits_in_flight.postpone(group_id, partial(delete_group, shard, group_id, done)):
        return
    bury_with_offsets(shard, group, list(shard.offsets.places(group_id)), done)


def is_occupied(group: ClassicGroup | ConsumerGroup) -> bool:
    """Return whether the group has members, or is about to get some."""
    if isinstance(group, ConsumerGroup):
        return bool(group.members)
    return group.state is not _S.EMPTY


def bury_with_offsets(
    shard: ShardContext,
    group: ClassicGroup | ConsumerGroup,
    places: list[Place],
    done: Done[ErrorCode],
) -> None:
    """Write tombstones for an empty group and for its offsets at `places`.

    The group is removed at once, so a member that joins now creates a new one; if the append fails,
    the group is restored.
    """
    group_id = group.group_id

    def committed(error: ErrorCode | None) -> None:
        if error is not None:
            if isinstance(group, ClassicGroup):
                shard.groups.setdefault(group_id, group)
            done(error)
            return
        for place in places:
            shard.offsets.remove(place)
        done(ErrorCode.NONE)

    tombstones: list[KeyValue] = [(records.offset_key(place), None) for place in places]
    if isinstance(group, ConsumerGroup):
        ending.bury(shard, group, committed, tombstones)
        return
    del shard.groups[group_id]
    tombstones.append((records.group_key(group_id), None))
    shard.journal.append_now(tombstones, committed)
