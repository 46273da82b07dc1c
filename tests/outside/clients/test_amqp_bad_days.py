"""AMQP's bad days at a real broker: whoever misbehaves, nobody else is hurt."""

import gc
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pamqp.commands import Basic, Channel, Connection, Queue

from headrace.frontends.amqp.connection.session import AmqpFrontend
from headrace.server.assembly import Server
from headrace.testing import BrokerThread
from tests.outside.amqp import frames
from tests.outside.amqp.address import Address
from tests.outside.amqp.frames import Ended, RawConnection

LIMIT = 4 << 20
CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0",
    "amqp.guest": "true",
    "amqp.memory.bytes.max": str(LIMIT),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """One broker for all: what one test does to it the next would notice."""
    with BrokerThread(CONFIG, memory=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def address(broker: BrokerThread) -> Address:
    """Where it listens for AMQP."""
    return Address(broker.call(lambda server: server.listeners[1].port))


@pytest.fixture
def raw(address: Address) -> Iterator[RawConnection]:
    """A connection with one channel and the queue `q` of its own."""
    with RawConnection(address).open() as connection:
        connection.open_channel()
        yield connection
        connection.say_goodbye()


def declare(connection: RawConnection, name: str, channel: int = 1) -> None:
    """Declare a queue that goes with the connection."""
    connection.send(frames.method(Queue.Declare(queue=name, exclusive=True), channel))
    connection.expect("queue.declare-ok")


def round_trip(connection: RawConnection, payload: bytes = b"m") -> None:
    """Publish to `q` and get it back."""
    connection.send(frames.content(Basic.Publish(routing_key="q"), payload))
    connection.send(frames.method(Basic.Get(queue="q", no_ack=True)))
    connection.expect("basic.get-ok")
    assert connection.receive_method().name == "content-header"
    assert connection.receive_method().frame.value == payload


SCRIPT = b"".join(
    (
        frames.method(Queue.Declare(queue="fuzzed", exclusive=True)),
        frames.content(Basic.Publish(routing_key="fuzzed"), b"a" * 300, {"headers": {"n": 1}}),
        frames.content(
            Basic.Publish(routing_key="fuzzed"), bytes(5000), {"expiration": "1"}, 1, 4000
        ),
        frames.method(Basic.Consume(queue="fuzzed", arguments={"x-priority": 3})),
        frames.method(Basic.Ack(1, multiple=True)),
        frames.method(Channel.Open(), 2),
        frames.method(Channel.Close(200, "", 0, 0), 2),
    )
)
MUTATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, len(SCRIPT) - 1), st.integers(0, 255)),
        st.tuples(st.just("cut"), st.integers(0, len(SCRIPT) - 1), st.integers(1, 40)),
        st.tuples(st.just("repeat"), st.integers(0, len(SCRIPT) - 1), st.integers(1, 40)),
        st.tuples(st.just("size"), st.integers(0, len(SCRIPT) - 5), st.integers(0, 0xFFFFFFFF)),
    ),
    min_size=1,
    max_size=5,
)


def mutated(mutations: list[tuple[str, int, int]]) -> bytes:
    """The script with some bytes changed, left out, repeated, or made a length."""
    wire = bytearray(SCRIPT)
    for how, at, value in mutations:
        if how == "set":
            wire[at : at + 1] = bytes((value,))
        elif how == "cut":
            del wire[at : at + value]
        elif how == "repeat":
            wire[at:at] = wire[at : at + value]
        else:
            wire[at : at + 4] = struct.pack(">I", value)
    return bytes(wire)


def outcome(connection: RawConnection) -> str:
    """What the broker says last: a close, the end of the socket, or the answer to our question."""
    connection.send(frames.method(Connection.Close(200, "", 0, 0), 0))
    while True:
        name = connection.receive_method(10).name
        if name in {"connection.close", "connection.close-ok"}:
            return name


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MUTATIONS)
def test_hostile_bytes_are_answered_or_end_their_connection_and_no_other(
    address: Address, raw: RawConnection, mutations: list[tuple[str, int, int]]
) -> None:
    declare(raw, "q")
    with RawConnection(address).open() as hostile:
        hostile.open_channel()
        with suppress(Ended, TimeoutError):
            # Where the last length lies the broker waits for more, as it has to.
            hostile.send(mutated(mutations))
            round_trip(raw)
            outcome(hostile)
    round_trip(raw)


def test_a_thousand_channels_of_one_connection_publish_and_get(address: Address) -> None:
    with RawConnection(address).open() as connection:
        for number in range(1, 1001):
            connection.send(frames.method(Channel.Open(), number))
        for _ in range(1000):
            connection.expect("channel.open-ok")
        declare(connection, "many")
        for number in range(1, 1001):
            payload = b"%d" % number
            connection.send(frames.content(Basic.Publish(routing_key="many"), payload, {}, number))
        got = []
        for number in range(1, 1001):
            connection.send(frames.method(Basic.Get(queue="many", no_ack=True), number))
            assert connection.expect("basic.get-ok").channel == number
            connection.receive_method()
            got.append(connection.receive_method().frame.value)
        assert got == [b"%d" % number for number in range(1, 1001)]
        connection.say_goodbye()


def kept_objects(server: Server) -> Counter[str]:
    """How many objects of AMQP there are, by their kinds, and what memory holds."""
    gc.collect()
    kinds = Counter(
        type(each).__qualname__
        for each in gc.get_objects()
        if str(type(each).__module__).startswith("headrace.frontends.amqp")
    )
    for each in gc.get_objects():
        if isinstance(each, AmqpFrontend):
            kinds["unfinished"] = each.broker.unfinished.bytes  # type: ignore[attr-defined]
    return kinds


def use_and_leave(address: Address, number: int) -> None:
    """Connect, hold and begin things, and go: some say goodbye, some do not."""
    connection = RawConnection(address).open(heartbeat=number % 2 * 60)
    connection.open_channel()
    declare(connection, f"mine-{number}")
    connection.send(frames.content(Basic.Publish(routing_key=f"mine-{number}"), b"m" * 100))
    connection.send(frames.method(Basic.Consume(queue=f"mine-{number}")))
    connection.expect("basic.consume-ok")
    connection.send(frames.method(Basic.Publish(routing_key="q")))
    connection.send(frames.raw(2, 1, struct.pack(">HHQH", 60, 0, 1000, 0)))
    connection.send(frames.raw(3, 1, b"part"))
    if number % 3:
        connection.close()
    else:
        connection.say_goodbye()


def test_a_thousand_connections_that_went_leave_nothing(
    broker: BrokerThread, address: Address
) -> None:
    use_and_leave(address, 0)

    def wait_until_all_are_gone() -> None:
        deadline = time.monotonic() + 30
        while broker.call(lambda server: len(server.table)):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    wait_until_all_are_gone()
    before = broker.call(kept_objects)
    for number in range(1000):
        use_and_leave(address, number)
    wait_until_all_are_gone()
    after = broker.call(kept_objects)
    more = {kind: count for kind, count in (after - before).items() if count > 5}
    assert not more


def test_a_consumer_that_does_not_read_is_sent_no_more_and_others_go_on(
    broker: BrokerThread, address: Address, raw: RawConnection
) -> None:
    declare(raw, "q")
    with RawConnection(address).open() as slow, RawConnection(address).open() as publisher:
        for connection in (slow, publisher):
            connection.open_channel()
        limit = {"x-max-length-bytes": 1 << 20}
        slow.send(frames.method(Queue.Declare(queue="much", exclusive=True, arguments=limit)))
        slow.expect("queue.declare-ok")
        slow.send(frames.method(Basic.Consume(queue="much", no_ack=True)))
        slow.expect("basic.consume-ok")
        for number in range(300):
            publisher.send(frames.content(Basic.Publish(routing_key="much"), bytes(100_000)))
            if number % 50 == 0:
                round_trip(raw)

        def unread(server: Server) -> int:
            return max(each.answers.held for each in server.table._connections)

        high = broker.call(lambda server: server.table.limits.write_buffer_bytes_high)
        assert broker.call(unread) <= 4 * high + LIMIT
        round_trip(raw)


@contextmanager
def nowhere_to_spill(broker: BrokerThread) -> Iterator[None]:
    """What memory has no room for finds none on the disk."""
    files = [Path(broker.directory) / f"headrace-amqp-spill-{number:08d}" for number in range(99)]
    for file in files:
        file.symlink_to("/dev/full")
    yield
    for file in files:
        file.unlink(missing_ok=True)


def test_who_publishes_is_held_up_at_the_mark_and_consumers_go_on(
    broker: BrokerThread, address: Address, raw: RawConnection
) -> None:
    """As RabbitMQ 4.0.5 was seen to: told with the first publish after it, and once."""
    declare(raw, "q")
    with (
        nowhere_to_spill(broker),
        RawConnection(address).open() as publisher,
        RawConnection(address).open() as consumer,
    ):
        publisher.open_channel()
        consumer.open_channel()
        publisher.send(frames.method(Queue.Declare(queue="kept")))
        publisher.expect("queue.declare-ok")
        for _ in range(5):
            publisher.send(frames.content(Basic.Publish(routing_key="kept"), bytes(1 << 20)))
        # The mark is looked at when a pass is over, and the fifth may have begun in the fourth's.
        publisher.send(frames.content(Basic.Publish(routing_key="kept"), b"held up"))
        assert publisher.expect("connection.blocked").frame.reason == "low on memory"
        publisher.send(frames.method(Basic.Qos()))
        raw.send(frames.method(Basic.Qos()))
        raw.expect("basic.qos-ok")
        with pytest.raises(TimeoutError):
            publisher.receive_method(0.3)
        consumer.send(frames.method(Basic.Consume(queue="kept")))
        consumer.expect("basic.consume-ok")
        got = 0
        while got < 4:
            got += consumer.receive_method().name == "basic.deliver"
        consumer.send(frames.method(Basic.Ack(4, multiple=True)))
        publisher.expect("connection.unblocked")
        publisher.expect("basic.qos-ok")
        publisher.send(frames.method(Queue.Delete(queue="kept")))
        publisher.expect("queue.delete-ok")


def test_heartbeats_come_both_ways_and_a_silent_client_is_ended_after_two(
    address: Address,
) -> None:
    with RawConnection(address).open(heartbeat=1) as connection:
        connection.open_channel()
        connection.send(frames.method(Basic.Publish(routing_key="q")))
        connection.send(frames.raw(2, 1, struct.pack(">HHQH", 60, 0, 1000, 0)))
        began = time.monotonic()
        beats = 0
        with suppress(Ended):
            while beats < 100:
                connection.receive(10)
                beats += 1
        assert 1.5 < time.monotonic() - began < 10
        assert beats >= 2


def test_a_client_that_asks_for_no_heartbeats_has_none(address: Address) -> None:
    with RawConnection(address).open(heartbeat=0) as connection:
        with pytest.raises(TimeoutError):
            connection.receive(2.5)
        connection.open_channel()


def test_pika_is_told_that_the_disk_is_low_and_a_consumer_notices_nothing() -> None:
    config = CONFIG | {"amqp.disk.free.bytes.min": str(1 << 62)}
    with BrokerThread(config, memory=True) as full:
        port = full.call(lambda server: server.listeners[1].port)
        connection = pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", port, blocked_connection_timeout=1)
        )
        reasons: list[str] = []
        connection.add_on_connection_blocked_callback(
            lambda _, method: reasons.append(method.method.reason)
        )
        channel = connection.channel()
        channel.queue_declare("q", exclusive=True)
        assert channel.basic_get("q") == (None, None, None)
        channel.basic_publish("", "q", b"m")
        connection.process_data_events(10)
        assert reasons == ["low on disk"]
        with pytest.raises(pika.exceptions.ConnectionBlockedTimeout):
            connection.process_data_events(10)


def test_connections_of_amqp_count_among_all_and_the_next_one_is_closed() -> None:
    with BrokerThread(CONFIG | {"max.connections": "2"}, memory=True) as small:
        address = Address(small.call(lambda server: server.listeners[1].port))
        with (
            RawConnection(address).open(),
            RawConnection(address).open(),
            RawConnection(address) as third,
            pytest.raises(Ended),
        ):
            third.open()
