"""`FollowedNeeds`: the records that a follower keeps of a queue, by its last complete frame.

The leader deletes segments from between others once all their messages are settled (ADR 59); no
fetch tells a follower of that. So it deletes them by each complete frame that it gets. Below the
leader's log start it deletes as any follower does.
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.delivery.settled_state import NOTHING_SETTLED, FrameName, fold
from headrace.model.nouns import LeaderEpoch, Offset
from headrace.queue_stores.log.epoch_ends import end_of_epoch

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.delivery.settled_state import SettledState
    from headrace.ports.disk import Disk

_START = Offset(0)


class FollowedNeeds:
    """The unsettled positions of a followed queue. Implements `log.directory.holds.Holder`."""

    def __init__(self, partition: "Partition", disk: "Disk") -> None:
        """Hold all records until `have_frame`."""
        self._partition = partition
        self._disk = disk
        self._state = NOTHING_SETTLED
        self._holds = partition.log.context.holds
        self._holds.add(partition.topic_partition, self)

    def end(self) -> None:
        """Stop holding: this broker leads, or has deleted the partition."""
        self._holds.remove(self._partition.topic_partition, self)

    def have_frame(self, name: FrameName, content: bytes) -> None:
        """Delete segments whose messages are settled in a complete frame that is durable here."""
        config = self._partition.log.config
        if config.retention_ms >= 0 or config.retention_bytes >= 0:
            return  # settled messages are retained: the leader's start says which are deleted
        bound = end_of_epoch(self._partition, LeaderEpoch(name.leader_epoch))
        self._disk.run(
            lambda: fold(content, lambda _: bound).state, partial(self._have_state, name)
        )

    def _have_state(self, name: FrameName, state: "SettledState | BaseException") -> None:
        if isinstance(state, BaseException):
            raise state
        if name >= self._state.name:
            self._state = state
            log = self._partition.log
            log.context.events.let_go(log, log.high_watermark)

    def first(self) -> Offset:
        """Return 0: neither age nor size deletes records of a queue."""
        return _START

    def wants(self, first: Offset, below: Offset) -> bool:
        """Return whether a position in [first, below) is unsettled, as far as is known here."""
        state = self._state
        first = Offset(max(first, state.start))
        return first < below and not state.runs.covers(first, below)
