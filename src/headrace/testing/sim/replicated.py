"""The story of replicas: three brokers hold a topic, clients write and read, and faults occur.

First safety: faults drawn from the seed, with invariants checked after each step. Then liveness: no
more faults, and writes must be acknowledged and all replicas must be in sync again.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from headrace.client.admin.topics import create_topic
from headrace.testing.sim.branches import counted_branches
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.faults.ground import Ground
from headrace.testing.sim.faults.swarm import Faults
from headrace.testing.sim.history import Broken
from headrace.testing.sim.replica_clients import READER, WRITERS, ask_for_ends, read, write
from headrace.testing.sim.replica_watch import ReplicaWatch

TOPIC = "ledger"
BROKERS = (1, 2, 3)
FAULT_SECONDS = 50.0
STORY_SECONDS = 60.0
ACKNOWLEDGED_MIN = 500
"""The least number of acknowledged records: a dead cluster violates no invariant."""
WRITE_SECONDS_MAX = 30.0
"""Seconds after the last fault within which a write to each partition is acknowledged (G15)."""
MEND_SECONDS_MAX = 120.0
"""Seconds after the last fault within which all replicas are in sync (G15)."""
SETTINGS = {"replica.fetch.backoff.ms": "500", "log.segment.bytes": "1048576"}


class Told(NamedTuple):
    """The result of the story of replicas: counts of records, elections and faults."""

    acknowledged: int
    read: int
    elections: int
    counts: Counter[str]
    """Faults that occurred and branches taken, by name."""


class Draw(NamedTuple):
    """The parameters of a story, drawn from its seed."""

    partitions: int
    min_in_sync: int
    unclean: bool
    """The topic's `unclean.leader.election.enable`."""
    lag_seconds: float
    """`replica.lag.time.max.ms` in seconds."""
    settings: dict[str, str]


def drawn(seed: int) -> Draw:
    """Draw the parameters of a story (partitions, min ISR, settings) at random from its seed."""
    chance = random.Random(f"replicated {seed}")  # noqa: S311 - not for secrets
    lag_seconds = chance.choice((0.5, 1.0, 2.0))
    return Draw(
        partitions=chance.choice((1, 1, 2)),
        min_in_sync=chance.choice((1, 2, 2)),
        unclean=chance.random() < 0.2,
        lag_seconds=lag_seconds,
        settings=SETTINGS | {
            "replica.fetch.max.bytes": chance.choice(("1", "1", "1048576")),
            "replica.high.watermark.checkpoint.interval.ms": chance.choice(("500", "5000")),
            "log.roll.ms": chance.choice(("1000", "10000", "604800000")),
            "replica.lag.time.max.ms": str(int(lag_seconds * 1000)),
        },
    )  # fmt: skip


async def replicated_work(cluster: SimCluster) -> Told:
    """Write and read while brokers fail; then check that replicas are equal and nothing is lost.

    Broken: an invariant was violated.
    """
    loop = asyncio.get_running_loop()
    draw = drawn(cluster.seed)
    cluster.history.add("drawn", draw)
    cluster.configure(draw.settings)
    watch = ReplicaWatch(cluster, TOPIC, draw.partitions, BROKERS)
    with counted_branches(watch.counts):
        await start_with_topic(cluster, draw)
        began = loop.time()
        ground = Ground(cluster, BROKERS, (*WRITERS, READER), watch, draw.lag_seconds)
        faults = Faults(ground)
        cluster.history.add("faults", *faults.names)
        writing = [write(cluster, name, watch) for name in WRITERS]
        async with _Running((*writing, read(cluster, watch), ask_for_ends(cluster, watch))) as run:
            await run.until_done(faults.happen(FAULT_SECONDS))
            await run.until_done(_well_again(cluster, watch, began))
            run.cancel(len(writing))
            await run.until_done(_whole_again(cluster, watch))
        watch.judge()
        counts = ground.counts + watch.counts
        counts["starts refused"] = len(cluster.refused_starts)
        cluster.history.add("counted", *sorted(counts.items()))
        await asyncio.gather(*(cluster.stop(number) for number in BROKERS))
    return Told(counts["acknowledged"], counts["read"], watch.elections, counts)


class _Running:
    """Tasks that run until they are cancelled; their exceptions end the story."""

    def __init__(self, works: "tuple[Coroutine[Any, Any, None], ...]") -> None:
        self._tasks = [asyncio.get_running_loop().create_task(work) for work in works]

    async def __aenter__(self) -> "_Running":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel(len(self._tasks))

    async def until_done(self, work: "Coroutine[Any, Any, None]") -> None:
        """Wait until `work` is done; raise if another task fails before."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        going = [other for other in self._tasks if not other.done()]
        await asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED)
        for other in going:
            if other.done():
                other.result()
        self._tasks.remove(task)

    def cancel(self, count: int) -> None:
        """Cancel the first `count` of the running tasks."""
        for task in self._tasks[:count]:
            task.cancel()
        del self._tasks[:count]


async def start_with_topic(cluster: SimCluster, draw: Draw) -> None:
    """Start three brokers, wait until they know each other, and create the topic on all of them."""
    await asyncio.gather(*(cluster.start(number) for number in BROKERS))
    admin = cluster.client("admin")
    while len((await admin.metadata([])).brokers) < len(BROKERS):  # noqa: ASYNC110 - as a client
        await asyncio.sleep(0.01)
    config = {
        "min.insync.replicas": str(draw.min_in_sync),
        "unclean.leader.election.enable": str(draw.unclean).lower(),
    }
    await create_topic(
        admin, TOPIC, partitions=draw.partitions, replication_factor=len(BROKERS), configs=config
    )
    admin.close()


async def _well_again(cluster: SimCluster, watch: ReplicaWatch, began: float) -> None:
    """Wait until writes to each partition are acknowledged, and enough records. Broken (G15)."""
    healed = cluster.loop.time()
    cluster.history.add("healed")

    def written() -> bool:
        return all(asked_at > healed for asked_at in watch.last_acknowledged.values())

    def enough() -> bool:
        return watch.counts["acknowledged"] >= ACKNOWLEDGED_MIN

    await _until(cluster, watch, written, healed + WRITE_SECONDS_MAX, "nothing is acknowledged")
    await asyncio.sleep(began + STORY_SECONDS - cluster.loop.time())
    until = healed + 2 * WRITE_SECONDS_MAX
    await _until(cluster, watch, enough, until, "too few records are acknowledged")


async def _whole_again(cluster: SimCluster, watch: ReplicaWatch) -> None:
    """Wait until all replicas are in sync at the same end. Broken (G15)."""
    until = cluster.loop.time() + MEND_SECONDS_MAX
    await _until(cluster, watch, lambda: watch.converged(), until, "not all are in sync")


async def _until(
    cluster: SimCluster, watch: ReplicaWatch, holds: Callable[[], bool], until: float, what: str
) -> None:
    while not holds():
        if cluster.loop.time() > until:
            raise Broken(f"G15: {what} until {until:.0f} s: {watch.told()}")
        await asyncio.sleep(0.05)
