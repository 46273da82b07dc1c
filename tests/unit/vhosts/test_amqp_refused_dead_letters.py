"""Dead letters of quorum queues that a full queue refuses, by both strategies."""

from typing import Any

import pytest

from headrace.model.invariant import InvariantError
from headrace.queues.engine.dead_letter_publishing import LETTERS_REFUSED_MAX, RETRY_SECONDS
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicGet,
    BasicReject,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDelete,
)
from tests.support.amqp.channels import QueueClient, QueueRoom, bodies

SIX = [b"%d" % number for number in range(6)]
FULL: dict[str, Any] = {"x-max-length": 2, "x-overflow": "reject-publish"}
AT_LEAST_ONCE: dict[str, Any] = {
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}


def source_of(client: QueueClient, exchange: str = "dead-letters", **strategy: Any) -> None:
    """Declare the quorum queue `q` whose messages are dead-lettered."""
    client.ask(ExchangeDeclare(exchange="dead-letters", type="fanout"))
    arguments = {"x-queue-type": "quorum", "x-dead-letter-exchange": exchange, **strategy}
    client.declare(durable=True, arguments=arguments)


def target(client: QueueClient, name: str = "dead", **arguments: Any) -> None:
    """Declare a queue for dead letters."""
    client.declare(name, durable=True, arguments=arguments)
    client.ask(QueueBind(queue=name, exchange="dead-letters"))


def reject(client: QueueClient, *messages: bytes) -> None:
    """Publish messages and reject each."""
    client.publish(*messages, delivery_mode=2)
    for _ in messages:
        (heard,) = client.say(BasicGet(queue="q"))
        client.say(BasicReject(heard.method.delivery_tag, False))


def taken(client: QueueClient, name: str = "dead") -> list[bytes]:
    """Take all that is in a queue."""
    found: list[bytes] = []
    while body := client.say(BasicGet(queue=name, no_ack=True))[0].body:
        found.append(body)
    return found


def unsettled(room: QueueRoom) -> int:
    """How many messages the source has kept."""
    (store,) = room.queues["q"].stores
    return len(store.read(0, 100)[1])


def test_at_least_once_delivers_all_as_the_full_queue_is_emptied() -> None:
    room = QueueRoom()
    client = room.client()
    source_of(client, **AT_LEAST_ONCE)
    target(client, **FULL)
    reject(client, *SIX)
    assert unsettled(room) == 4
    found = taken(client)
    for _ in range(3):
        room.clock.advance(RETRY_SECONDS)
        found += taken(client)
    assert found == SIX
    assert unsettled(room) == 0
    room.clock.advance(10 * RETRY_SECONDS)
    assert taken(client) == []


def test_at_most_once_drops_what_a_full_classic_queue_refuses() -> None:
    room = QueueRoom()
    client = room.client()
    source_of(client)
    target(client, **FULL)
    reject(client, *SIX)
    room.clock.advance(10 * RETRY_SECONDS)
    assert taken(client) == SIX[:2]
    assert unsettled(room) == 0


def test_at_most_once_letters_go_into_a_full_quorum_queue() -> None:
    client = QueueRoom().client()
    source_of(client)
    target(client, **FULL, **{"x-queue-type": "quorum"})
    reject(client, *SIX)
    assert taken(client) == SIX


def test_full_quorum_queue_refuses_publishers_and_letters_at_least_once() -> None:
    room = QueueRoom()
    client = room.client()
    source_of(client, **AT_LEAST_ONCE)
    target(client, **FULL, **{"x-queue-type": "quorum"})
    client.publish(b"a", b"b", b"c", key="dead")
    assert room.queues["dead"].ready == 2
    reject(client, b"d")
    assert taken(client) == [b"a", b"b"]
    room.clock.advance(RETRY_SECONDS)
    assert taken(client) == [b"d"]


def test_letter_goes_once_to_each_queue_where_one_of_them_refuses_it() -> None:
    room = QueueRoom()
    client = room.client()
    source_of(client, **AT_LEAST_ONCE)
    target(client, **FULL)
    target(client, "other")
    reject(client, *SIX[:4])
    room.clock.advance(3 * RETRY_SECONDS)
    assert unsettled(room) == 2
    assert taken(client) == SIX[:2]
    room.clock.advance(RETRY_SECONDS)
    assert taken(client) == SIX[2:4]
    assert taken(client, "other") == SIX[:4]
    assert unsettled(room) == 0


def test_letter_is_settled_once_all_that_took_it_have_stored_it() -> None:
    room = QueueRoom(late=True)
    client = room.client()
    source_of(client, **AT_LEAST_ONCE)
    target(client, **FULL)
    target(client, "other")
    reject(client, *SIX[:3])
    for store in room.stores.values():
        store.keep()
    assert unsettled(room) == 1
    assert taken(client) == SIX[:2]
    room.clock.advance(RETRY_SECONDS)
    room.stores["dead"].keep()
    assert unsettled(room) == 1, "the other one has not"
    room.stores["other"].keep()
    assert unsettled(room) == 0


@pytest.mark.parametrize("missing", ["exchange", "binding"])
def test_letter_without_a_route_waits_for_one_at_least_once(missing: str) -> None:
    room = QueueRoom()
    client = room.client()
    source_of(client, **AT_LEAST_ONCE)
    if missing == "exchange":
        client.ask(ExchangeDelete(exchange="dead-letters"))
    reject(client, b"a")
    room.clock.advance(3 * RETRY_SECONDS)
    assert unsettled(room) == 1
    if missing == "exchange":
        client.ask(ExchangeDeclare(exchange="dead-letters", type="fanout"))
    target(client)
    room.clock.advance(RETRY_SECONDS)
    assert taken(client) == [b"a"]
    assert unsettled(room) == 0


@pytest.mark.parametrize("missing", ["exchange", "binding"])
def test_letter_without_a_route_is_gone_at_most_once(missing: str) -> None:
    room = QueueRoom()
    client = room.client()
    source_of(client)
    if missing == "exchange":
        client.ask(ExchangeDelete(exchange="dead-letters"))
    reject(client, b"a")
    assert unsettled(room) == 0


def test_warning_comes_once_for_each_time_that_letters_begin_to_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = QueueRoom()
    client = room.client()
    source_of(client, **AT_LEAST_ONCE)
    target(client, **FULL)
    for times in (1, 2):
        reject(client, *SIX)
        room.clock.advance(2 * RETRY_SECONDS)
        assert caplog.text.count("queue 'q' in vhost '/': a dead letter is not accepted") == times
        for _ in range(4):
            taken(client)
            room.clock.advance(RETRY_SECONDS)
        assert unsettled(room) == 0


def test_letters_wait_in_their_order_behind_those_published_again() -> None:
    room = QueueRoom()
    client = room.client()
    source_of(client, **AT_LEAST_ONCE)
    target(client, **FULL)
    many = [b"%d" % number for number in range(2 * LETTERS_REFUSED_MAX + 5)]
    reject(client, *many)
    found: list[bytes] = []
    while (more := taken(client)) and len(found) < len(many):
        found += more
        room.clock.advance(RETRY_SECONDS)
    assert found == many


def test_letters_behind_the_first_go_on_at_once_when_there_is_room() -> None:
    room = QueueRoom()
    client = room.client()
    source_of(client, **AT_LEAST_ONCE)
    many = [b"%d" % number for number in range(3 * LETTERS_REFUSED_MAX)]
    reject(client, *many)
    target(client)
    room.clock.advance(RETRY_SECONDS)
    room.clock.advance(0.1)
    assert taken(client) == many


def test_deleted_queue_publishes_no_letter_again() -> None:
    room = QueueRoom()
    client = room.client()
    source_of(client, **AT_LEAST_ONCE)
    reject(client, b"a")
    client.ask(QueueDelete(queue="q"))
    target(client)
    source_of(client, **AT_LEAST_ONCE)
    room.clock.advance(3 * RETRY_SECONDS)
    assert taken(client) == []
    reject(client, b"b")
    assert taken(client) == [b"b"]


def test_closed_queue_publishes_no_letter_again() -> None:
    room = QueueRoom()
    client = room.client()
    source_of(client, **AT_LEAST_ONCE)
    target(client, **FULL)
    reject(client, *SIX)
    queue = room.queues["q"]
    queue.broke(InvariantError("a test"))
    assert taken(client) == SIX[:2]
    room.clock.advance(10 * RETRY_SECONDS)
    assert taken(client) == []
    assert room.queues["q"].refused is not None


def test_letter_that_would_go_round_is_dropped_at_least_once() -> None:
    room = QueueRoom()
    client = room.client()
    source_of(
        client, "", **{"x-message-ttl": 10, "x-dead-letter-routing-key": "q", **AT_LEAST_ONCE}
    )
    client.publish(b"a")
    room.clock.advance(5 * RETRY_SECONDS)
    assert (unsettled(room), room.queues["q"].ready) == (0, 0)


def test_letter_whose_message_is_read_from_disk_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = QueueRoom(late=True)
    client = room.client()
    source_of(client, **AT_LEAST_ONCE)
    reject(client, b"a")
    target(client)
    store = room.stores["q"]
    with monkeypatch.context() as patched:
        patched.setattr(store, "read", lambda position, count: ((), ()))
        room.clock.advance(RETRY_SECONDS)
        assert taken(client) == []
    room.clock.advance(RETRY_SECONDS)
    assert taken(client) == [b"a"]


# basic.get of a queue with a single active consumer


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
def test_get_of_a_single_active_consumers_quorum_queue_is_refused(queue_type: str) -> None:
    client = QueueRoom().client()
    arguments = {"x-queue-type": queue_type, "x-single-active-consumer": True}
    client.declare(durable=True, arguments=arguments)
    client.publish(b"a")
    (heard,) = client.say(BasicGet(queue="q"))
    if queue_type == "classic":
        assert heard.body == b"a"
        return
    assert (heard.method.reply_code, heard.method.reply_text) == (
        405,
        "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. basic.get"
        " operations are not supported by quorum queues with single active consumer",
    )


def test_consumer_of_such_a_queue_is_served_after_a_get_was_refused() -> None:
    room = QueueRoom()
    client = room.client()
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    client.declare(durable=True, arguments=arguments)
    client.say(BasicGet(queue="q"))
    other = room.client()
    other.consume()
    assert bodies(other.publish(b"a")) == [b"a"]
    assert other.say(BasicAck(1)) == []
