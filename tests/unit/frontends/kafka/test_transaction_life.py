"""Transactions through a kill in every phase, and as an administrator sees and ends them."""

from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from headrace.testing.disk import SimDisk
from tests.support.coordination.transactional_producer import (
    GROUP,
    ID,
    MINUTE,
    TOPIC,
    K,
    Producer,
    name_of,
    tell,
)
from tests.support.processes.broker import play, room


def test_transactions_are_described_and_listed(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await one.add(0, 2)
        answer = await one.client.ask(
            K.DESCRIBE_TRANSACTIONS, 0, transactional_ids=(ID, "nobody", "")
        )
        found, unknown, empty = answer.transaction_states
        assert name_of(unknown.error_code) == "TRANSACTIONAL_ID_NOT_FOUND"
        assert name_of(empty.error_code) == "INVALID_REQUEST"
        assert (found.transaction_state, found.producer_id) == ("Ongoing", one.producer_id)
        assert found.transaction_timeout == MINUTE
        assert [(two.topic, two.partitions) for two in found.topics] == [(TOPIC, (0, 2))]
        for version in (0, 1, 2):
            listed = await one.client.ask(
                K.LIST_TRANSACTIONS,
                version,
                state_filters=("Ongoing", "Odd"),
                producer_id_filters=(),
            )
            assert [two.transactional_id for two in listed.transaction_states] == [ID]
            assert listed.unknown_state_filters == ("Odd",)
        for pattern, found_ids in (("t.", [ID]), ("t", []), ("", [ID])):
            listed = await one.client.ask(K.LIST_TRANSACTIONS, 2, transactional_id_pattern=pattern)
            assert [two.transactional_id for two in listed.transaction_states] == found_ids
        listed = await one.client.ask(K.LIST_TRANSACTIONS, 2, transactional_id_pattern="(")
        assert name_of(listed.error_code) == "INVALID_REGULAR_EXPRESSION"

    tell(tmp_path, story)


async def producers(one: Producer, partition: int) -> list[Any]:
    topic = one.client.part(
        K.DESCRIBE_PRODUCERS, 0, "TopicRequest", name=TOPIC, partition_indexes=(partition, 9)
    )
    answer = await one.client.ask(K.DESCRIBE_PRODUCERS, 0, topics=(topic,))
    found, missing = answer.topics[0].partitions
    assert name_of(missing.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    return list(found.active_producers)


@pytest.mark.parametrize("version", [1, 2])
def test_a_hanging_transaction_is_found_and_ended(tmp_path: Path, version: int) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await one.add(0)
        await one.write(b"hangs")
        led = one.here.coordinators.transactions.led
        led.of(ID).transactions.clear()  # what a coordinator that lost its log would know
        (found,) = await producers(one, 0)
        assert (found.producer_id, found.current_txn_start_offset) == (one.producer_id, 0)
        key = K.WRITE_TXN_MARKERS
        topic = one.client.part(
            key, version, "WritableTxnMarkerTopic", name=TOPIC, partition_indexes=(0, 9)
        )
        marker = one.client.part(
            key,
            version,
            "WritableTxnMarker",
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            transaction_result=False,
            topics=(topic,),
            coordinator_epoch=max(found.coordinator_epoch, 0),
            transaction_version=0,
        )
        answer = await one.client.ask(key, version, markers=(marker,))
        results = answer.markers[0].topics[0].partitions
        assert [name_of(two.error_code) for two in results] == [
            "NONE",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ]
        (found,) = await producers(one, 0)
        assert found.current_txn_start_offset == -1
        assert await one.stable_end() == 2
        assert await one.read() == []

    tell(tmp_path, story)


def test_transaction_version_2_is_on(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        answer = await one.client.ask(
            K.API_VERSIONS, 4, client_software_name="test", client_software_version="1"
        )
        levels = {found.name: found.max_version_level for found in answer.finalized_features}
        assert levels["transaction.version"] == 2

    tell(tmp_path, story)


PHASES: tuple[str, ...] = ("begun", "added", "written", "offsets", "decided", "ended")


async def live(one: Producer, until: str, version: int) -> None:
    """A transaction of two partitions and an offset, up to that phase."""
    assert await one.init() == "NONE"
    if until == "begun":
        return
    if version < 12:
        assert await one.add(0, 1) == ["NONE", "NONE"]
        assert await one.add_offsets() == "NONE"
    if until == "added":
        return
    for partition in (0, 1):
        assert await one.write(b"v", partition, version) == "NONE"
    if until == "written":
        return
    assert await one.commit_offset(5, 5 if version >= 12 else 3) == "NONE"
    if until == "offsets":
        return
    broker = one.here.broker
    if until == "decided":
        # The decision is written, and then nothing more: the partitions take no marker.
        for (topic, _), found in broker.partitions.items():
            if topic in (TOPIC, OFFSETS_TOPIC):
                found.close(ErrorCode.KAFKA_STORAGE_ERROR)
    assert await one.end(version=5 if version >= 12 else 3) == "NONE"


@pytest.mark.parametrize("version", [9, 12])
@pytest.mark.parametrize("phase", PHASES)
def test_a_kill_in_every_phase_leaves_a_transaction_whole(
    tmp_path: Path, phase: str, version: int
) -> None:
    disk = SimDisk()
    decided = phase in ("decided", "ended")

    async def before() -> None:
        async with room(tmp_path, disk, kill=True) as here:
            await here.controller.create_topics([NewTopic(TOPIC, 3)])
            await here.controller.ensure_internal_topic(TRANSACTIONS_TOPIC)
            await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
            await live(Producer(here), phase, version)

    async def after() -> None:
        async with room(tmp_path, disk) as here:
            one = Producer(here)
            assert await one.init() == "NONE"  # whatever was open is aborted by now
            there = [b"v"] if decided else []
            assert (await one.read(), await one.read(1)) == (there, there)
            found = here.coordinators.groups.offset(GROUP, TOPIC, 0)
            assert (found is not None) is decided
            assert not here.coordinators.groups.shard(GROUP).offsets.is_unstable((GROUP, TOPIC, 0))
            for partition in (0, 1):
                log = here.broker.partition(TOPIC, partition).log
                assert log.first_unstable_offset() is None
            assert await one.add(0) == ["NONE"]
            assert await one.write(b"next") == "NONE"
            assert await one.end() == "NONE"
            await one.add(0)
            assert await one.read() == [*there, b"next"]

    play(before())
    play(after())
