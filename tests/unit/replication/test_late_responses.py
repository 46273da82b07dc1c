"""Fetch responses that arrive after the state of their partition has changed."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.model.nouns import BrokerId, LeaderEpoch, Offset, TopicPartition
from headrace.replication.followed_partition import FollowedPartition
from headrace.replication.source import Source
from headrace.wire.kafka.hot.fetch_response import FetchedPartition, FetchedTopic, FetchResponse
from tests.support.coordination.groups_kit import HandClock

LEADER = BrokerId(3)
TOPIC = b"i" * 16
END, EPOCH = Offset(5), LeaderEpoch(2)


def a_partition(index: int) -> Any:
    """A partition in epoch 2 whose flushed log ends at offset 5."""
    log = SimpleNamespace(
        end_offset=END, flushed_offset=END, start_offset=Offset(0), cutting=False,
        epochs=SimpleNamespace(latest=EPOCH), listen=lambda _: None, unlisten=lambda _: None,
    )  # fmt: skip
    return SimpleNamespace(
        topic_id=TOPIC, topic_partition=TopicPartition("t", index), leader_epoch=EPOCH, log=log,
        role=SimpleNamespace(flushes_on_ack=True),
    )  # fmt: skip


class Fetching:
    """A fetcher of broker 3 whose first request, for two partitions, is in flight."""

    def __init__(self) -> None:
        throttle = SimpleNamespace(
            throttles=lambda *_: False, watch=lambda _: None, unwatch=lambda _: None
        )
        config = SimpleNamespace(
            replica_socket_timeout_ms=30_000, replica_fetch_backoff_ms=1000,
            replica_fetch_max_bytes=1000, replica_fetch_response_max_bytes=9000,
            replica_fetch_min_bytes=1, replica_fetch_wait_max_ms=500,
        )  # fmt: skip
        broker: Any = SimpleNamespace(
            broker_id=BrokerId(1), clock=HandClock(), config=config, directories=[],
            throttles=SimpleNamespace(follower=throttle),
        )  # fmt: skip
        dependencies: Any = SimpleNamespace(
            clients=SimpleNamespace(make=lambda *_, **__: None), broker_epoch=lambda: 7
        )
        self.source = Source(broker, dependencies, LEADER, lambda _: None, lambda *_: None)
        self.partitions = [a_partition(0), a_partition(1)]
        for partition in self.partitions:
            self.follow(partition)
        assert self.asked() == ([0, 1], [])
        self.source._session.answered(0, 9)

    @property
    def first(self) -> Any:
        return self.partitions[0]

    def follow(self, partition: Any) -> None:
        follower: Any = SimpleNamespace(ended=False, leader=LEADER, leader_high_watermark=0)
        self.source.add(FollowedPartition(partition, follower, self.source.changed))

    def follow_again(self, epoch: int = EPOCH + 1) -> None:
        """Have the first partition follow the same leader in another epoch."""
        self.source.remove(self.first)
        self.first.leader_epoch = LeaderEpoch(epoch)
        self.follow(self.first)

    def arrived(self) -> list[int]:
        """Return the partitions whose responses to the first request are accepted."""
        fetched = [FetchedPartition(index, records=b"x") for index in (0, 1)]
        response = FetchResponse(session_id=9, topics=[FetchedTopic("", TOPIC, fetched)])
        return [each.fetched.partition for each in self.source._arrived(response)]

    def asked(self) -> tuple[list[int], list[int]]:
        """Return the partitions that the next request adds to the session and removes from it."""
        self.request = self.source._request()
        return (
            [each.partition for topic in self.request.topics for each in topic.partitions],
            [index for topic in self.request.forgotten for index in topic.partitions],
        )


def truncated(here: Fetching) -> None:
    here.first.log.end_offset = here.first.log.flushed_offset = Offset(END - 1)


def being_truncated(here: Fetching) -> None:
    here.first.log.cutting = True


CHANGES: list[Callable[[Fetching], None]] = [Fetching.follow_again, truncated, being_truncated]


def test_responses_of_unchanged_partitions_are_accepted() -> None:
    here = Fetching()
    assert here.arrived() == [0, 1]
    assert here.asked() == ([], [])


@pytest.mark.parametrize("change", CHANGES)
def test_response_of_a_changed_partition_is_dropped_and_others_are_accepted(
    change: Callable[[Fetching], None],
) -> None:
    here = Fetching()
    change(here)
    assert here.arrived() == [1]


def test_dropped_response_of_a_former_epoch_is_requested_in_the_new_epoch() -> None:
    """Only a partition that is new to the session gets its high watermark again."""
    here = Fetching()
    here.follow_again()
    assert here.arrived() == [1]
    assert here.asked() == ([], [0])
    here.source._session.answered(0, 9)
    assert here.asked() == ([0], [])
    (topic,) = here.request.topics
    asked = topic.partitions[0]
    assert (asked.current_leader_epoch, asked.fetch_offset) == (EPOCH + 1, END)


def test_response_of_a_partition_that_follows_no_longer_is_dropped() -> None:
    here = Fetching()
    here.source.remove(here.first)
    assert here.arrived() == [1]
    assert here.asked() == ([], [0])
    assert here.arrived() == [1], "its response may come twice"
