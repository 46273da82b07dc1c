"""The partitions that a client fetches: their turns, and those that must be looked at.

A partition without records to return is not looked at again until that may have changed: it is
watched, and marks itself ready. So a wait for thousands of idle partitions costs only what those
cost that are not idle.

- `ready`: partitions that may have something to return: marked, changed by the client, with more
  records, or in error.
- `untold`: partitions without records, whose start and end offsets a request has not been told yet.
"""

from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.wire.kafka.hot.fetch_response import NO_EPOCH_END

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.broker.partition import Partition
    from headrace.frontends.long_poll import LongPoll
    from headrace.security.identity import Identity
    from headrace.wire.kafka.hot.fetch import FetchPartition
    from headrace.wire.kafka.hot.fetch_response import FetchedPartition

Key = tuple[str | bytes, int]
"""Topic name, or topic id in versions with ids, and partition index."""
Reader = tuple[bool, bool, "tuple[Identity, int] | None"]
"""Whether the client is a follower, whether it reads committed data only, and its identity.

The identity comes with the version of the authorizer's rules; None if every client may read all
topics. The readable records depend on all three.
"""
_turn_of = attrgetter("turn")


class WantedPartition:
    """A partition of a fetch session: what is requested, and the offsets last returned."""

    __slots__ = (
        "_marked_in",
        "asked",
        "high_watermark",
        "key",
        "log_start_offset",
        "partition",
        "turn",
    )

    def __init__(self, key: Key, asked: "FetchPartition", turn: int) -> None:
        self.key = key
        self.asked = asked
        self.turn = turn
        """Turn of the partition; lower ones come first."""
        self.partition: Partition | None = None
        """The watched partition; None: none is."""
        self._marked_in: WantedPartitions | None = None
        """Set only while watching, as a reference cycle is left to the garbage collector."""
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, answer: "FetchedPartition") -> bool:
        """Tell whether `answer` has anything that no answer before had."""
        return (
            answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or answer.error_code != 0
            or bool(answer.records)
            or answer.diverging_epoch is not NO_EPOCH_END
            or answer.preferred_read_replica >= 0
        )

    def told(self, answer: "FetchedPartition") -> None:
        """Note the offsets of an answer that is being sent."""
        # After an error the offsets are news again.
        self.high_watermark = answer.high_watermark if answer.error_code == 0 else -1
        self.log_start_offset = answer.log_start_offset

    def watch(self, partition: "Partition", wanted: "WantedPartitions") -> None:
        """Let `partition`, and no other, mark this one as ready in `wanted`."""
        if self.partition is not partition:
            self.unwatch()
            self.partition, self._marked_in = partition, wanted
            partition.watch(self.mark)

    def unwatch(self) -> None:
        """Stop watching the partition for new records."""
        watched, self.partition, self._marked_in = self.partition, None, None
        if watched is not None:
            watched.unwatch(self.mark)

    def mark(self) -> None:
        """Mark this partition as ready; wake a waiting request."""
        wanted = self._marked_in
        if wanted is None:
            return
        wanted.ready[self] = None
        if wanted.poll is not None:
            wanted.poll.wake()


class WantedPartitions:
    """The partitions of one session, or of one request without a session."""

    __slots__ = ("_next_turn", "_reader", "by_key", "kept", "poll", "ready", "untold")

    entry = WantedPartition
    """The class of its partitions."""

    def __init__(self, *, kept: bool) -> None:
        self.by_key: dict[Key, WantedPartition] = {}
        self.ready: dict[WantedPartition, None] = {}
        self.untold: dict[WantedPartition, None] = {}
        self.poll: LongPoll | None = None
        """The wait of the present request; None: no request waits."""
        self.kept = kept
        """Whether further requests follow, so that partitions stay watched."""
        self._next_turn = 0
        self._reader: Reader | None = None

    def put(self, key: Key, asked: "FetchPartition") -> None:
        """Add a partition, last in turn, or change the request for a known one."""
        known = self.by_key.get(key)
        if known is None:
            self._next_turn = turn = self._next_turn + 1
            known = self.by_key[key] = self.entry(key, asked, turn)
        else:
            known.asked = asked
        self.ready[known] = None

    def remove(self, key: Key) -> None:
        """Remove a partition from the fetched ones."""
        known = self.by_key.pop(key, None)
        if known is not None:
            known.unwatch()
            self.ready.pop(known, None)
            self.untold.pop(known, None)

    def begin(self, reader: Reader) -> None:
        """Begin a request; an earlier one that still waits is answered first."""
        if self.poll is not None:
            self.poll.expire()
        if reader != self._reader:
            self._reader = reader
            self.ready.update(dict.fromkeys(self.by_key.values()))
        elif self.untold:
            self.ready.update(self.untold)
        self.untold.clear()

    def to_look_at(self) -> list[WantedPartition]:
        """Return the partitions that are ready, in turn."""
        return in_turn(self.ready)

    def quiet(self, partition: WantedPartition, *, news: bool) -> None:
        """Note that a partition has no records; `news`: the client is to get its offsets."""
        self.ready.pop(partition, None)
        if news and self.kept:
            self.untold[partition] = None

    def told(self, partition: WantedPartition, answer: "FetchedPartition") -> None:
        """Note the answer for a partition; one that returned records is last in turn next time."""
        self.untold.pop(partition, None)
        partition.told(answer)
        if answer.records:
            self._next_turn = partition.turn = self._next_turn + 1

    def wait(self, poll: "LongPoll") -> None:
        """Have `poll` woken by partitions that become ready."""
        self.poll = poll

    def end_wait(self) -> None:
        """End the present Fetch request's wait."""
        self.poll = None
        if not self.kept:
            unwatch(self.by_key.values())

    def close(self) -> None:
        """End the session; a request that waits continues to."""
        self.kept = False
        if self.poll is None:
            unwatch(self.by_key.values())


def unwatch(partitions: "Iterable[WantedPartition]") -> None:
    """Stop watching the partitions for new records."""
    for partition in partitions:
        partition.unwatch()


def in_turn(partitions: "Iterable[WantedPartition]") -> list[WantedPartition]:
    """Return partitions by turn, those first that have waited longest."""
    ordered = list(partitions)
    if len(ordered) > 1:
        ordered.sort(key=_turn_of)
    return ordered
