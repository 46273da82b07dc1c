"""`Follower`: a partition that copies its leader's log: append, truncation, high watermark.

The fetcher passes in the fetched data. The fetch offset is the log's end once all of it is flushed.
"""

import logging
from typing import Protocol

from headrace.log.follower_append import append_as_follower, follow_start
from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset

_logger = logging.getLogger(__name__)
_NOWHERE = Offset(0)


class Following(Protocol):
    """The interface of a partition role to the `Follower` that it owns."""

    @property
    def log(self) -> Log: ...
    @property
    def flushes_on_ack(self) -> bool: ...
    def advance(self, upto: Offset) -> None: ...
    def flush(self) -> None: ...
    def close(self, because: ErrorCode) -> None: ...


class Follower:
    """The state of following one leader in one epoch. It ends with the partition's next role."""

    __slots__ = (
        "_following", "ended", "leader", "leader_high_watermark", "unclean",
    )  # fmt: skip

    def __init__(self, following: Following, leader: BrokerId, *, unclean: bool) -> None:
        """Make a follower of `leader`; `unclean`: its election may have lost committed records."""
        self._following = following
        self.leader = leader
        self.unclean = unclean
        self.leader_high_watermark = _NOWHERE
        """The leader's high watermark; 0 until the leader has confirmed the follower's end.

        Before that, records left by an earlier leader could lie below the new leader's high
        watermark although they are not the committed ones.
        """
        self.ended = False

    def committed_end(self) -> Offset:
        """Return the limit of the own high watermark: the leader's, as far as it is flushed
        here."""
        log = self._following.log
        own = log.flushed_offset if self._following.flushes_on_ack else log.end_offset
        return min(self.leader_high_watermark, own)

    def append(self, data: memoryview, leader_high_watermark: Offset, now_ms: int) -> Offset:
        """Append data fetched from the log's end on; return the new end offset.

        `data` may be empty. A flush is requested. ApiError: NOT_LEADER_OR_FOLLOWER if this leader
        is no longer followed; and what `append_as_follower` raises.
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
        """Move the log's start to the leader's, at most to the own high watermark.

        ApiError: NOT_LEADER_OR_FOLLOWER as `append`. Raises StorageError.
        """
        self._check()
        follow_start(self._following.log, leader_start)

    def offset_to_cut(self, epoch: LeaderEpoch, end: Offset) -> Offset | None:
        """Return the offset at which to truncate, given the end of the leader's `epoch`.

        From DivergingEpoch: `epoch` is the leader's greatest not above the follower's last one. If
        the follower lacks it, the logs agree at most up to the follower's next older epoch, and the
        next response may truncate further. Committed records are not removed unless the election
        was unclean: then None, and the partition is out of service with all its data. ApiError:
        NOT_LEADER_OR_FOLLOWER as `append`.
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
            "%s: its leader, broker %d, ends epoch %d at %d, below the high watermark here (%d)."
            " The partition is out of service and its data is unchanged: compare the replicas, then"
            " delete the wrong one",
            log.topic_partition, self.leader, epoch, end, log.high_watermark,
        )  # fmt: skip
        self._following.close(ErrorCode.KAFKA_STORAGE_ERROR)
        return None

    def _check(self) -> None:
        if self.ended:
            log = self._following.log
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{log!r} follows another leader")
