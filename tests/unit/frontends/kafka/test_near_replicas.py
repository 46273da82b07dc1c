"""Consumers that say where they stand are sent to replicas there, and followers serve them."""

from pathlib import Path
from typing import Any

import pytest

from headrace.broker.metadata_image import BrokerInfo, Endpoint, ImageDelta
from headrace.broker.partition import Partition
from headrace.model.errors import ErrorCode
from headrace.model.nouns import LeaderEpoch, Offset
from tests.support.cluster.followed import (
    EPOCH,
    REGISTERED,
    TOPIC,
    A,
    Asking,
    B,
    code,
    is_flushed,
    lead,
    led,
    records_in,
    tell,
    turns,
)
from tests.support.processes.broker import Room, append, until

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
WEST: dict[str, Any] = {"broker_rack": "west", "replica_selector_class": RACK_AWARE}


def consumer(here: Room, rack: str = "east", *, session: bool = True) -> Asking:
    asking = Asking(here, -1, session=session)
    asking.registration, asking.rack = -1, rack
    return asking


def stand(here: Room, *, b_rack: str = "east", listener: str = "PLAINTEXT", away: int = -1) -> None:
    """A and B are in racks, reached by a listener, unless one of them is away."""
    own = here.broker.image.brokers[here.broker.broker_id]
    endpoints = (Endpoint(listener, "far", 9092),)
    others = [
        BrokerInfo(A, endpoints, "east", REGISTERED), BrokerInfo(B, endpoints, b_rack, REGISTERED),
    ]  # fmt: skip
    alive = [own, *(info for info in others if info.broker_id != away)]
    here.broker.publish(ImageDelta(brokers=alive))


async def read_by(here: Room, *followers: tuple[int, int]) -> Partition:
    """A partition of three records, of which followers have so many."""
    partition = await led(here, A, B)
    stand(here)
    for _ in range(3):
        append(partition)
    await until(is_flushed(partition))
    for follower, end in followers:
        asking = Asking(here, follower)
        await asking.told(asking.ask({0: (end, EPOCH if end else -1)}, wait_ms=0))
    return partition


def test_a_consumer_is_sent_to_the_furthest_follower_in_sync_in_its_rack(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await read_by(here, (A, 2), (B, 3))
        asking = consumer(here)
        sent = await asking.told(asking.ask({0: (2, -1)}))
        assert (sent[0].preferred_read_replica, sent[0].records) == (B, b"")
        assert (sent[0].error_code, sent[0].high_watermark) == (0, 2)
        again = await asking.told(asking.ask({}))
        assert again[0].preferred_read_replica == B, "until he reads there"

    tell(tmp_path, story, **WEST)


@pytest.mark.parametrize(
    ("rack", "offset", "stands"),
    [
        ("west", 0, {"b_rack": "west"}),  # where the leader stands
        ("north", 0, {}),
        ("", 0, {}),
        ("east", 1, {"b_rack": "south"}),  # A does not hold it
        ("east", 1, {"away": B}),
        ("east", 1, {"listener": "OTHER"}),
    ],
)
def test_where_no_follower_fits_the_leader_answers(
    tmp_path: Path, rack: str, offset: int, stands: dict[str, Any]
) -> None:
    async def story(here: Room) -> None:
        partition = await read_by(here, (A, 0), (B, 3))
        partition.role.advance(Offset(3))
        stand(here, **stands)
        asking = consumer(here, rack)
        given = await asking.told(asking.ask({0: (offset, -1)}))
        assert given[0].preferred_read_replica == -1
        assert records_in(given[0])

    tell(tmp_path, story, **WEST)


def test_followers_out_of_sync_are_not_read_from(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await read_by(here, (A, 3), (B, 3))
        lead(here, A, version=1)
        partition.role.advance(Offset(3))
        stand(here, b_rack="far east")
        asking = consumer(here, "far east")
        assert (await asking.told(asking.ask({0: (0, -1)})))[0].preferred_read_replica == -1

    tell(tmp_path, story, **WEST)


def test_without_a_selector_the_leader_answers(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await read_by(here, (A, 3), (B, 3))
        asking = consumer(here)
        given = await asking.told(asking.ask({0: (0, -1)}))
        assert given[0].preferred_read_replica == -1

    tell(tmp_path, story, broker_rack="west")


# --- at the follower ------------------------------------------------------------------------------


async def followed(here: Room) -> Partition:
    """A partition that was led here, with two records, and is followed now; one is committed."""
    partition = await led(here, A)
    for _ in range(2):
        append(partition, b"two")
    await until(is_flushed(partition))
    asking = Asking(here)
    await asking.told(asking.ask({0: (1, EPOCH)}, wait_ms=0))
    partition.role.follow(A, LeaderEpoch(EPOCH + 1))
    key = (TOPIC, 0)
    here.broker.followed[key] = here.broker.partitions.pop(key)
    return partition


def test_a_follower_serves_consumers_up_to_its_own_high_watermark(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await followed(here)
        asking = consumer(here)
        asking.leader_epoch = EPOCH + 1
        given = (await asking.told(asking.ask({0: (0, -1)})))[0]
        assert (given.error_code, given.high_watermark) == (0, 1)
        assert records_in(given).count(b"two") == 1
        waiting = asking.ask({0: (1, -1)})
        await turns()
        assert not waiting.done
        partition.role.advance(Offset(2))
        assert records_in((await asking.told(waiting))[0]).count(b"two") == 1

    tell(tmp_path, story)


def test_a_follower_is_no_leader_to_old_clients_and_to_other_followers(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await followed(here)
        old = consumer(here, session=False)
        old.version, old.leader_epoch = 10, -1
        assert code((await old.told(old.ask({0: (0, -1)})))[0]) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        other = Asking(here, B)
        other.leader_epoch = EPOCH + 1
        assert code(await other.at(0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    tell(tmp_path, story)


def test_a_consumer_that_waits_at_a_follower_hears_when_it_is_none(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await followed(here)
        asking = consumer(here)
        asking.leader_epoch = EPOCH + 1
        await asking.told(asking.ask({0: (1, -1)}, wait_ms=0))
        waiting = asking.ask({})
        await turns()
        assert not waiting.done
        partition.role.resign()
        assert code((await asking.told(waiting))[0]) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    tell(tmp_path, story)
