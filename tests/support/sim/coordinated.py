"""A story: transactions and commits of groups while the brokers that coordinate them fail.

Every internal topic is held by three brokers. At its end what was told to clients is held against
what is there: each transaction whole or not at all, none left open, no acknowledged commit lost.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from headrace.client.admin.groups import Committed, commit, committed
from headrace.client.admin.topics import create_topic
from headrace.client.client import Client
from headrace.client.consumer.consumer import Consumer
from headrace.client.consumer.member import Member
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError
from headrace.model.nouns import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from headrace.testing.sim.cluster import LAG_SECONDS, SimCluster
from headrace.testing.sim.faults.ground import Ground
from headrace.testing.sim.faults.requests import Requests
from headrace.testing.sim.faults.swarm import Faults, Mix
from headrace.testing.sim.history import Broken
from headrace.testing.sim.replica_watch import ReplicaWatch
from tests.support.sim.transactions import Producer

TOPIC = "ledger"
BROKERS = (1, 2, 3)
PARTITIONS = tuple(TopicPartition(TOPIC, index) for index in range(2))
FAULT_SECONDS = 20.0
MEND_SECONDS_MAX = 150.0
SETTINGS = {
    "replica.fetch.backoff.ms": "500",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
FAULTS = Mix(
    ("power cuts", "restarts", "pauses", "cut links", "slow links", "lost touch",
     "expired sessions", "toppled", "blackouts", "elections asked for", "deletions",
     "kills", "false resets"),
    kinds_share=0.6, slow_share=0.3, tracks=(1, 2, 2), pauses_seconds_max=(0.8,),
)  # fmt: skip
"""Not empty disks: whether another has all is only looked at for the topic that is written to."""
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


class CoordinatorRequests(Requests):
    """Leaders of internal topics are moved too, and nothing is deleted."""

    topics: tuple[str, ...] = (TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC)

    async def _hand_over(self) -> None:
        self._ground.counts["elections asked for"] += 1
        for topic in self.topics:
            await self._ground.cluster.elect(topic)

    async def _delete_records(self) -> None:
        await self._hand_over()


class Told(NamedTuple):
    """How the story went."""

    counts: Counter[str]
    """Faults, and outcomes of transactions, by name."""
    commits: int
    generations: int
    """How often a member was given its partitions."""
    epochs: dict[TopicPartition, int]
    """The leader epochs that the internal topics' partitions came to."""


class Work:
    """One transactional producer: what it was told of each of its transactions."""

    def __init__(self, cluster: SimCluster, number: int) -> None:
        self.chance = random.Random(f"producer {number} {cluster.seed}")
        self.client = _client(cluster, f"producer-{number}")
        self.group = f"group-{number}"
        verified = self.chance.random() < 0.5
        self.producer = Producer(self.client, f"id-{number}", verified=verified)
        self.name = number
        self.outcomes: list[str] = []

    async def go_on(self) -> None:
        """Do one transaction after the other, until cancelled."""
        ready = False
        while True:
            try:
                if not ready:
                    await self.producer.init(timeout_ms=30_000)
                    ready = True
                await self._one()
            except (ApiError, ClientError):
                ready = False
            await asyncio.sleep(self.chance.uniform(0, 0.1))

    async def _one(self) -> None:
        turn, commits = len(self.outcomes), self.chance.random() < 0.7
        self.outcomes.append(ABORTED)
        for partition in PARTITIONS:
            await self.producer.write(partition, self.value(turn))
        await self.producer.commit_offsets(self.group, PARTITIONS[0], turn)
        if commits:
            self.outcomes[turn] = UNKNOWN
        await self.producer.end(commit=commits)
        if commits:
            self.outcomes[turn] = COMMITTED

    def value(self, turn: int) -> bytes:
        return b"%d.%d" % (self.name, turn)

    async def judge(self, read: dict[TopicPartition, Counter[bytes]]) -> None:
        """Hold what is read against what was told. Broken."""
        present = set()
        for turn, outcome in enumerate(self.outcomes):
            counts = {values[self.value(turn)] for values in read.values()}
            if len(counts) > 1 or not counts <= {0, 1}:
                raise Broken(f"{self.value(turn)!r} ({outcome}) is there {counts} times")
            if outcome != UNKNOWN and counts != {int(outcome == COMMITTED)}:
                raise Broken(f"{self.value(turn)!r} was {outcome}, and is there {counts} times")
            if counts == {1}:
                present.add(turn)
        found = await committed(self.client, self.group, [PARTITIONS[0]])
        offset = found[PARTITIONS[0]].offset if PARTITIONS[0] in found else None
        if offset != max(present, default=None):
            raise Broken(f"{self.group} is at {offset}, its transactions at {max(present)}")


class Plain:
    """Commits of a group outside of transactions, each later than the one before."""

    def __init__(self, cluster: SimCluster) -> None:
        self.client = _client(cluster, "committer")
        self.acknowledged = -1

    async def go_on(self) -> None:
        """Commit and look, until cancelled."""
        asked = 0
        while True:
            asked += 1
            try:
                await commit(self.client, "plain", {PARTITIONS[0]: Committed(asked)})
                self.acknowledged = asked
                await self.look()
            except (ApiError, ClientError):
                pass
            await asyncio.sleep(0.05)

    async def look(self) -> None:
        """Raise Broken where less is committed than was acknowledged."""
        least = self.acknowledged
        found = await committed(self.client, "plain", [PARTITIONS[0]])
        offset = found[PARTITIONS[0]].offset if PARTITIONS[0] in found else -1
        if offset < least:
            raise Broken(f"{least} was acknowledged to the group, {offset} is there")


Owners = dict[tuple[int, TopicPartition], str]
"""By generation and partition, the member that was given it."""


class Reader:
    """A member of a group: it comes back whenever it must, and commits what only it may."""

    def __init__(
        self, cluster: SimCluster, number: int, acknowledged: dict[int, int], owners: Owners
    ) -> None:
        """`acknowledged`: of all members, by partition. `owners`: all that any was given."""
        self.client = _client(cluster, f"member-{number}")
        self.member = Member(
            self.client, "members", [TOPIC], session_seconds=6.0, rebalance_seconds=5.0
        )
        self.acknowledged = acknowledged
        self.owners = owners
        self.given: Sequence[TopicPartition] = ()
        """What it owns in its member's generation, as far as it knows."""
        self.generations = 0

    async def go_on(self) -> None:
        """Take part in one generation after the other, until cancelled."""
        while True:
            try:
                self.given = ()
                self.given = await self.member.join()
                self._own()
                self.generations += 1
                while await self.member.heartbeat():
                    await self._commit_next(self.given)
                    await asyncio.sleep(0.2)
            except (ApiError, ClientError):
                await asyncio.sleep(0.2)

    def _own(self) -> None:
        """Note what this member was given. Broken where another was in the same generation (G9)."""
        for partition in self.given:
            owner = (self.member.generation, partition)
            if self.owners.setdefault(owner, self.member.member_id) != self.member.member_id:
                raise Broken(
                    f"G9: {owner} is owned by {self.owners[owner]} and {self.member.member_id}"
                )

    async def _commit_next(self, given: Sequence[TopicPartition]) -> None:
        """Commit an offset later than all that were acknowledged. Broken where those are lost."""
        for partition in given:
            index = partition.partition
            known = await committed(self.client, "members", [partition])
            offset = known[partition].offset if partition in known else -1
            if offset < self.acknowledged.get(index, -1):
                raise Broken(f"{self.acknowledged[index]} was acknowledged, {offset} is there")
            if await self.member.commit({partition: Committed(offset + 1)}):
                self.acknowledged[index] = max(self.acknowledged.get(index, -1), offset + 1)


async def coordinated_work(cluster: SimCluster) -> Told:
    """Let clients work while brokers fail; then all is well, and as they were told. Broken."""
    await _started(cluster)
    works = [Work(cluster, number) for number in range(2)]
    plain = Plain(cluster)
    acknowledged: dict[int, int] = {}
    owners: Owners = {}
    readers = [Reader(cluster, number, acknowledged, owners) for number in range(2)]
    watch = ReplicaWatch(cluster, TOPIC, len(PARTITIONS), BROKERS)
    ground = Ground(cluster, BROKERS, ["producer-0", "producer-1"], watch, LAG_SECONDS)
    faults = Faults(ground, CoordinatorRequests, FAULTS)
    loop = asyncio.get_running_loop()
    writing = [loop.create_task(each.go_on()) for each in works]
    writing.append(loop.create_task(plain.go_on()))
    reading = [loop.create_task(reader.go_on()) for reader in readers]
    await _done(loop.create_task(faults.happen(FAULT_SECONDS)), writing + reading)
    await _ended(writing)
    await _done(loop.create_task(_shared_out(readers, acknowledged)), reading)
    await _ended(reading)
    await _all_well(plain, works)
    read = await _read_all(cluster)
    for work in works:
        await work.judge(read)
    counts = ground.counts + Counter(outcome for work in works for outcome in work.outcomes)
    generations = sum(reader.generations for reader in readers)
    told = Told(counts, plain.acknowledged, generations, _epochs(cluster))
    cluster.history.add("counted", *sorted(counts.items()))
    await asyncio.gather(*(cluster.stop(number) for number in BROKERS))
    return told


async def _done(work: "asyncio.Task[None]", others: "list[asyncio.Task[None]]") -> None:
    """Wait until `work` is done; raises what one of the others raises before."""
    await asyncio.wait([work, *others], return_when=asyncio.FIRST_COMPLETED)
    for task in (*others, work):
        if task.done():
            task.result()


async def _ended(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _shared_out(readers: Sequence[Reader], acknowledged: dict[int, int]) -> None:
    """Wait until the members commit all partitions in one generation. Broken where they never do.

    For a while one may believe in a generation that has gone on without it.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + MEND_SECONDS_MAX
    before = acknowledged.copy()
    while True:
        given = [(reader.member.generation, reader.given) for reader in readers]
        owned = sorted(partition for reader in readers for partition in reader.given)
        committed_all = all(
            acknowledged.get(index, -1) > before.get(index, -1) for _, index in PARTITIONS
        )
        if committed_all and owned == list(PARTITIONS) and len({each for each, _ in given}) == 1:
            return
        if loop.time() > until:
            raise Broken(f"not well again after {MEND_SECONDS_MAX} s: members were given {given}")
        await asyncio.sleep(0.1)


async def _all_well(plain: Plain, works: Sequence[Work]) -> None:
    """Abort what producers left open, and look at the plain group. Broken where that fails."""
    for client in (plain.client, *(work.client for work in works)):
        client.retry_seconds = MEND_SECONDS_MAX
    try:
        for work in works:
            await work.producer.init()
        await plain.look()
    except (ApiError, ClientError) as error:
        raise Broken(f"not well again after {MEND_SECONDS_MAX} s: {error}") from error


async def _started(cluster: SimCluster) -> None:
    await asyncio.gather(*(cluster.start(number) for number in BROKERS))
    admin = cluster.client("admin")
    while len((await admin.metadata([])).brokers) < len(BROKERS):  # noqa: ASYNC110 - so soon
        await asyncio.sleep(0.01)
    await create_topic(
        admin, TOPIC, partitions=len(PARTITIONS), replication_factor=3,
        configs={"min.insync.replicas": "2"},
    )  # fmt: skip
    for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
        await cluster.controller().ensure_internal_topic(name)
    admin.close()


async def _read_all(cluster: SimCluster) -> dict[TopicPartition, Counter[bytes]]:
    """Read what is committed, once no transaction is open any more. Broken where one stays so."""
    loop = asyncio.get_running_loop()
    until = loop.time() + MEND_SECONDS_MAX
    while (state := _undecided(cluster)) is not None:
        if loop.time() > until:
            raise Broken(f"not well again after {MEND_SECONDS_MAX} s: {state}")
        await asyncio.sleep(0.1)
    client = _client(cluster, "reader")
    await client.leaders([TOPIC])
    consumer = Consumer(client, dict.fromkeys(PARTITIONS, 0), read_committed=True)
    ends = {partition: _led(cluster, partition)[1] for partition in PARTITIONS}
    read: dict[TopicPartition, Counter[bytes]] = {one: Counter() for one in PARTITIONS}
    while any(consumer.positions[partition] < end for partition, end in ends.items()):
        for chunk in await consumer.poll():
            read[chunk.partition].update(record.value or b"" for record in chunk.records())
    client.close()
    return read


def _led(cluster: SimCluster, partition: TopicPartition) -> tuple[int, int]:
    """Return the last stable offset and the end of a partition at its leader; -1 without one."""
    for server in cluster.brokers.values():
        found = server.broker.partitions.get((*partition,))
        if found is not None and found.role.term is not None and found.role.knows_end:
            return found.last_stable_offset, found.log.end_offset
    return -1, 0


def _undecided(cluster: SimCluster) -> str | None:
    """Return what is not well yet: a partition with an open transaction, or without a leader."""
    inside = (*PARTITIONS, *(TopicPartition(OFFSETS_TOPIC, index) for index in range(3)))
    for partition in inside:
        stable, end = _led(cluster, partition)
        if stable < end:
            return f"{partition} is stable up to {stable} of {end}"
    return None


def _epochs(cluster: SimCluster) -> dict[TopicPartition, int]:
    image = cluster.controller().broker.image
    return {
        TopicPartition(topic, partition.index): int(partition.leader_epoch)
        for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
        for partition in image.topics[topic].partitions
    }


def _client(cluster: SimCluster, name: str) -> Client:
    client = cluster.client(name)
    client.retry_seconds, client.request_timeout_seconds = 8.0, 3.0
    return client
