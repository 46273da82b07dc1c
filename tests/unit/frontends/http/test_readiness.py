"""Whether a broker is ready for the next one's restart, and what is awaited else."""

import asyncio
from dataclasses import replace
from pathlib import Path

from headrace.broker.metadata_image import NO_LEADER, ImageDelta
from headrace.frontends.http.readiness import NAMED_MAX, awaited
from headrace.model.errors import StorageError
from tests.support.cluster.followed import TOPIC, A, B, led, tell
from tests.support.net.http_endpoint import exchange
from tests.support.processes.broker import Room


def test_a_broker_waits_for_all_replicas_of_what_it_holds(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        broker = here.broker
        await led(here, A, B, partitions=NAMED_MAX + 2, min_insync_replicas="1")
        own = broker.broker_id
        image = broker.image
        whole = [
            replace(partition, replicas=(own, A, B), isr=(own, A, B), leader=own)
            for partition in image.topics[TOPIC].partitions
        ]
        present = image.brokers
        broker.publish(ImageDelta(partitions={TOPIC: whole}, controller_id=own))
        assert own in image.brokers
        assert awaited(broker) == []
        # What is held elsewhere alone is for others to wait for.
        elsewhere = replace(whole[0], replicas=(A, B), isr=(A,), leader=A)
        broker.publish(ImageDelta(partitions={TOPIC: [elsewhere]}))
        assert awaited(broker) == []
        followed = replace(whole[0], isr=(A, own), leader=A)
        broker.publish(ImageDelta(partitions={TOPIC: [followed]}))
        assert awaited(broker) == [f"partitions under-replicated: {TOPIC}-0"]
        gone = [replace(partition, leader=NO_LEADER) for partition in whole]
        broker.publish(ImageDelta(partitions={TOPIC: gone}, controller_id=NO_LEADER))
        names = ", ".join(f"{TOPIC}-{index}" for index in range(NAMED_MAX))
        assert awaited(broker) == [
            "the cluster has no controller",
            f"partitions without a leader: {names} and 2 more",
        ]
        others = [info for number, info in present.items() if number != own]
        broker.publish(ImageDelta(partitions={TOPIC: whole}, brokers=others, controller_id=A))
        assert awaited(broker) == ["this broker is not registered"]
        broker.publish(ImageDelta(brokers=list(present.values())))
        broker.directories[0].context.failure = StorageError("broken")
        assert "1 log directories of this broker have failed" in awaited(broker)

    tell(tmp_path, story)


def test_what_is_awaited_is_told_by_http() -> None:
    answer = asyncio.run(exchange(b"GET /ready HTTP/1.0\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"\r\n\r\nready\n")
    waits = asyncio.run(exchange(b"GET /ready HTTP/1.0\r\n\r\n", awaited=["one", "two"]))
    assert waits.startswith(b"HTTP/1.1 503 Service Unavailable")
    assert waits.endswith(b"\r\n\r\nawaited: one\nawaited: two\n")
