"""What a broker shows of its replicas."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.metadata_image import NO_LEADER, ImageDelta
from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.http import replication_gauges
from headrace.model.nouns import LeaderEpoch, Offset
from tests.support.cluster.followed import TOPIC, A, Asking, B, lead, led, tell
from tests.support.processes.broker import Room, append


def shown(here: Room) -> dict[str, Any]:
    """Each gauge's number, by its name without prefix."""
    replication_gauges.register(here.broker)
    here.broker.metrics.look()
    return {
        name.removeprefix("headrace_"): gauge.read()
        for name, gauge in here.broker.metrics.gauges.items()
    }


def test_partitions_short_of_replicas_and_without_a_leader_are_counted(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("alone", 1, 1)])
        await led(here, A, B, partitions=3, min_insync_replicas="2")
        numbers = shown(here)
        assert numbers["partitions_under_replicated"] == 0
        assert numbers["partitions_under_min_isr"] == 0
        assert numbers["partitions_offline"] == 0
        lead(here, A, index=1, version=1)
        lead(here, index=2, version=1)
        topic = here.broker.image.topics[TOPIC]
        gone = replace(topic.partitions[0], leader=NO_LEADER)
        here.broker.publish(ImageDelta(partitions={TOPIC: [gone]}))
        numbers = shown(here)
        assert numbers["partitions_under_replicated"] == 2
        assert numbers["partitions_under_min_isr"] == 1
        assert numbers["partitions_offline"] == 1

    tell(tmp_path, story)


def test_the_replica_that_lags_most_is_shown_by_its_leader(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A, B, partitions=2)
        assert shown(here)["followers_lag_max_messages"] == 0
        for _ in range(5):
            append(partition, b"record")
        assert shown(here)["followers_lag_max_messages"] == 5
        for follower, offset in ((A, 5), (B, 2)):
            await Asking(here, follower).at(offset)
        assert shown(here)["followers_lag_max_messages"] == 3
        assert shown(here)["replica_lag_max_messages"] == 0

    tell(tmp_path, story)


def test_the_replica_here_that_lags_most_is_shown(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic(TOPIC, 3, 1)])
        for index, mark in enumerate((4, 9, 0)):
            partition = here.broker.partitions.pop((TOPIC, index))
            here.broker.followed[TOPIC, index] = partition
            partition.role.follow(A, LeaderEpoch(9))
            if partition.role.follower is not None and mark:
                partition.role.follower.append(memoryview(b""), Offset(mark), 0)
        assert shown(here)["replica_lag_max_messages"] == 9

    tell(tmp_path, story)


def test_what_is_counted_of_throttled_replicas_is_shown_by_side(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        here.broker.throttles.leader.count(1000)
        numbers = shown(here)["replication_throttled_bytes_per_second"]
        assert numbers == {"leader": pytest.approx(1000, rel=0.5), "follower": 0}

    tell(tmp_path, story)


class Kept:
    """A keeper's counts."""

    shrinks, expands = 3, 4


def test_changes_of_isrs_are_counted(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        kept: Any = Kept()
        replication_gauges.register_keeper(here.broker, kept)
        numbers = shown(here)
        assert (numbers["isr_shrinks_total"], numbers["isr_expands_total"]) == (3, 4)

    tell(tmp_path, story)


def test_a_brokers_part_in_the_cluster_is_shown(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        port: Any = SimpleNamespace(is_controller=True)
        replicating: Any = SimpleNamespace(
            fetchers=SimpleNamespace(followed=5, failing=1),
            store=SimpleNamespace(session_seconds=18.0),
            store_unheard_seconds=lambda: 0.5,
        )
        replication_gauges.register_cluster(here.broker, port, replicating)
        await led(here, A, B, min_insync_replicas="2")
        lead(here, A, index=0, version=1)
        numbers = shown(here)
        assert numbers["controller_active"] == 1
        assert (numbers["partitions_followed"], numbers["fetchers_failing"]) == (5, 1)
        assert numbers["store_unheard_seconds"] == 0.5
        assert numbers["store_session_seconds"] == 18
        assert numbers["partitions_at_min_isr"] == 1

    tell(tmp_path, story)
