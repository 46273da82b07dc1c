"""The brokers in Metadata responses."""

from dataclasses import replace
from pathlib import Path

from headrace.broker.metadata_image import (
    NO_LEADER,
    BrokerInfo,
    Endpoint,
    ImageDelta,
    PartitionInfo,
    TopicInfo,
)
from headrace.frontends.kafka.metadata import describe_topic_partitions, metadata
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import metadata as metadata_wire
from tests.support.admin import ask, nested, tell
from tests.support.net.served import served
from tests.support.processes.broker import Room, play, room

DESCRIBE = served(describe_topic_partitions)
TWO = BrokerInfo(BrokerId(2), (Endpoint("PLAINTEXT", "h", 1),), epoch=7)


def answered(here: Room, *topics: str) -> metadata_wire.MetadataResponse:
    shared = here.server.dispatcher.shared
    asked = [metadata_wire.TopicRequest(topic) for topic in topics]
    body = memoryview(metadata_wire.encode_request(12, metadata_wire.MetadataRequest(asked)))
    answer = metadata.handle(replace(here.context(ApiKey.METADATA, 12), shared=shared), body)
    assert isinstance(answer, bytes)
    return metadata_wire.decode_response(12, memoryview(answer))


def shown(here: Room) -> list[int]:
    return [broker.node_id for broker in answered(here).brokers]


def test_suspected_broker_is_not_shown_until_it_is_believed_or_registered_again(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            judge(here)

    def judge(here: Room) -> None:
        image = here.broker.image
        (own,) = image.brokers
        image.apply(ImageDelta(brokers=[*image.brokers.values(), TWO]))
        assert shown(here) == [own, 2]
        assert image.suspect(TWO.broker_id, TWO.epoch)
        assert not image.suspect(TWO.broker_id, TWO.epoch)
        assert shown(here) == [own]
        image.believe(TWO.broker_id, TWO.epoch + 1)
        assert shown(here) == [own]
        again = TWO._replace(epoch=8)
        image.apply(ImageDelta(brokers=[image.brokers[own], again]))
        assert shown(here) == [own, 2]
        image.suspect(TWO.broker_id, again.epoch)
        image.believe(TWO.broker_id, again.epoch)
        assert shown(here) == [own, 2]

    play(story())


def test_leader_that_is_not_among_the_brokers_is_not_shown(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        image = here.broker.image
        (own,) = image.brokers
        held = (own, TWO.broker_id)
        led = tuple(
            PartitionInfo(index, leader, LeaderEpoch(3), held, held)
            for index, leader in enumerate(held)
        )
        image.apply(
            ImageDelta([TopicInfo("t", b"t" * 16, led)], brokers=[*image.brokers.values(), TWO])
        )
        here_leads = (ErrorCode.NONE, own)
        assert await leaders(here) == [here_leads, (ErrorCode.NONE, TWO.broker_id)]
        image.suspect(TWO.broker_id, TWO.epoch)
        assert await leaders(here) == [here_leads, (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER)]
        image.believe(TWO.broker_id, TWO.epoch)
        assert await leaders(here) == [here_leads, (ErrorCode.NONE, TWO.broker_id)]
        image.apply(ImageDelta(brokers=[image.brokers[own]]))
        assert await leaders(here) == [here_leads, (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER)]

    tell(tmp_path, story)


async def leaders(here: Room) -> list[tuple[ErrorCode, int]]:
    """Return the error and leader of each partition of topic t, as both requests show them."""
    (topic,) = answered(here, "t").topics
    found = [(ErrorCode(each.error_code), each.leader_id) for each in topic.partitions]
    asked = nested(DESCRIBE, 0, "TopicRequest", name="t")
    paged = await ask(here, DESCRIBE, 0, topics=(asked,), response_partition_limit=9, cursor=None)
    assert found == [
        (ErrorCode(each.error_code), each.leader_id) for each in paged.topics[0].partitions
    ]
    return found
