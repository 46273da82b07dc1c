"""`HeldRights`: reports which rights to be the only leader begin and end on this broker.

    ordered to lead ──► not held ── begun, and granted by the ISR ──────────────────► held
                           ▲                                                           │
                           └── a grant, the lease or the order ends, the ISR changes ──┘

`LeadingRights.holds` decides. A right is looked at when something changes that it depends on. Time
alone ends grants: one timer for the first grant to end, so an answered ping of a broker costs the
same for one led partition and for thousands. A process that stood still calls `check` before it
acts, as its timers are late.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from headrace.broker.replica.leading_right import GRANT_SECONDS, WAIT_SECONDS, PartitionKey
from headrace.broker.replica.leading_rights import LeadingRights
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.clock import Clock
from headrace.ports.deadlines import Deadlines

_NEVER = float("inf")
LATE_SECONDS = (WAIT_SECONDS - GRANT_SECONDS) / 2
"""Seconds behind the end of a grant in which no other leader begins, also by a faster clock."""


class RightsListener(Protocol):
    """An object that acts by rights (`server.cluster.queue_leadership`)."""

    def right_changed(self, partition: TopicPartition, held: bool | None) -> None:
        """Note whether this broker is now the only leader of a partition; None: it does not lead.

        Called with False first for a partition that is to be led and may not yet be.
        """


class HeldRights:
    """The reported rights of a broker. Implements `leading_rights.RightsWatch`."""

    def __init__(
        self,
        rights: LeadingRights,
        lease: Callable[[], int],
        clock: Clock,
        boot_seconds: Callable[[], float],
    ) -> None:
        """Create without a right, and watch `rights`.

        `lease` returns a number that changes whenever the lease of the store's session is lost or
        held again: rights of leaders that are alone in their ISR depend on it.
        """
        self.listener: RightsListener | None = None
        self._rights = rights
        self._lease = lease
        self._lease_seen = lease()
        self._boot_seconds = boot_seconds
        self._reported: dict[TopicPartition, bool] = {}
        self._alone: set[TopicPartition] = set()
        """Led partitions whose right depends on the lease."""
        self._granted: dict[BrokerId, float] = {}
        """When the grants of each broker end, on the boot-time clock."""
        self._first_end = _NEVER
        self._former: Callable[[], bool] | None = None
        """While rights are looked at: the guard of before."""
        self._waits: deque[tuple[float, PartitionKey]] = deque()
        """Partitions that begin at a time, in the order of times: all wait for equally long."""
        self._deadlines = Deadlines(clock)
        self._grants_end = self._deadlines.deadline(self.check)
        self._wait_ends = self._deadlines.deadline(self._begin_waiting)
        rights.watch = self

    @property
    def reported(self) -> dict[TopicPartition, bool]:
        """The led partitions, each with whether its right is held."""
        return self._reported

    def close(self) -> None:
        """Stop the timers: the broker stops."""
        self._deadlines.close()

    def check(self) -> None:
        """End the rights whose time is over by now."""
        if self._boot_seconds() >= self._first_end:
            self._change(self._end_grants)
        if self._alone and self._lease() != self._lease_seen:
            self._change(self._look_at_alone)

    def guard(self) -> Callable[[], bool]:
        """Return a function that tells whether no other broker can act by rights of this moment.

        To the listener of a change: by the rights of before.
        """
        if self._former is not None:
            return self._former
        return partial(self._last, self._first_end + LATE_SECONDS, self._lease_seen)

    def _change(self, change: Callable[[], None]) -> None:
        former, self._former = self._former, self.guard()
        try:
            change()
        finally:
            self._former = former

    def _last(self, end: float, lease: int) -> bool:
        return self._boot_seconds() < end and (not self._alone or self._lease() == lease)

    # --- changes: `RightsWatch` ------------------------------------------------------------------

    def look(self, partition: TopicPartition) -> None:
        """Report a partition's right if it has begun or ended."""
        held = self._rights.held(partition)
        if held is not None and self._rights.alone(partition):
            self._alone.add(partition)
        else:
            self._alone.discard(partition)
        if held is None:
            changed = self._reported.pop(partition, None) is not None
        else:
            changed = self._reported.get(partition) is not held
            self._reported[partition] = held
        if changed and self.listener is not None:
            self.listener.right_changed(partition, held)

    def granted(self, broker: BrokerId, until: float, *, first: bool) -> None:
        """Note a broker's grants until a time; look at rights that had ended without them."""
        self._change(partial(self._note_granted, broker, until, first))

    def _note_granted(self, broker: BrokerId, until: float, first: bool) -> None:
        now = self._boot_seconds()
        former = self._granted.pop(broker, now)
        if until > now:
            self._granted[broker] = until
        self._set_timer(now)
        if first or former <= now:
            self._look_at_those_of(broker)

    def waits(self, key: PartitionKey, begins_at: float) -> None:
        """Look at a partition's right again when its leader begins by itself."""
        self._waits.append((begins_at, key))
        if self._wait_ends.at is None:
            self._wait_ends.set(max(0.0, begins_at - self._boot_seconds()))

    # --- time ------------------------------------------------------------------------------------

    def _set_timer(self, now: float) -> None:
        self._first_end = min(self._granted.values(), default=_NEVER)
        if self._first_end == _NEVER:
            self._grants_end.cancel()
        else:
            self._grants_end.set(max(0.0, self._first_end - now))

    def _end_grants(self) -> None:
        now = self._boot_seconds()
        ended = [broker for broker, until in self._granted.items() if until <= now]
        for broker in ended:
            del self._granted[broker]
        self._set_timer(now)
        for broker in ended:
            self._look_at_those_of(broker)

    def _look_at_those_of(self, broker: BrokerId) -> None:
        for partition, replicas in tuple(self._rights.led.values()):
            if broker in replicas:
                self.look(partition)

    def _look_at_alone(self) -> None:
        self._lease_seen = self._lease()
        for partition in tuple(self._alone):
            self.look(partition)

    def _begin_waiting(self) -> None:
        now = self._boot_seconds()
        while self._waits and self._waits[0][0] <= now:
            _, key = self._waits.popleft()
            led = self._rights.led.get(key)
            if led is not None:
                self.look(led[0])
        if self._waits:
            self._wait_ends.set(max(0.0, self._waits[0][0] - now))
