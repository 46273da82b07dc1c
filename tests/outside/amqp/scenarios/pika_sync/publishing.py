"""Publishing: confirms, returns, transactions, sizes and properties."""

import datetime
import decimal
from typing import Any

import pika
from pika.exceptions import NackError, UnroutableError
from pika.spec import Basic

from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.pika_sync.kit import (
    PERSISTENT,
    Consumer,
    arrived,
    channel,
    connected,
    declared,
    disconnected,
    drained,
    get,
    parameters,
    publish,
    ready,
    refused,
    scenario,
    unused,
)
from tests.outside.matrix.scenario import WAIT_SECONDS_MAX, eventually, raises

LARGEST_BYTES = 16 << 20


@scenario
def every_property_and_kind_of_header_comes_back(address: Address) -> None:
    headers = {
        "text": "größe", "bytes": b"\xff\x00", "bool": True, "none": None, "int": 7,
        "negative": -(2**40), "list": [1, "two", {"three": 3}],
        "table": {"deep": {"deeper": "x"}}, "decimal": decimal.Decimal("3.14"),
        "time": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "long": "y" * 5000,
    }  # fmt: skip
    sent = pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", headers=headers, delivery_mode=2,
        priority=3, correlation_id="c", reply_to="r", expiration="60000", message_id="m",
        timestamp=1_700_000_000, type="t", user_id="guest", app_id="a", cluster_id="k",
    )  # fmt: skip
    with channel(address) as opened:
        queue = declared(opened)
        opened.basic_publish("", queue, b"body", sent)
        found = arrived(opened, queue, 1)[0].properties
        for name in vars(sent):
            if name != "headers":
                assert getattr(found, name) == getattr(sent, name), name
        times = {"time": found.headers["time"].replace(tzinfo=datetime.UTC)}
        assert found.headers | times == headers, found.headers


@scenario
def bodies_of_every_size_come_back(address: Address) -> None:
    sizes = (0, 1, 4087, 4088, 4089, 131_063, 131_064, 131_065, 262_128, 1_000_000)
    for frame_max in (4096, 131_072):
        with channel(address, frame_max=frame_max) as opened:
            queue = declared(opened)
            for size in sizes:
                body = (bytes(range(251)) * (size // 251 + 1))[:size]
                publish(opened, queue, body)
                assert arrived(opened, queue, 1)[0].body == body, (frame_max, size)


@scenario
def a_message_above_the_largest_closes_the_channel(address: Address) -> None:
    text = (
        f"PRECONDITION_FAILED - message size {LARGEST_BYTES + 1} is larger than configured max size"
        f" {LARGEST_BYTES}"
    )
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, bytes(LARGEST_BYTES))
        assert len(arrived(opened, queue, 1)[0].body) == LARGEST_BYTES
        with refused(406, text):
            publish(opened, queue, bytes(LARGEST_BYTES + 1))
            opened.queue_declare(queue, passive=True)


@scenario
def confirmed_messages_are_there(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, exclusive=False, durable=True)
        opened.confirm_delivery()
        for number in range(50):
            publish(opened, queue, str(number), delivery_mode=PERSISTENT)
        assert ready(opened, queue) == 50
        opened.queue_delete(queue)


@scenario
def a_message_to_nowhere_is_confirmed_all_the_same(address: Address) -> None:
    with channel(address) as opened:
        opened.confirm_delivery()
        publish(opened, unused(), "to nobody")


@scenario
def a_mandatory_message_to_nowhere_comes_back_before_its_confirm(address: Address) -> None:
    with channel(address) as opened:
        opened.confirm_delivery()
        none = unused()
        properties = pika.BasicProperties(message_id="m", headers={"a": 1})
        with raises(UnroutableError) as returned:
            opened.basic_publish("amq.direct", none, b"back", properties, mandatory=True)
        (message,) = returned.error.messages
        assert message.body == b"back"
        assert (message.method.reply_code, message.method.reply_text) == (312, "NO_ROUTE")
        assert (message.method.exchange, message.method.routing_key) == ("amq.direct", none)
        assert message.properties.message_id == "m"
        assert message.properties.headers == {"a": 1}
        opened.basic_publish("", declared(opened), b"here", mandatory=True)


@scenario
def without_confirms_a_mandatory_message_comes_back_too(address: Address) -> None:
    with channel(address) as opened:
        back: list[Any] = []
        opened.add_on_return_callback(lambda _, method, *__: back.append(method.reply_code))
        opened.basic_publish("", unused(), b"back", mandatory=True)
        opened.basic_publish("", declared(opened), b"here", mandatory=True)

        def _came() -> bool:
            opened.connection.process_data_events(0.02)
            return bool(back)

        eventually(_came, "a return")
        assert back == [312]


@scenario
def many_confirms_come_for_all_and_in_order(address: Address) -> None:
    """With a channel below the blocking one: that confirms each message by itself."""
    count = 2000
    queue = unused()
    open_tags = set(range(1, count + 1))
    connection: Any = pika.SelectConnection(
        parameters(address),
        on_open_callback=lambda _: _opened(),
        on_close_callback=lambda *_: connection.ioloop.stop(),
    )

    def _opened() -> None:
        connection.channel(on_open_callback=_ready)

    def _ready(opened: Any) -> None:
        opened.queue_declare(queue, exclusive=True, callback=lambda _: _publish(opened))

    def _publish(opened: Any) -> None:
        opened.confirm_delivery(_confirmed)
        for number in range(count):
            opened.basic_publish("", queue, str(number).encode())

    def _confirmed(frame: Any) -> None:
        method = frame.method
        assert method.NAME == "Basic.Ack", method
        tags = (
            {tag for tag in open_tags if tag <= method.delivery_tag}
            if method.multiple
            else {method.delivery_tag}
        )
        assert tags <= open_tags, "nothing is confirmed twice"
        open_tags.difference_update(tags)
        if not open_tags:
            connection.close()

    connection.ioloop.call_later(WAIT_SECONDS_MAX, connection.ioloop.stop)
    connection.ioloop.start()
    assert not open_tags, f"{len(open_tags)} of {count} are not confirmed"


@scenario
def a_full_queue_that_rejects_says_so_by_nack(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, max_length=2, overflow="reject-publish")
        opened.confirm_delivery()
        publish(opened, queue, "a", "b")
        with raises(NackError):
            publish(opened, queue, "c")
        assert drained(opened, queue) == [b"a", b"b"]
        publish(opened, queue, "d")
        assert drained(opened, queue) == [b"d"]


@scenario
def immediate_closes_the_connection(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        method = Basic.Publish(exchange="", routing_key="q", mandatory=False, immediate=True)
        with disconnected(540, "NOT_IMPLEMENTED - immediate=true"):
            opened._impl._send_method(method, (pika.BasicProperties(), b"now"))
            connection.process_data_events(WAIT_SECONDS_MAX)
            connection.process_data_events(0.1)


@scenario
def a_users_id_has_to_be_its_own(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, "mine", user_id=address.user)
        arrived(opened, queue, 1)
        text = "user_id property set to 'mallory' but authenticated user was 'guest'"
        with refused(406, text):
            publish(opened, queue, "another's", user_id="mallory")
            opened.queue_declare(queue, passive=True)


@scenario
def a_transaction_is_there_when_it_is_committed(address: Address) -> None:
    with connected(address) as connection:
        opened, other = connection.channel(), connection.channel()
        queue = declared(other)
        opened.tx_select()
        publish(opened, queue, "a", "b")
        opened.queue_declare(queue, passive=True)
        assert ready(other, queue) == 0
        opened.tx_commit()
        assert drained(other, queue) == [b"a", b"b"]


@scenario
def what_is_rolled_back_never_was(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        queue = declared(opened)
        publish(opened, queue, "kept")
        eventually(lambda: ready(opened, queue) == 1, "it is there")
        opened.tx_select()
        publish(opened, queue, "never")
        message = get(opened, queue, auto_ack=False)
        assert message is not None
        opened.basic_ack(message.method.delivery_tag)
        opened.tx_rollback()
        # Its acknowledgement was rolled back, and it is still handed out.
        assert ready(opened, queue) == 0
        opened.basic_ack(message.method.delivery_tag)
        opened.tx_commit()
        opened.close()
        assert drained(connection.channel(), queue) == []


@scenario
def an_uncommitted_transaction_goes_with_its_channel(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        queue = declared(opened)
        publish(opened, queue, "there")
        eventually(lambda: ready(opened, queue) == 1, "it is there")
        opened.tx_select()
        publish(opened, queue, "never")
        message = get(opened, queue, auto_ack=False)
        assert message is not None
        opened.basic_ack(message.method.delivery_tag)
        opened.close()
        (back,) = arrived(connection.channel(), queue, 1)
        assert back.body == b"there"
        assert back.method.redelivered


@scenario
def transactions_and_confirms_do_not_mix(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        opened.tx_select()
        with refused(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode"):
            opened.confirm_delivery()
        with refused(406, "PRECONDITION_FAILED - channel is not transactional"):
            connection.channel().tx_commit()


@scenario
def replies_come_without_a_queue(address: Address) -> None:
    replies = "amq.rabbitmq.reply-to"
    with channel(address) as client, channel(address) as server:
        queue = declared(server)
        answers = Consumer(client, replies, auto_ack=True)
        publish(client, queue, "question", reply_to=replies, correlation_id="7")
        (asked,) = arrived(server, queue, 1)
        back = asked.properties.reply_to
        assert back.startswith(f"{replies}."), back
        publish(server, back, "answer", correlation_id=asked.properties.correlation_id)
        (answer,) = answers.wait(1)
        assert answer.body == b"answer"
        assert answer.properties.correlation_id == "7"
        assert answer.method.exchange == ""


@scenario
def replies_have_to_be_awaited_before_they_are_asked_for(address: Address) -> None:
    replies = "amq.rabbitmq.reply-to"
    with connected(address) as connection:
        opened = connection.channel()
        queue = declared(opened)
        with refused(406, "PRECONDITION_FAILED - fast reply consumer does not exist"):
            publish(opened, queue, "question", reply_to=replies)
            opened.queue_declare(queue, passive=True)
        with refused(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge"):
            Consumer(connection.channel(), replies)
