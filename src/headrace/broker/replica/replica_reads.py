"""What a leader reads for its followers: whole batches up to the log's end, committed or not.

A follower's fetch says how far it has come. That is noted before the read, as the high watermark
may move by it, unless the follower's log is not the leader's up to there.
"""

from collections.abc import Callable

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import ReplicaFetch
from headrace.broker.replica.leader_term import LeaderTerm
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset

Diverging = tuple[LeaderEpoch, Offset]
"""The leader's greatest epoch that is not above the follower's last one, and where it ends."""


def term_for(partition: Partition, replica: BrokerId, *, epoch_said: bool) -> LeaderTerm:
    """Return the term in which this broker leads `partition` for `replica`.

    `epoch_said`: the follower has named our epoch, and yet we do not know it: it has heard of the
    newer assignment, and is to ask again. ApiError: KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_LEADER_EPOCH.
    """
    if partition.refusal is not None:
        raise ApiError(partition.refusal)
    term = partition.role.term
    if term is None or replica not in term.assigned:
        code = ErrorCode.UNKNOWN_LEADER_EPOCH if epoch_said else ErrorCode.NOT_LEADER_OR_FOLLOWER
        raise ApiError(code, f"{replica} holds no replica of {partition.topic_partition}")
    return term


def diverging(partition: Partition, offset: Offset, last_epoch: LeaderEpoch) -> Diverging | None:
    """Return where a log leaves the leader's that ends at `offset` with `last_epoch`.

    -1: its last epoch is not said. None: all that it has, the leader has. ApiError:
    OFFSET_OUT_OF_RANGE where that is not known, or `offset` lies outside of the leader's log.
    """
    log = partition.log
    epoch, end = last_epoch, log.end_offset
    if last_epoch >= 0:
        epoch, end = partition.end_offset_for_epoch(last_epoch)
        if epoch >= 0 and offset >= log.start_offset and (epoch < last_epoch or end < offset):
            return epoch, end
    if (epoch < 0 <= last_epoch) or not log.start_offset <= offset <= log.end_offset:
        raise _out_of_range(partition, offset)
    return None


def _out_of_range(partition: Partition, offset: Offset) -> ApiError:
    return ApiError(
        ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition.log!r} has no offset {offset} to go on from"
    )


def note_fetch(
    partition: Partition,
    term: LeaderTerm,
    fetch: ReplicaFetch,
    *,
    at: float,
    registered: int,
    isr_wanted: Callable[[Partition], None],
) -> None:
    """Note where a follower is; have it join the ISR where it may.

    `at`: when it said so, in monotonic seconds. `registered`: its broker's epoch as we know it. A
    follower of another registration is not believed to keep what it says it has.
    ApiError: NOT_LEADER_OR_FOLLOWER for an earlier registration's.
    """
    if fetch.replica_epoch < registered:
        raise ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {fetch.replica} is registered as {registered}, not as {fetch.replica_epoch}",
        )
    may_join = fetch.replica_epoch == registered
    if term.note_fetch(fetch, at, may_join=may_join) is not None:
        isr_wanted(partition)
