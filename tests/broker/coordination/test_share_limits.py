"""Share groups within bounds: the quota of what is fetched, and how often partitions move."""

import contextlib
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.broker.quotas import Entity
from headrace.coordination.groups.modern import target_assignment
from headrace.coordination.groups.share.group import ShareGroup
from headrace.model.errors import ErrorCode
from headrace.server.assembly import Server
from headrace.testing import BrokerThread
from headrace.wire.kafka.api import ApiKey
from tests.support.coordination.share import ACCEPT, ShareMember, SharePlace, ack_error

EVERYBODY = Entity(client="")
SECONDS_MAX = 20.0


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    settings = {"share.coordinator.state.topic.num.partitions": "1"}
    with BrokerThread(settings, memory=True) as one:
        yield one


def bound(broker: BrokerThread, **limits: float) -> None:
    broker.call(lambda server: server.broker.quotas.put(EVERYBODY, limits))


def write(place: SharePlace, *sizes: int) -> None:
    """One batch for each size."""
    producer = Producer({"bootstrap.servers": place.bootstrap})
    for size in sizes:
        producer.produce(place.topic, bytes(size), partition=0)
        assert producer.flush(SECONDS_MAX) == 0


def test_over_the_quota_nothing_is_handed_out_and_the_wait_is_told(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    write(place, 8_900, 2_300)  # so much that a slow machine is over the quota, too
    stats = broker.call(lambda server: server.metrics.api(ApiKey.SHARE_FETCH))
    sent, asked = stats.bytes_out, stats.requests
    with place.member() as one:
        bound(broker, consumer_byte_rate=1000.0)
        try:
            first = one.fetch(records_max=1)
            assert first.offsets() == [0]
            assert first.response.throttle_ms == 0
            began = time.monotonic()
            over = one.fetch((0, 0, ACCEPT), records_max=1)
            assert 0 < over.response.throttle_ms <= 1500
            assert over.offsets() == []
            assert over.ack_errors == [0], "what was settled is told all the same"
            bound(broker)
            assert one.fetch().counts() == {1: 1}, "it was not locked meanwhile"
            assert time.monotonic() - began >= over.response.throttle_ms / 1000 * 0.9
        finally:
            bound(broker)
    assert stats.requests - asked == 3
    assert stats.bytes_out - sent > 11_200


def test_what_was_not_sent_is_not_counted(broker: BrokerThread) -> None:
    """The reader looks at more than one member is given."""
    place = SharePlace(broker.bootstrap)
    write(place, *[900] * 10)
    with place.member() as one:
        bound(broker, consumer_byte_rate=1000.0)
        try:
            for offset in range(10):
                given = one.fetch(records_max=1)
                assert given.response.throttle_ms == 0
                assert given.offsets() == [offset]
        finally:
            bound(broker)


@pytest.mark.parametrize("ack_only", [False, True])
def test_who_keeps_the_broker_busy_is_told_so_by_share_apis_too(
    broker: BrokerThread, ack_only: bool
) -> None:
    place = SharePlace(broker.bootstrap)
    write(place, 10)
    with place.member() as one:
        assert one.fetch().offsets() == [0]
        bound(broker, request_percentage=0.000001)
        try:
            if ack_only:
                answer = one.acknowledge((0, 0, ACCEPT))
                assert ack_error(answer) == ErrorCode.NONE
                assert answer.throttle_ms == 1000
            else:
                assert one.fetch(wait_ms=0).response.throttle_ms == 1000
        finally:
            bound(broker)


def target_epoch(broker: BrokerThread, place: SharePlace) -> int:
    def look(server: Server) -> int:
        group = server.coordinators.groups.shard(place.group).modern.find(ShareGroup, place.group)
        assert group is not None
        return group.target_epoch

    return broker.call(look)


def test_partitions_move_once_in_an_interval_however_many_come(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap, 2, share_assignment_interval_ms="0")
    with place.member() as first, contextlib.ExitStack() as stack:
        assert len(first.assigned) == 2
        place.configure(share_assignment_interval_ms="15000")
        assert target_epoch(broker, place) == 3
        others = [
            stack.enter_context(ShareMember(place.bootstrap, place.group, f"m{n}"))
            for n in range(4)
        ]
        for other in others:
            answer = other.heartbeat(0, [place.topic])
            other.take(answer)
            assert other.assigned == []
            assert answer.heartbeat_interval.total_seconds() <= 1, "it is asked to come soon"
        assert target_epoch(broker, place) == 3
        place.configure(share_assignment_interval_ms="0")
        assert others[0].stay().assigned
        assert target_epoch(broker, place) == 7, "one assignment for all four"
        assert all(other.stay().assigned for other in others)


def test_partitions_move_when_the_interval_is_over_whoever_asks(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap, 2, share_assignment_interval_ms="300")
    with place.member(), place.member():
        end = time.monotonic() + SECONDS_MAX
        while target_epoch(broker, place) < 2:
            assert time.monotonic() < end
            time.sleep(0.02)


def test_a_large_groups_partitions_are_shared_out_on_a_thread(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_assignment, "AT_ONCE_MAX", 0)
    place = SharePlace(broker.bootstrap, 4, share_assignment_interval_ms="0")
    with place.member() as first, place.member() as second:
        end = time.monotonic() + SECONDS_MAX
        while not len(first.assigned) == len(second.assigned) == 2:
            assert time.monotonic() < end, (first.assigned, second.assigned)
            first.stay()
            second.stay()
        assert len({*first.assigned, *second.assigned}) == 4
        second.leave()
        while len(first.stay().assigned) != 4:
            assert time.monotonic() < end


def test_an_interval_beyond_the_brokers_bounds_is_refused(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    with pytest.raises(Exception, match=r"assignment\.interval"):
        place.configure(share_assignment_interval_ms="15001")
