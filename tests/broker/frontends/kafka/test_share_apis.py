"""Share groups over a socket: what each request does, as the protocol has it (KIP-932)."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from headrace.frontends.http import coordinator_gauges
from headrace.frontends.http.exposition import render
from headrace.model.errors import ErrorCode
from headrace.observe.metrics import Metrics
from headrace.server.assembly import Server
from headrace.testing import BrokerThread
from tests.support.coordination.share import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    SharePlace,
    ack_error,
)

SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "30000",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "2",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(SETTINGS) as one:
        yield one


def test_records_are_handed_out_and_accepted_ones_never_again(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(10)
    with place.member() as one:
        given = one.fetch()
        assert given.offsets() == list(range(10))
        assert given.values() == [b"v%d" % number for number in range(10)]
        assert set(given.counts().values()) == {1}
        assert given.response.lock_timeout_ms == 30_000
        assert ack_error(one.acknowledge((0, 9, ACCEPT))) == 0
        assert one.fetch(wait_ms=50).offsets() == []
        place.produce(1)
        assert one.fetch().offsets() == [10]


def test_released_records_come_again_before_new_ones_and_counted(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(6, batch=3)
    with place.member() as one:
        assert one.fetch(records_max=3).offsets() == [0, 1, 2]
        assert ack_error(one.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT))) == 0
        assert one.fetch().counts() == {1: 2, 3: 1, 4: 1, 5: 1}


def test_acknowledgements_travel_with_a_fetch(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(4, batch=2)
    with place.member() as one:
        assert one.fetch(records_max=2).offsets() == [0, 1]
        given = one.fetch((0, 1, ACCEPT), records_max=2)
        assert given.ack_errors == [0]
        assert given.offsets() == [2, 3]


def test_two_members_share_a_partition_and_no_record(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(40, batch=10)
    with place.member() as one, place.member() as other:
        assert one.assigned == other.assigned
        first = one.fetch(records_max=10).offsets()
        second = other.fetch(records_max=10).offsets()
        first += one.fetch(records_max=10).offsets()
        second += other.fetch(records_max=10).offsets()
        assert sorted(first + second) == list(range(40))
        stolen = other.acknowledge((first[0], first[0], ACCEPT))
        assert ack_error(stolen) == ErrorCode.INVALID_RECORD_STATE


def test_exactly_so_many_records_where_that_is_asked(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(20)
    with place.member() as one:
        assert one.fetch(records_max=5).offsets() == list(range(20)), "whole batches"
    place = SharePlace(broker.bootstrap)
    place.produce(20)
    with place.member() as one:
        assert one.fetch(records_max=5, exactly=True).offsets() == list(range(5))
        given = one.fetch(records_max=5, exactly=True)
        assert given.offsets() == list(range(5, 10))
        assert given.values() == [b"v%d" % number for number in range(5, 10)]


def test_a_fetch_that_waits_is_given_what_a_lock_gives_back(broker: BrokerThread) -> None:
    """When locks run out is told by `test_share_time`, which moves the clock."""
    place = SharePlace(broker.bootstrap)
    place.produce(2)
    with place.member() as one, place.member() as other:
        assert one.fetch().offsets() == [0, 1]
        assert ack_error(one.acknowledge((0, 0, ACCEPT))) == 0
        before = broker.call(lambda server: server.coordinators.share.partitions.counts.timed_out)
        place.configure(share_record_lock_duration_ms="1000")
        assert ack_error(one.acknowledge((1, 1, RENEW), renew=True)) == 0
        assert other.fetch(wait_ms=20_000).counts() == {1: 2}
        counts = broker.call(lambda server: server.coordinators.share.partitions.counts)
        assert counts.timed_out > before
        assert ack_error(one.acknowledge((1, 1, ACCEPT))) == ErrorCode.INVALID_RECORD_STATE


def test_a_lock_can_be_renewed_where_the_group_may(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(1)
    with place.member() as one:
        assert one.fetch().offsets() == [0]
        assert ack_error(one.acknowledge((0, 0, RENEW), renew=True)) == 0
        assert one.fetch((0, 0, RENEW), renew=True).ack_errors == [0]
        assert ack_error(one.acknowledge((0, 0, ACCEPT))) == 0
        place.configure(share_renew_acknowledge_enable="false")
        place.produce(1)
        assert one.fetch().offsets() == [1]
        refused = one.acknowledge((1, 1, RENEW), renew=True)
        assert ack_error(refused) == ErrorCode.INVALID_RECORD_STATE
        assert ack_error(one.acknowledge((1, 1, RENEW))) == ErrorCode.INVALID_REQUEST


def test_after_its_last_try_a_record_is_given_up(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap, share_delivery_count_limit="2")
    place.produce(1)
    with place.member() as one:
        for tries in (1, 2):
            assert one.fetch().counts() == {0: tries}
            assert ack_error(one.acknowledge((0, 0, RELEASE))) == 0
        place.produce(1)
        assert one.fetch().counts() == {1: 1}


def test_a_group_begins_at_the_end_unless_told_otherwise(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.configure(**{"share.auto.offset.reset": "latest"})
    place.produce(3)
    with place.member() as one:
        assert one.fetch(wait_ms=10).offsets() == []
        place.produce(2)
        assert one.fetch().offsets() == [3, 4]
    place.configure(**{"share.auto.offset.reset": "by_duration:PT1H"})
    other = SharePlace(broker.bootstrap)
    other.configure(**{"share.auto.offset.reset": "by_duration:PT1H"})
    other.produce(3)
    with other.member() as one:
        assert one.fetch().offsets() == [0, 1, 2]


def test_no_more_is_under_way_than_the_group_may_have(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap, share_partition_max_record_locks="100")
    place.produce(150, batch=10)
    with place.member() as one:
        assert len(one.fetch().offsets()) == 100
        assert one.fetch(wait_ms=50).offsets() == []
        assert ack_error(one.acknowledge((0, 9, ACCEPT))) == 0
        assert one.fetch().offsets() == list(range(100, 110))
        assert ack_error(one.acknowledge((20, 29, ACCEPT))) == 0
        assert one.fetch(wait_ms=50).offsets() == [], "the window begins at what is not settled"


def test_what_a_member_holds_is_another_s_when_its_connection_ends(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(3)
    with place.member() as other:
        with place.member() as one:
            assert one.fetch().offsets() == [0, 1, 2]
            assert other.fetch(wait_ms=50).offsets() == []
        assert other.fetch(wait_ms=10_000).counts() == {0: 2, 1: 2, 2: 2}


def test_a_session_s_last_request_gives_back_what_is_held(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(3)
    with place.member() as one, place.member() as other:
        assert one.fetch().offsets() == [0, 1, 2]
        assert ack_error(one.acknowledge((0, 0, ACCEPT), epoch=-1)) == 0
        assert other.fetch().offsets() == [1, 2]
        assert one.acknowledge(epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert one.fetch(epoch=-1).error == ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize("with_a_fetch", [False, True])
def test_a_last_acknowledgement_counts_though_its_member_has_left(
    broker: BrokerThread, with_a_fetch: bool
) -> None:
    """Clients send both at once, on two connections: either may come first."""
    place = SharePlace(broker.bootstrap)
    place.produce(4)
    with place.member() as one, place.member() as other:
        assert one.fetch().offsets() == [0, 1, 2, 3]
        assert one.leave().error_code == ErrorCode.NONE
        assert other.fetch(wait_ms=50).offsets() == [], "not before its session ends"
        stolen = other.acknowledge((0, 3, ACCEPT))
        assert ack_error(stolen) == ErrorCode.INVALID_RECORD_STATE
        if with_a_fetch:
            assert one.fetch((0, 1, ACCEPT), epoch=-1).ack_errors == [0]
        else:
            assert ack_error(one.acknowledge((0, 1, ACCEPT), epoch=-1)) == 0
        assert other.fetch().counts() == {2: 2, 3: 2}


def test_what_a_member_that_left_holds_comes_back_when_its_connection_ends(
    broker: BrokerThread,
) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(2)
    with place.member() as other:
        with place.member() as one:
            assert one.fetch().offsets() == [0, 1]
            assert one.leave().error_code == ErrorCode.NONE
        assert other.fetch(wait_ms=10_000).counts() == {0: 2, 1: 2}


@pytest.mark.parametrize("limit", ["bytes_max", "records_max"])
def test_who_asks_for_nothing_is_given_nothing_at_once(broker: BrokerThread, limit: str) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(4, batch=2)
    nothing: dict[str, Any] = {limit: 0}
    with place.member() as one:
        assert one.fetch(wait_ms=20_000, **nothing).offsets() == []
        assert one.fetch(records_max=2).counts() == {0: 1, 1: 1}
        given = one.fetch((0, 1, ACCEPT), wait_ms=20_000, **nothing)
        assert (given.offsets(), given.ack_errors) == ([], [0])
        assert one.fetch().counts() == {2: 1, 3: 1}


def test_sessions_have_epochs(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(1)
    with place.member() as one:
        assert one.fetch(epoch=3).error == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert one.fetch().offsets() == [0]
        assert one.fetch(epoch=7).error == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        early = one.acknowledge((0, 0, ACCEPT), epoch=0)
        assert early.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert one.fetch((0, 0, ACCEPT), epoch=0).error == ErrorCode.INVALID_REQUEST
        assert ack_error(one.acknowledge((0, 0, ACCEPT))) == 0


def test_a_waiting_fetch_is_answered_when_records_come(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    with place.member() as one, place.member() as other:
        assert one.fetch(wait_ms=10).offsets() == []
        place.produce(1)
        assert one.fetch(wait_ms=20_000).offsets() == [0]
        began = time.monotonic()
        assert ack_error(one.acknowledge((0, 0, RELEASE))) == 0
        assert other.fetch(wait_ms=20_000).offsets() == [0]
        assert time.monotonic() - began < 15


def test_batches_of_acknowledgements_are_in_order_and_of_known_kinds(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap)
    place.produce(4)
    with place.member() as one:
        assert one.fetch().offsets() == [0, 1, 2, 3]
        for acks in (((2, 3, ACCEPT), (0, 1, ACCEPT)), ((1, 0, ACCEPT),), ((0, 1, 9),)):
            assert ack_error(one.acknowledge(*acks)) == ErrorCode.INVALID_REQUEST
        assert ack_error(one.acknowledge((0, 9, ACCEPT))) == ErrorCode.INVALID_RECORD_STATE
        assert ack_error(one.acknowledge((0, 3, ACCEPT))) == 0


def test_metrics_tell_of_transactions_and_share_groups(broker: BrokerThread) -> None:
    def shown(server: Server) -> dict[str, float]:
        metrics = Metrics()
        broker_metrics, server.broker.metrics = server.broker.metrics, metrics
        coordinator_gauges.register(server.broker, server.coordinators)
        server.broker.metrics = broker_metrics
        return {
            " ".join((one.name.removeprefix("headrace_"), *one.labels.values())): one.value
            for family in text_string_to_metric_families(render(metrics).decode())
            for one in family.samples
        }

    place = SharePlace(broker.bootstrap)
    place.produce(6)
    before = broker.call(shown)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "shown"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(place.topic, b"open")
    assert producer.flush(20) == 0
    with place.member() as one:
        assert one.fetch().offsets()[:6] == [0, 1, 2, 3, 4, 5]
        one.acknowledge((0, 2, ACCEPT), (3, 3, REJECT), (4, 4, RELEASE))
        now = broker.call(shown)
    producer.commit_transaction(20)
    deadline = time.monotonic() + 20
    while not (after := broker.call(shown))["transactions_total committed"]:
        assert time.monotonic() < deadline  # its markers are being written
        time.sleep(0.05)
    grown = {name: value - before.get(name, 0) for name, value in now.items()}
    assert grown["share_records_acquired_total"] >= 6
    assert grown["share_records_acknowledged_total accept"] == 3
    assert grown["share_records_acknowledged_total reject"] == 1
    assert grown["share_records_acknowledged_total release"] == 1
    assert now["share_records_out"] >= 1
    assert now["share_partitions"] >= 1
    assert now["share_groups"] >= 1
    assert "share_locks_timed_out_total" in now
    assert now["transactions_open"] == 1
    assert 0 < now["transaction_open_seconds_max"] < 120
    assert now["transactions_total committed"] == 0
    assert after["transactions_total committed"] == 1
    assert after["transactions_ending"] == 0
    assert (after["transactions_open"], after["transactions_timed_out_total"]) == (0, 0)


def test_several_partitions_have_their_turns(broker: BrokerThread) -> None:
    place = SharePlace(broker.bootstrap, partitions=3)
    for index in range(3):
        place.produce(5, partition=index)
    with place.member() as one:
        assert len(one.assigned) == 3
        seen: dict[int, int] = {}
        for _ in range(10):
            given = one.fetch(records_max=5)
            for (_, index), part in given.partitions.items():
                seen[index] = seen.get(index, 0) + len(part.acquired)
            if len(seen) == 3:
                break
        assert sorted(seen) == [0, 1, 2]
