"""Groups of the newer protocol (KIP-848) through a kill of the broker, with a stock client."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.process import BrokerProcess

SECONDS_MAX = 40.0
QUICK: dict[str, Any] = {
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": 300,
    "group_consumer_min_session_timeout_ms": 6_000,
    "group_consumer_session_timeout_ms": 6_000,
}


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("newer"), **QUICK) as one:
        yield one


def member(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    return consumer


def produce(bootstrap: str, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, b"%d" % value, partition=value % 4)
    assert producer.flush(SECONDS_MAX) == 0


def read_until(members: list[Consumer], done: Callable[[list[int]], bool]) -> list[int]:
    """Poll all of them until `done` with the values read, which are committed as they come."""
    values: list[int] = []
    end = time.monotonic() + SECONDS_MAX
    while not done(values):
        assert time.monotonic() < end, sorted(values)
        for one in members:
            message = one.poll(0.05)
            if message is not None and message.error() is None:
                values.append(int(message.value() or b"-1"))
                one.commit(message, asynchronous=False)
    return values


def test_a_group_goes_on_through_a_kill_with_its_members_and_offsets(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("t", 4, 1)])["t"].result(SECONDS_MAX)
    produce(broker.bootstrap, "t", range(20))
    with ExitStack() as stack:
        two = [stack.enter_context(closing(member(broker.bootstrap, "t"))) for _ in range(2)]
        first = read_until(
            two,
            lambda values: len(values) >= 20 and all(len(one.assignment()) == 2 for one in two),
        )
        held = [sorted(each.partition for each in one.assignment()) for one in two]
        ids = [one.memberid() for one in two]
        broker.kill()
        broker.start()
        produce(broker.bootstrap, "t", range(20, 40))
        then = read_until(two, lambda values: len(values) >= 20)
        assert sorted(set(first)) == list(range(20))
        assert sorted(then) == list(range(20, 40)), "what was committed is not read again"
        assert [sorted(each.partition for each in one.assignment()) for one in two] == held
        assert [one.memberid() for one in two] == ids
        listed = admin.list_consumer_groups().result(SECONDS_MAX).valid
        assert [(one.group_id, one.state) for one in listed] == [("g", ConsumerGroupState.STABLE)]
