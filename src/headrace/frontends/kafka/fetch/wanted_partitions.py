"""What a client fetches: its partitions in the order of their turns, and which to look at.

A partition that was looked at and had nothing to give need not be looked at again until it says
that this may have changed: it is watched, and marks itself. So a wait over thousands of idle
partitions costs what those few cost that are not idle.

* `ready` holds every partition of which a look may find anything but nothing: marked, changed by
  the client, with records not taken yet, or in error.
* `untold` holds those that have nothing to give, but of which a request has not been told yet where
  they begin and end.
"""

from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.wire.kafka.hot.fetch_response import NO_EPOCH_END

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.broker.partition import Partition
    from headrace.frontends.kafka.connection.long_poll import LongPoll
    from headrace.security.identity import Identity
    from headrace.wire.kafka.hot.fetch import FetchPartition
    from headrace.wire.kafka.hot.fetch_response import FetchedPartition

Key = tuple[str | bytes, int]
"""Topic name, or topic id in versions that have ids, and partition."""
Reader = tuple[bool, bool, "tuple[Identity, int] | None"]
"""Whether for replication, whether of committed data only, and where not everybody may read all who
asks by which version of the rules: what is there depends on all three."""
_turn_of = attrgetter("turn")


class WantedPartition:
    """One partition: what is asked of it and what was told last."""

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
        """Those with lower ones come first."""
        self.partition: Partition | None = None
        """The one that is watched."""
        self._marked_in: WantedPartitions | None = None
        """Only while it is watched: what knows each other stays for the collector."""
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, answer: "FetchedPartition") -> bool:
        """Tell whether `answer` tells anything not told before."""
        return (
            answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
            or answer.error_code != 0
            or bool(answer.records)
            or answer.diverging_epoch is not NO_EPOCH_END
            or answer.preferred_read_replica >= 0
        )

    def told(self, answer: "FetchedPartition") -> None:
        """Note what the client is told."""
        # After an error its end is news as well.
        self.high_watermark = answer.high_watermark if answer.error_code == 0 else -1
        self.log_start_offset = answer.log_start_offset

    def watch(self, partition: "Partition", wanted: "WantedPartitions") -> None:
        """Be marked in `wanted` by `partition` from now on, and by no other."""
        if self.partition is not partition:
            self.unwatch()
            self.partition, self._marked_in = partition, wanted
            partition.watch(self.mark)

    def unwatch(self) -> None:
        """Be marked no more."""
        watched, self.partition, self._marked_in = self.partition, None, None
        if watched is not None:
            watched.unwatch(self.mark)

    def mark(self) -> None:
        """Look again, as that may find more; at once if a request waits."""
        wanted = self._marked_in
        if wanted is None:
            return
        wanted.ready[self] = None
        if wanted.poll is not None:
            wanted.poll.wake()


class WantedPartitions:
    """Those of one session, or of one request without a session."""

    __slots__ = ("_next_turn", "_reader", "by_key", "kept", "poll", "ready", "untold")

    entry = WantedPartition
    """What is made for each of them."""

    def __init__(self, *, kept: bool) -> None:
        self.by_key: dict[Key, WantedPartition] = {}
        self.ready: dict[WantedPartition, None] = {}
        self.untold: dict[WantedPartition, None] = {}
        self.poll: LongPoll | None = None
        """The request that waits."""
        self.kept = kept
        """Whether other requests come after this one: then partitions stay watched."""
        self._next_turn = 0
        self._reader: Reader | None = None

    def put(self, key: Key, asked: "FetchPartition") -> None:
        """Want a partition, last in turn, or something else of one that is wanted."""
        known = self.by_key.get(key)
        if known is None:
            self._next_turn = turn = self._next_turn + 1
            known = self.by_key[key] = self.entry(key, asked, turn)
        else:
            known.asked = asked
        self.ready[known] = None

    def remove(self, key: Key) -> None:
        """Want a partition no more."""
        known = self.by_key.pop(key, None)
        if known is not None:
            known.unwatch()
            self.ready.pop(known, None)
            self.untold.pop(known, None)

    def begin(self, reader: Reader) -> None:
        """Begin a request; one that still waits, of a client that has given it up, is answered."""
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
        """Note that a partition has nothing to give. `news`: the client is to be told that."""
        self.ready.pop(partition, None)
        if news and self.kept:
            self.untold[partition] = None

    def told(self, partition: WantedPartition, answer: "FetchedPartition") -> None:
        """Note what the client is told. What gave records comes last the next time.

        All get a turn.
        """
        self.untold.pop(partition, None)
        partition.told(answer)
        if answer.records:
            self._next_turn = partition.turn = self._next_turn + 1

    def wait(self, poll: "LongPoll") -> None:
        """Have `poll` woken by what is marked."""
        self.poll = poll

    def end_wait(self) -> None:
        """End the wait: no request waits any more."""
        self.poll = None
        if not self.kept:
            unwatch(self.by_key.values())

    def close(self) -> None:
        """Take no request any more; one that waits still does."""
        self.kept = False
        if self.poll is None:
            unwatch(self.by_key.values())


def unwatch(partitions: "Iterable[WantedPartition]") -> None:
    """Have none of them marked any more."""
    for partition in partitions:
        partition.unwatch()


def in_turn(partitions: "Iterable[WantedPartition]") -> list[WantedPartition]:
    """Return the same partitions, those first that have waited longest."""
    ordered = list(partitions)
    if len(ordered) > 1:
        ordered.sort(key=_turn_of)
    return ordered
