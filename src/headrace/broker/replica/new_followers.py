"""`NewFollowers`: followers of partitions that this broker began to lead, until they fetch them.

A follower has one fetch under way with each leader. If that waits for records and lacks a partition
that is new, the partition's first commit would wait for it, `replica.fetch.wait.max.ms` at most. So
such a fetch is answered soon.
"""

from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.broker.metadata_image import MetadataImage
    from headrace.broker.partition import Partition
    from headrace.model.nouns import BrokerId, LeaderEpoch
    from headrace.ports.clock import Clock

    Key = tuple[str | bytes, int]
    """Topic id, or its name from followers without ids, and partition index."""

NEW_SECONDS = 1.0
"""Seconds after which a partition is not new any more, whether it is fetched or not."""
ORDER_SECONDS = 0.005
"""Seconds for the order to follow to arrive, before a waiting fetch is answered."""
SOON_MS = 20
"""Milliseconds that a fetch waits at most while it lacks a new partition."""


class Wait(Protocol):
    """The wait of a fetch. Implemented by `frontends.long_poll.LongPoll`."""

    @property
    def is_over(self) -> bool:
        """Whether it is answered."""

    def expire(self) -> None:
        """Have it answered now."""


class Asked(Protocol):
    """The request of a fetch for a partition."""

    @property
    def current_leader_epoch(self) -> int:
        """The leader epoch that the follower knows."""


class Fetched(Protocol):
    """A partition of a fetch. Implemented by `wanted_partitions.WantedPartition`."""

    @property
    def asked(self) -> Asked:
        """The request for it."""


class _New(NamedTuple):
    """A partition that a follower does not fetch yet."""

    partition: "Partition"
    epoch: "LeaderEpoch"
    until: float
    """Monotonic seconds at which it is not new any more."""


class NewFollowers:
    """The new partitions that each follower does not fetch yet. On the deciding thread."""

    def __init__(
        self,
        own: "BrokerId",
        clock: "Clock",
        image: "MetadataImage",
        led: "Mapping[tuple[str, int], Partition]",
    ) -> None:
        """Begin without new partitions. `own`: this broker; `led`: the partitions that it leads."""
        self._own = own
        self._clock = clock
        self._image = image
        self._led = led
        self._has_followers = False
        """Whether a follower has fetched: partitions are new to followers from then on."""
        self._missing: dict[BrokerId, dict[Key, _New]] = {}
        self._waits: dict[BrokerId, list[Wait]] = {}
        """The fetches of each follower that wait, or did so at the last one's begin."""
        self._due: set[BrokerId] = set()
        """Followers whose waiting fetches are answered in `ORDER_SECONDS`."""

    def opened(self, partition: "Partition") -> None:
        """Note a partition that this broker began to lead. Called by `Broker.opened`."""
        term = partition.role.term
        if term is None or not self._has_followers:
            return
        now = self._clock.monotonic()
        key = (partition.topic_id, partition.topic_partition.partition)
        new = _New(partition, partition.leader_epoch, now + NEW_SECONDS)
        for follower in term.assigned:
            if follower == self._own:
                continue
            missing = self._missing.setdefault(follower, {})
            _forget_before(missing, now)
            missing.pop(key, None)  # the order is that of `until`
            missing[key] = new
            if follower in self._waits and follower not in self._due:
                self._due.add(follower)
                self._clock.call_later(ORDER_SECONDS, partial(self._answer, follower))

    def _answer(self, follower: "BrokerId") -> None:
        self._due.discard(follower)
        for wait in self._waits.pop(follower, ()):
            wait.expire()

    def wait_ms(self, follower: "BrokerId", fetched: "Mapping[Key, Fetched]", asked_ms: int) -> int:
        """Return how long a follower's fetch of partitions may wait, if it asks for `asked_ms`."""
        self._has_followers = True
        missing = self._missing.get(follower)
        if missing is None:
            return asked_ms
        now = self._clock.monotonic()
        passed = []
        for key, new in missing.items():
            entry = fetched.get(key)
            is_fetched = entry is not None and entry.asked.current_leader_epoch >= new.epoch
            if now < new.until and not (is_fetched and key[0] in self._image.topics_by_id):
                break
            passed.append(key)
        for key in passed:
            del missing[key]
        if missing:
            return min(asked_ms, SOON_MS)
        del self._missing[follower]
        return asked_ms

    def partition(self, follower: "BrokerId", key: "Key") -> "Partition | None":
        """Return a new partition that is led still, which the metadata may not have yet."""
        missing = self._missing.get(follower)
        new = None if missing is None else missing.get(key)
        if new is None or new.partition.leader_epoch != new.epoch:
            return None
        led = self._led.get(new.partition.topic_partition)
        return led if led is new.partition else None

    def waits(self, follower: "BrokerId", wait: Wait | None) -> None:
        """Note a fetch that waits, until it is answered; None: it was answered at once."""
        if wait is None:
            return
        others = [each for each in self._waits.get(follower, ()) if not each.is_over]
        self._waits[follower] = [*others, wait]


def _forget_before(missing: "dict[Key, _New]", now: float) -> None:
    """Drop the partitions that are not new any more: a follower that is down fetches none."""
    for key in list(takewhile(lambda key: missing[key].until <= now, missing)):
        del missing[key]
