"""Reads of a leader for its followers: whole batches up to the log's end, committed or not.

A follower's fetch reports its progress. It is recorded before the read, as it may move the high
watermark, unless the follower's log differs from the leader's up to there.
"""

from collections.abc import Callable

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import ReplicaFetch
from headrace.broker.replica.leader_term import LeaderTerm
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset

Diverging = tuple[LeaderEpoch, Offset]
"""The leader's greatest epoch not above the follower's last one, and its end offset."""


def term_for(partition: Partition, replica: BrokerId, *, epoch_said: bool) -> LeaderTerm:
    """Return the term in which this broker leads `partition` with follower `replica`.

    `epoch_said`: the follower sent this broker's leader epoch but is no assigned replica here: it
    has a newer assignment and must ask again. ApiError: KAFKA_STORAGE_ERROR,
    NOT_LEADER_OR_FOLLOWER, UNKNOWN_LEADER_EPOCH.
    """
    if partition.refusal is not None:
        raise ApiError(partition.refusal)
    term = partition.role.term
    if term is None or replica not in term.assigned:
        code = ErrorCode.UNKNOWN_LEADER_EPOCH if epoch_said else ErrorCode.NOT_LEADER_OR_FOLLOWER
        raise ApiError(code, f"{replica} has no replica of {partition.topic_partition}")
    return term


def diverging(partition: Partition, offset: Offset, last_epoch: LeaderEpoch) -> Diverging | None:
    """Return where a follower's log, ending at `offset` in `last_epoch`, leaves the leader's.

    `last_epoch` -1: not sent. None: the leader has everything that the follower has. ApiError:
    OFFSET_OUT_OF_RANGE if that is unknown, or `offset` lies outside of the leader's log.
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
    return ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition.log!r} has no offset {offset}")


def note_fetch(
    partition: Partition,
    term: LeaderTerm,
    fetch: ReplicaFetch,
    *,
    at: float,
    registered: int,
    isr_wanted: Callable[[Partition], None],
) -> None:
    """Record a follower's fetch; request that it joins the ISR if it may.

    `at`: time of the fetch in monotonic seconds. `registered`: its broker's current epoch. A
    follower with another epoch is recorded but may not join, nor one that lacks what
    `Partition.may_join` requires. ApiError: NOT_LEADER_OR_FOLLOWER for
    an older epoch.
    """
    if fetch.replica_epoch < registered:
        raise ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {fetch.replica} is registered as {registered}, not as {fetch.replica_epoch}",
        )
    may_join = fetch.replica_epoch == registered and partition.may_join(fetch.replica)
    if term.note_fetch(fetch, at, may_join=may_join) is not None:
        isr_wanted(partition)
