"""Transactions whose coordinator, partitions and groups are led by different brokers."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

import pytest

from headrace.client.admin.groups import committed
from headrace.client.admin.topics import create_topic
from headrace.client.client import Client
from headrace.coordination.transactions.all_transactions import Membership
from headrace.coordination.transactions.markers import Marker as Sent
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.log.text_files import encode_uuid
from headrace.model.errors import ErrorCode
from headrace.model.nouns import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    BrokerId,
    TopicPartition,
)
from headrace.record.batch import CONTROL, iterate, parse_control, records
from headrace.server.assembly import Server
from headrace.shards.group_partition import partition_for
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop
from tests.support.sim.cluster import until
from tests.support.sim.transactions import (
    GROUP,
    SHARE,
    TRANSACTION,
    Producer,
    coordinators,
    refusal,
)

BROKERS = (1, 2, 3)
TOPIC = "ledger"
PARTITIONS = tuple(TopicPartition(TOPIC, index) for index in range(3))
Story = Callable[[SimCluster, Client], Coroutine[Any, Any, None]]


def play(story: Story, seed: int = 1, settings: dict[str, str] | None = None) -> None:
    """Three brokers, each of which leads a third of each topic, internal ones included."""
    loop = SimLoop(seed)
    cluster = SimCluster(loop, seed, settings)

    async def whole() -> None:
        await asyncio.gather(*(cluster.start(number) for number in BROKERS))
        client = cluster.client("client")
        while len((await client.metadata([])).brokers) < len(BROKERS):  # noqa: ASYNC110 - so soon
            await asyncio.sleep(0.01)
        await create_topic(client, TOPIC, partitions=3, replication_factor=1)
        for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            await cluster.controller().ensure_internal_topic(name)
        await client.leaders([TOPIC])
        await story(cluster, client)
        client.close()
        for number in sorted(cluster.brokers):
            await cluster.stop(number)

    loop.play(whole())


def leader(cluster: SimCluster, partition: TopicPartition) -> Server:
    """The broker that leads a partition, whatever the others know of it."""
    return next(server for server in cluster.brokers.values()
                if (*partition,) in server.broker.partitions)  # fmt: skip


class Marker(NamedTuple):
    kind: str
    coordinator_epoch: int


def content(cluster: SimCluster, partition: TopicPartition) -> list[bytes | Marker]:
    """The partition's records as they lie in its log, values and markers; none without a leader."""
    if not any((*partition,) in server.broker.partitions for server in cluster.brokers.values()):
        return []
    log = leader(cluster, partition).broker.partition(*partition).log
    data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
    found: list[bytes | Marker] = []
    for _, header in iterate(data):
        batch = next(data[at:] for at, one in iterate(data) if one == header)
        for record in records(memoryview(batch)):
            if header.attributes & CONTROL:
                marker = parse_control(record)
                found.append(Marker(marker.type.name, marker.coordinator_epoch))
            else:
                found.append(record.value or b"")
    return found


def _has_marker(cluster: SimCluster, partition: TopicPartition) -> bool:
    return Marker in map(type, content(cluster, partition))


async def until_content(cluster: SimCluster, partition: TopicPartition, count: int) -> None:
    """Wait until the partition has so many records, markers included."""
    await until(lambda: len(content(cluster, partition)) == count)


def id_led_by(cluster: SimCluster, number: int) -> str:
    """A transactional id, or a group, whose coordinator is that broker."""
    return next(
        name for name in map(str, range(100))
        if leader(cluster, TopicPartition(TRANSACTIONS_TOPIC, partition_for(name, 3)))
        is cluster.brokers[number]
    )  # fmt: skip


def group_led_by(cluster: SimCluster, number: int) -> str:
    return next(
        name for name in map(str, range(100))
        if leader(cluster, TopicPartition(OFFSETS_TOPIC, partition_for(name, 3)))
        is cluster.brokers[number]
    )  # fmt: skip


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_markers_reach_partitions_led_by_every_broker_under_the_coordinators_epoch(
    verified: bool, commit: bool
) -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        assert len({id(leader(cluster, partition)) for partition in PARTITIONS}) == 3
        name = id_led_by(cluster, 2)
        state = TopicPartition(TRANSACTIONS_TOPIC, partition_for(name, 3))
        epoch = cluster.brokers[2].broker.partition(*state).leader_epoch
        producer = Producer(client, name, verified=verified)
        await producer.init()
        for turn in range(2):
            for partition in PARTITIONS:
                await producer.write(partition, b"%d" % turn)
            await producer.end(commit=commit)
        marker = Marker("COMMIT" if commit else "ABORT", epoch)
        for partition in PARTITIONS:
            await until_content(cluster, partition, 4)
            assert content(cluster, partition) == [b"0", marker, b"1", marker]

    play(story)


def test_one_request_carries_a_brokers_markers_of_all_transactions_that_end_meanwhile() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        coordinator = cluster.brokers[1]
        names = [
            name for name in map(str, range(40))
            if leader(cluster, TopicPartition(TRANSACTIONS_TOPIC, partition_for(name, 3)))
            is coordinator
        ]  # fmt: skip
        producers = [Producer(client, name) for name in names]
        for producer in producers:
            await producer.init()
            for partition in PARTITIONS:
                await producer.write(partition, producer.name.encode())
        for number in (2, 3):
            cluster.network.cut("broker-1", f"broker-{number}")
        for producer in producers:
            await producer.end()
        for number in (2, 3):
            cluster.network.mend("broker-1", f"broker-{number}")
        await asyncio.sleep(5)
        for partition in PARTITIONS:
            assert len(content(cluster, partition)) == 2 * len(producers)
        assert len(producers) > 10
        asked = [cluster.brokers[number].metrics.api(27).requests for number in (2, 3)]
        assert max(asked) <= 3

    play(story)


@pytest.mark.parametrize("seed", range(3))
def test_a_marker_waits_for_a_broker_that_is_away_and_for_no_other(seed: int) -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        producer = Producer(client, id_led_by(cluster, 1))
        await producer.init()
        for partition in PARTITIONS:
            await producer.write(partition, b"v")
        away = next(one for one in PARTITIONS if leader(cluster, one) is cluster.brokers[3])
        await cluster.stop(3)
        await producer.end()
        for partition in PARTITIONS:
            if partition != away:
                await until_content(cluster, partition, 2)
        await asyncio.sleep(1)
        await cluster.start(3)
        await until_content(cluster, away, 2)

    play(story, seed)


def test_a_marker_whose_answer_was_lost_is_sent_again() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        producer = Producer(client, id_led_by(cluster, 1))
        await producer.init()
        theirs = next(one for one in PARTITIONS if leader(cluster, one) is cluster.brokers[2])
        await producer.write(theirs, b"v")
        await producer.end()
        await until_content(cluster, theirs, 2)
        await producer.write(theirs, b"v")
        cluster.network.cut("broker-2", "broker-1")
        await producer.end()
        await until_content(cluster, theirs, 4)
        cluster.network.break_links("broker-1", "broker-2")
        cluster.network.mend("broker-2", "broker-1")
        await until_content(cluster, theirs, 5)
        await producer.write(theirs, b"next")
        assert content(cluster, theirs)[5] == b"next"

    play(story)


def test_a_marker_of_a_former_coordinator_is_refused_by_who_has_heard_of_a_later_one() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        producer = Producer(client, id_led_by(cluster, 1), verified=True)
        await producer.init()
        theirs = next(one for one in PARTITIONS if leader(cluster, one) is cluster.brokers[2])
        await producer.write(theirs, b"v")
        among = cluster.brokers[3].cluster_links
        assert among is not None
        replicating = among.replicating
        told: list[ErrorCode] = []
        for epoch in (9, 8, 9):
            marker = Sent(producer.producer_id, producer.epoch, True, epoch)
            replicating.others.transactions.write_markers(
                BrokerId(2), marker, [theirs],
                lambda _, error: told.append(ErrorCode.NONE if error is None else error.code),
            )  # fmt: skip
            await asyncio.sleep(1)
        assert told == [ErrorCode.NONE, ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.NONE]

    play(story)


def test_what_kept_partitions_out_of_a_transaction_is_told_to_who_asked_for_them() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        producer = Producer(client, id_led_by(cluster, 1))
        await producer.init()
        who = ProducerEpoch(producer.producer_id, producer.epoch)
        among = cluster.brokers[3].cluster_links
        assert among is not None
        replicating = among.replicating
        told: list[ErrorCode] = []

        async def ask(broker: int, *partitions: TopicPartition) -> ErrorCode:
            replicating.others.transactions.add(
                BrokerId(broker), Membership(producer.name, who, partitions),
                lambda error: told.append(ErrorCode.NONE if error is None else error.code),
            )  # fmt: skip
            await asyncio.sleep(1)
            return told.pop()

        unknown = TopicPartition("unknown", 0)
        assert await ask(1, PARTITIONS[0], unknown) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await ask(2, PARTITIONS[0]) is ErrorCode.NOT_COORDINATOR
        assert await ask(9, PARTITIONS[0]) is ErrorCode.NETWORK_EXCEPTION
        assert await ask(1, PARTITIONS[0]) is ErrorCode.NONE

    play(story)


def test_a_late_batch_begins_no_transaction_wherever_its_coordinator_is() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        for number in BROKERS:
            producer = Producer(client, id_led_by(cluster, number), verified=True)
            await producer.init()
            await producer.add(PARTITIONS[0])
            await producer.write_unasked(PARTITIONS[0], b"in")
            for partition in PARTITIONS[1:]:
                late = producer.write_unasked(partition, b"late")
                assert await refusal(late) is ErrorCode.TRANSACTION_ABORTABLE
            await producer.end()
        values = [value for one in PARTITIONS[1:] for value in content(cluster, one)]
        assert values == []

    play(story)


def test_a_late_batch_is_taken_where_the_verification_is_turned_off() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        producer = Producer(client, id_led_by(cluster, 1), verified=True)
        await producer.init()
        for partition in PARTITIONS:
            await producer.write_unasked(partition, b"late")

    play(story, settings={"transaction.partition.verification.enable": "false"})


def test_a_transaction_that_begins_while_markers_of_the_one_before_are_on_their_way_waits() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        producer = Producer(client, id_led_by(cluster, 1))
        await producer.init()
        theirs = next(one for one in PARTITIONS if leader(cluster, one) is cluster.brokers[2])
        others = next(one for one in PARTITIONS if leader(cluster, one) is cluster.brokers[3])
        await producer.write(theirs, b"0")
        cluster.network.slow("broker-1", "broker-2", 100)
        await producer.end()
        client.retry_seconds = 0.0  # whoever is refused is not asked again
        await producer.write(others, b"1")
        cluster.network.slow("broker-1", "broker-2", 1)
        client.retry_seconds = 30.0
        await producer.end()
        await until_content(cluster, others, 2)
        assert len(content(cluster, theirs)) == 2

    play(story)


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_of_a_group_elsewhere_count_if_the_transaction_commits(
    verified: bool, commit: bool
) -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        for at in BROKERS:
            group = group_led_by(cluster, at)
            producer = Producer(client, id_led_by(cluster, 1), verified=verified)
            await producer.init()
            await producer.commit_offsets(group, PARTITIONS[0], 7 + at)
            await producer.end(commit=commit)
            place = TopicPartition(OFFSETS_TOPIC, partition_for(group, 3))
            await until(partial(_has_marker, cluster, place))
            found = await committed(client, group)
            while commit and not found:  # the marker lies there, and is not committed yet
                await asyncio.sleep(0.01)
                found = await committed(client, group)
            assert [one.offset for one in found.values()] == ([7 + at] if commit else [])

    play(story)


def test_every_broker_names_the_same_coordinators_and_none_while_there_is_none() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        known = await client.metadata([])
        await cluster.controller().ensure_internal_topic(SHARE_STATE_TOPIC)
        names = [str(number) for number in range(9)]
        shared = [f"g:{encode_uuid(bytes(15) + bytes([number]))}:0" for number in range(9)]
        for kind, topic, keys in (
            (SHARE, SHARE_STATE_TOPIC, shared),
            (GROUP, OFFSETS_TOPIC, names),
            (TRANSACTION, TRANSACTIONS_TOPIC, names),
        ):
            call = coordinators(kind, keys)
            told = {
                number: await client.ask(await client.link_to(known.brokers[number]), call)
                for number in BROKERS
            }
            leaders = {
                key: leader(cluster, TopicPartition(topic, partition_for(key, 3))) for key in keys
            }
            expected = [(key, ErrorCode.NONE, leaders[key].broker.broker_id) for key in keys]
            assert told == dict.fromkeys(BROKERS, expected)
        await cluster.stop(3)
        await until(lambda: 3 not in cluster.brokers[1].broker.image.brokers)
        for key, error, node in await client.ask(await client.link_to(known.brokers[1]), call):
            was = {name: at for name, _, at in expected}[key]
            away = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
            assert (error, node) == (away if was == 3 else (ErrorCode.NONE, was))

    play(story)


def test_a_broker_that_is_not_the_coordinator_says_so() -> None:
    async def story(cluster: SimCluster, client: Client) -> None:
        known = await client.metadata([])
        producer = Producer(client, id_led_by(cluster, 1))
        client.retry_seconds = 0.0
        for number in (2, 3):
            client._coordinators[TRANSACTION, producer.name] = known.brokers[number]
            assert await refusal(producer.init()) is ErrorCode.NOT_COORDINATOR
            group = group_led_by(cluster, 1)
            client._coordinators[0, group] = known.brokers[number]
            commit = producer.commit_offsets(group, PARTITIONS[0], 1)
            assert await refusal(commit) is ErrorCode.NOT_COORDINATOR

    play(story)
