"""A trace of one partition's high watermarks and log ends, per replica, as a table with words."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from headrace.broker.partition import Partition
from headrace.model.nouns import BrokerId
from headrace.testing.sim.cluster import SimCluster

LOOK_SECONDS = 0.0005


class ReplicaState(NamedTuple):
    """High watermark and log end offset of one replica."""

    high_watermark: int
    log_end: int


class Seen(NamedTuple):
    """The state of a partition at one moment; replicas by their names in the table."""

    leader: str | None
    """As written by the controller, like epoch and ISR; None: no leader."""
    epoch: int
    isr: tuple[str, ...]
    replicas: tuple[ReplicaState | None, ...]
    """None: the broker is down, or has no replica yet."""
    remote: tuple[tuple[str, int], ...]
    """In-sync followers' log ends as the leader knows them from their last Fetch."""


class Step(NamedTuple):
    """A changed state, its time in seconds, and the events that led to it."""

    seconds: float
    seen: Seen
    told: str


class ReplicaTrace:
    """Observes one partition's replicas and records each change."""

    def __init__(
        self,
        cluster: SimCluster,
        topic: str,
        names: Mapping[BrokerId, str],
        controller: BrokerId,
    ) -> None:
        """Observe brokers under their `names` in the table.

        `controller` is asked for leader and ISR; it never fails.
        """
        self.steps: list[Step] = []
        self._cluster = cluster
        self._topic = topic
        self._names = names
        self._controller = controller
        self._began: float | None = None

    def begin(self) -> None:
        """Make the current state the first step."""
        self._began = self._cluster.loop.time()
        self._look("")

    async def watch(self) -> None:
        """Look for changes every `LOOK_SECONDS`, until cancelled."""
        while True:
            self._look("")
            await asyncio.sleep(LOOK_SECONDS)

    def note(self, told: str) -> None:
        """Record the current state with the event `told`."""
        self._look(told)

    def _look(self, told: str) -> None:
        seen = None if self._began is None else self._seen()
        if seen is None or self._began is None:
            return
        now = self._cluster.loop.time()
        before = self.steps[-1].seen if self.steps else None
        changes = list(_changes(before, seen, tuple(self._names.values())))
        if changes or told:
            words = "; ".join((*changes, told) if told else changes)
            self.steps.append(Step(now - self._began, seen, words))

    def _seen(self) -> Seen | None:
        """Return the current state; None while the topic does not exist."""
        server = self._cluster.brokers.get(self._controller)
        topic = None if server is None else server.broker.image.topics.get(self._topic)
        if topic is None:
            return None
        written = topic.partitions[0]
        states: list[ReplicaState | None] = []
        remote: tuple[tuple[str, int], ...] = ()
        for broker in self._names:
            partition = held(self._cluster, broker, self._topic)
            if partition is None:
                states.append(None)
                continue
            log, term = partition.log, partition.role.term
            states.append(ReplicaState(log.high_watermark, log.end_offset))
            if term is not None and broker == written.leader:
                ends = sorted(term.ends_in_sync(log.start_offset))
                remote = tuple((self._names[replica], end) for replica, end in ends)
        return Seen(
            self._names.get(written.leader),
            written.leader_epoch,
            tuple(self._names[broker] for broker in written.isr),
            tuple(states),
            remote,
        )

    def headings(self) -> list[str]:
        """Return the table's column headings."""
        replicas = [f"{name} {what}" for name in self._names.values() for what in ("HW", "LEO")]
        return ["SECONDS", "LEADER", "EPOCH", "ISR", *replicas, "REMOTE LEO", "WHAT HAPPENED"]

    def rows(self) -> list[list[str]]:
        """Return the trace's steps as rows of the table."""
        return [list(_cells(step)) for step in self.steps]

    def as_json(self) -> list[dict[str, Any]]:
        """Return the trace's steps for JSON output."""
        names = tuple(self._names.values())
        return [
            {
                "seconds": round(seconds, 4),
                "leader": seen.leader,
                "leader_epoch": seen.epoch,
                "isr": list(seen.isr),
                "replicas": {
                    name: None
                    if state is None
                    else {"high_watermark": state.high_watermark, "end_offset": state.log_end}
                    for name, state in zip(names, seen.replicas, strict=True)
                },
                "remote_end_offsets": dict(seen.remote),
                "event": told,
            }
            for seconds, seen, told in self.steps
        ]


def held(cluster: SimCluster, broker: BrokerId, topic: str) -> Partition | None:
    """Return a running broker's replica of the topic's first partition, or None."""
    server = cluster.brokers.get(broker)
    if server is None:
        return None
    led = server.broker.partitions.get((topic, 0))
    return led or server.broker.followed.get((topic, 0))


def _cells(step: Step) -> Iterator[str]:
    seen = step.seen
    yield from (f"{step.seconds:.4f}", seen.leader or "none", str(seen.epoch), ",".join(seen.isr))
    for state in seen.replicas:
        yield from ("-", "-") if state is None else map(str, state)
    yield ",".join(f"{name}={end}" for name, end in seen.remote) or "-"
    yield step.told


# --- changes in words ---------------------------------------------------------------------------


def _changes(before: Seen | None, after: Seen, names: Sequence[str]) -> Iterator[str]:
    """Yield the events between two states, in the order in which they occur."""
    if before is None:
        yield f"{after.leader} leads, leader epoch {after.epoch}, and all follow it"
        return
    pairs = list(zip(names, before.replicas, after.replicas, strict=True))
    yield from chain.from_iterable(_came_or_went(*pair) for pair in pairs)
    if before.isr != after.isr:
        gone = set(before.isr) - set(after.isr)
        yield f"ISR {'shrinks' if gone else 'grows'} to {','.join(after.isr)}"
    if (before.leader, before.epoch) != (after.leader, after.epoch):
        yield (
            "nobody leads"
            if after.leader is None
            else f"{after.leader} leads, leader epoch {after.epoch}"
        )
    for name, old, new in pairs:
        if old is not None and new is not None:
            yield from _moved(name, old, new, leads=name == after.leader, remote=after.remote)
    known = dict(before.remote)
    for name, end in after.remote:
        if known.get(name, -1) != end:
            yield f"{name} fetches from {end} on: {after.leader} knows its LEO is {end}"


def _came_or_went(name: str, old: ReplicaState | None, new: ReplicaState | None) -> Iterator[str]:
    if old is None and new is not None:
        yield f"{name} holds a replica that ends at {new.log_end}"
    elif new is None and old is not None:
        yield f"{name} is down"


def _moved(
    name: str,
    old: ReplicaState,
    new: ReplicaState,
    *,
    leads: bool,
    remote: Sequence[tuple[str, int]],
) -> Iterator[str]:
    if new.log_end > old.log_end:
        yield f"{name} appends {'a message' if leads else 'what it fetched'}, LEO {new.log_end}"
    elif new.log_end < old.log_end:
        yield f"{name} truncates its log from {old.log_end} to {new.log_end}"
    if new.high_watermark == old.high_watermark:
        return
    if new.high_watermark < old.high_watermark:
        yield f"{name}'s HW goes back from {old.high_watermark} to {new.high_watermark}"
    elif leads:
        yield f"HW of {name} moves to {new.high_watermark}: the whole ISR holds what is below"
    else:
        yield f"{name} is told HW {new.high_watermark} by its leader"
