"""A stream's consumers are served by the replica of their own broker."""

from typing import Any

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch
from headrace.queues.port import Consumer
from headrace.queues.refusals import Refused
from tests.support.queues.replica_place import FIRST, LAST, LEADER, NEXT, ReplicaPlace


def filled(*bodies: str, in_sync: bool = True) -> ReplicaPlace:
    """A stream with messages that are replicated."""
    here = ReplicaPlace(in_sync=in_sync)
    here.published(*bodies)
    here.replicate()
    return here


# Beginning


def test_consumer_is_served_by_the_replica() -> None:
    here = filled("a", "b")
    here.read(FIRST)
    assert here.sent() == ["1:c:a", "2:c:b"]
    assert here.told_from() == (0, 2)


def test_consumer_is_delivered_what_the_replica_knows_as_committed() -> None:
    here = filled("a")
    here.read(FIRST)
    here.published("b")
    assert here.sent() == ["1:c:a"]
    here.replicate()
    assert here.sent() == ["2:c:b"]


def test_leader_is_left_by_a_consumer_that_is_served_here() -> None:
    here = filled("a")
    here.read(FIRST)
    here.settle()
    assert len(here.life.queue().consumers) == 0
    assert here.counts().consumers == 1


@pytest.mark.parametrize(
    ("start", "expected"), [(FIRST, ["a", "b", "c"]), (LAST, ["c"]), (1, ["b", "c"]), (NEXT, [])]
)
def test_offsets_are_those_of_the_leader(start: Any, expected: list[str]) -> None:
    here = filled("a")
    for body in "bc":  # a batch each
        here.published(body)
    here.read(start)
    assert here.sent() == (["1:c:a"] if start is FIRST else [])  # the replica lags
    here.replicate()
    here.published("d")
    here.replicate()
    assert [each.split(":")[2] for each in here.sent()] == [*expected, "d"][start is FIRST :]


def test_consumer_is_served_by_the_leader_without_a_replica_in_sync() -> None:
    here = filled("a", in_sync=False)
    here.read(FIRST)
    assert here.sent() == ["1:c:a"]
    assert here.told_from() == (1, 0)


def test_consumer_of_the_leader_moves_to_a_replica_that_is_in_sync() -> None:
    here = filled("a", in_sync=False)
    here.read(FIRST)
    assert here.sent() == ["1:c:a"]
    here.in_sync = True
    here.published("b")
    here.replicate()
    here.remote.consumers.serve_here()
    assert here.sent() == ["2:c:b"]
    here.published("c")
    here.replicate()
    here.channel.ack(0, multiple=True)
    assert here.sent() == ["3:c:c"]
    assert here.life.queue().unacked == 0
    assert here.channel.unacked == 1


def test_consumer_without_prefetch_is_refused_at_once() -> None:
    here = filled("a")
    with pytest.raises(Refused, match="consumer prefetch count is not set"):
        here.read(FIRST, prefetch=0)
    assert here.network.counts["Consume"] == 0


# Credit, acknowledgements, filters


def test_prefetch_is_kept_and_acknowledgements_give_credit() -> None:
    here = filled("a", "b", "c")
    here.read(FIRST, prefetch=1)
    assert here.sent() == ["1:c:a"]
    here.channel.ack(1)
    assert here.sent() == ["2:c:b"]
    here.channel.nack(2, requeue=True)
    here.wake(here.channel)
    assert here.sent() == ["3:c:c"]
    assert (here.counts().unacked, here.here.traffic.acknowledged) == (1, 1)


def test_channel_that_reads_nothing_is_delivered_nothing() -> None:
    here = filled("a")
    here.channel.pause()
    here.read(FIRST)
    assert here.sent() == []
    here.channel.resume()
    assert here.sent() == ["1:c:a"]


def test_cancelled_consumer_releases_the_replica() -> None:
    here = filled("a")
    consumer = here.read(FIRST)
    assert here.sent() == ["1:c:a"]
    here.cancel(consumer)
    assert (here.here.log, here.partition._watchers) == (None, {})
    here.channel.ack(1)
    here.published("b")
    here.replicate()
    assert here.sent() == []


# Changes of leaders


def test_reads_go_on_while_no_broker_leads() -> None:
    here = filled("a")
    here.read(FIRST, prefetch=1)
    here.published("b")
    here.replicate()
    assert here.sent() == ["1:c:a"]
    here.move()
    here.channel.ack(1)
    assert here.sent() == ["2:c:b"]
    here.read(FIRST, "d", here.new_channel(2))
    assert here.sent() == ["1:d:a", "2:d:b"]
    assert here.cancelled == []


def test_consumer_goes_on_with_the_next_leader() -> None:
    here = filled("a")
    here.read(FIRST)
    assert here.sent() == ["1:c:a"]
    here.moved()
    here.published("b")
    here.replicate()
    assert here.sent() == ["2:c:b"]
    assert here.network.counts["Consume"] == 1


def test_consumer_goes_on_when_its_broker_begins_and_ends_to_lead() -> None:
    here = filled("a")
    here.read(FIRST)
    assert here.sent() == ["1:c:a"]
    here.move()
    here.partition.role.lead(LeaderEpoch(7))
    batch = here.leader_log.read(0, 1 << 20, below=here.leader_log.end_offset).data
    here.partition.append_internal(batch)
    here.disk.settle()
    assert here.sent() == ["2:c:a"]
    here.partition.role.follow(LEADER, LeaderEpoch(8))
    here.channel.ack(0, multiple=True)
    assert here.sent() == []
    assert here.cancelled == []


def test_next_consumer_skips_nothing_at_a_change_of_the_leader() -> None:
    here = filled("a", in_sync=False)
    here.read(NEXT)
    here.settle()
    here.move()
    here.life.publish("b", lambda _: None)  # the next leader's, before the home has attached
    here.life.settle()
    here.begin()
    assert here.sent() == ["1:c:b"]


def test_next_consumer_goes_on_here_where_the_leader_has_begun_it() -> None:
    here = filled("a", in_sync=False)
    here.read(NEXT)
    here.settle()
    here.published("b")
    here.replicate()
    here.in_sync = True
    here.move()
    assert here.sent() == ["1:c:b"]


def test_consumer_that_waits_for_its_leader_is_served_when_it_dies() -> None:
    here = filled("a")
    told: list[Any] = []
    consumer = here.read(FIRST)
    here.cancel(consumer)
    here.sent()
    again = Consumer(here.remote, here.channel, "d", prefetch=9, wishes=consumer.wishes)
    here.remote.consume(again, here.now, told.append)
    assert told == []
    here.move()
    assert told == [None]
    assert here.sent() == ["2:d:a"]


# The replica ends


def test_replica_out_of_sync_serves_the_consumers_that_it_has() -> None:
    here = filled("a")
    here.read(FIRST, "old")
    here.settle()
    here.in_sync = False
    here.read(FIRST, "new", here.new_channel(2))
    here.published("b")
    assert sorted(here.sent()) == ["1:new:a", "1:old:a", "2:new:b"]
    here.replicate()
    assert here.sent() == ["2:old:b"]


def test_leader_serves_consumers_of_a_replica_that_is_removed() -> None:
    here = filled("a", "b")
    here.read(FIRST, prefetch=1)
    assert here.sent() == ["1:c:a"]
    here.partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    here.channel.ack(1)
    assert here.sent() == ["2:c:b"]
    here.channel.ack(2)
    here.published("c")
    assert here.sent() == ["3:c:c"]
    assert here.channel.unacked == 1
    assert here.told_from() == (2, 1)


def test_leader_serves_consumers_of_a_replica_that_cannot_be_read() -> None:
    here = filled("a", "b")
    here.read(FIRST, prefetch=1)
    assert here.sent() == ["1:c:a"]
    log = here.here.log
    assert log is not None
    log._fail(ApiError(ErrorCode.KAFKA_STORAGE_ERROR))
    here.channel.ack(1)
    assert here.sent() == ["2:c:b"]
    assert not here.here.is_available
    assert here.told_from() == (1, 1)


def test_removed_replica_leaves_its_consumers_waiting_for_a_leader() -> None:
    here = filled("a")
    here.read(FIRST)
    assert here.sent() == ["1:c:a"]
    here.move()
    here.partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    here.settle()
    here.begin()
    here.published("b")
    assert here.sent() == ["2:c:b"]


def test_consumer_goes_on_at_the_start_that_retention_has_left() -> None:
    here = ReplicaPlace()
    for number in range(8):
        here.published(str(number))
    here.replicate()
    here.read(FIRST, prefetch=1)
    assert here.sent() == ["1:c:0"]
    here.leader_log.delete_records(5)
    here.replicate()
    here.channel.ack(1)
    assert here.sent() == ["2:c:5"]


def test_deleted_stream_cancels_its_consumers() -> None:
    here = filled("a")
    here.read(FIRST)
    assert here.sent() == ["1:c:a"]
    here.remote.close()
    assert here.cancelled == ["c"]
    assert here.here.log is None


def test_dismissed_consumers_are_cancelled() -> None:
    here = filled("a")
    here.read(FIRST)
    here.settle()
    here.remote.consumers.dismiss()
    assert here.cancelled == ["c"]
