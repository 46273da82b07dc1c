"""The brokers in Metadata responses."""

from dataclasses import replace
from pathlib import Path

from headrace.broker.metadata_image import BrokerInfo, Endpoint, ImageDelta
from headrace.frontends.kafka.metadata import metadata
from headrace.model.nouns import BrokerId
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import metadata as metadata_wire
from tests.support.processes.broker import Room, play, room

TWO = BrokerInfo(BrokerId(2), (Endpoint("PLAINTEXT", "h", 1),), epoch=7)


def shown(here: Room) -> list[int]:
    shared = here.server.dispatcher.shared
    body = memoryview(metadata_wire.encode_request(12, metadata_wire.MetadataRequest([])))
    answer = metadata.handle(replace(here.context(ApiKey.METADATA, 12), shared=shared), body)
    assert isinstance(answer, bytes)
    return [
        broker.node_id for broker in metadata_wire.decode_response(12, memoryview(answer)).brokers
    ]


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
