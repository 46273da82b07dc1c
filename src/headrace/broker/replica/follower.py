"""A partition that copies its leader's log: what it takes, where it cuts, how far it is committed.

Whoever fetches hands in what came. Its fetch offset is the log's end once all of it is flushed.
"""

import logging
from typing import Protocol

from headrace.log.follower_append import append_as_follower
from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset

_logger = logging.getLogger(__name__)
_NOWHERE = Offset(0)


class Following(Protocol):
    """The partition of a follower."""

    @property
    def log(self) -> Log: ...
    @property
    def flushes_on_ack(self) -> bool: ...
    def advance(self, upto: Offset) -> None: ...
    def flush(self) -> None: ...
    def close(self, because: ErrorCode) -> None: ...


class Follower:
    """One leader followed in one epoch. It ends with the partition's next role."""

    __slots__ = (
        "_following", "ended", "leader", "leader_high_watermark", "unclean",
    )  # fmt: skip

    def __init__(self, following: Following, leader: BrokerId, *, unclean: bool) -> None:
        """`unclean`: the leader was elected though it may lack committed records."""
        self._following = following
        self.leader = leader
        self.unclean = unclean
        self.leader_high_watermark = _NOWHERE
        """0 until the leader has said that it has all that is here: what an earlier leader left at
        the end may lie below the new one's high watermark, and is not what was committed."""
        self.ended = False

    def committed_end(self) -> Offset:
        """Return how far the own high watermark may go.

        That is to the leader's, as far as it is flushed here.
        """
        log = self._following.log
        own = log.flushed_offset if self._following.flushes_on_ack else log.end_offset
        return min(self.leader_high_watermark, own)

    def append(self, data: memoryview, leader_high_watermark: Offset, now_ms: int) -> Offset:
        """Append what was fetched from the log's end on, without DivergingEpoch; the new end.

        `data` may be empty. It is flushed soon. ApiError: NOT_LEADER_OR_FOLLOWER where this leader
        is followed no longer; and what `append_as_follower` raises.
        """
        self._check()
        following = self._following
        if data:
            append_as_follower(following.log, data, now_ms)
            following.flush()
        self.leader_high_watermark = leader_high_watermark
        following.advance(self.committed_end())
        return following.log.end_offset

    def move_start(self, leader_start: Offset) -> None:
        """Hide what lies below the leader's start, as far as it is committed here.

        ApiError: NOT_LEADER_OR_FOLLOWER as `append`. StorageError.
        """
        self._check()
        log = self._following.log
        start = min(leader_start, log.high_watermark)
        if start > log.start_offset:
            log.delete_records(start)

    def offset_to_cut(self, epoch: LeaderEpoch, end: Offset) -> Offset | None:
        """Return where to cut the log, the leader's `epoch` ending at `end` (DivergingEpoch).

        `epoch` is the leader's greatest not above our last. Where we do not have it, ours below it
        ends the common part at the latest, and the next answer may cut once more. What was
        committed never goes, unless the election was unclean: then None, the partition is out of
        service, and all of its bytes stay. ApiError: NOT_LEADER_OR_FOLLOWER as `append`.
        """
        self._check()
        log = self._following.log
        own_epoch, own_end = log.end_offset_for_epoch(epoch)
        if own_epoch == epoch or own_epoch < 0:
            own_end = log.end_offset if own_epoch < 0 else own_end
            cut = min(own_end, end)
        else:
            cut = own_end
        if cut >= log.high_watermark or self.unclean:
            return cut
        _logger.error(
            "%s: broker %d, its leader, has epoch %d end at %d, below what was committed here (%d)."
            " The partition is out of service and keeps its bytes: compare the replicas, then"
            " delete the wrong one",
            log.topic_partition, self.leader, epoch, end, log.high_watermark,
        )  # fmt: skip
        self._following.close(ErrorCode.KAFKA_STORAGE_ERROR)
        return None

    def _check(self) -> None:
        if self.ended:
            log = self._following.log
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{log!r} follows another leader")
