"""Queues: kinds, lives and limits."""

import time

from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.pika_sync.kit import (
    PERSISTENT,
    Consumer,
    arrived,
    channel,
    connected,
    declared,
    drained,
    get,
    publish,
    ready,
    refused,
    scenario,
    unused,
)
from tests.outside.matrix.scenario import eventually


@scenario
def declaring_again_tells_messages_and_consumers(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, "a", "b", "c")
        eventually(lambda: ready(opened, queue) == 3, "three are ready")
        Consumer(opened, queue)
        found = opened.queue_declare(queue, passive=True).method
        assert found.consumer_count == 1, found
        assert found.queue == queue


@scenario
def a_durable_queue_outlives_its_connection_and_an_exclusive_one_does_not(address: Address) -> None:
    kept, transient, lost = unused(), unused(), unused()
    with channel(address) as opened:
        opened.queue_declare(kept, durable=True)
        opened.queue_declare(transient)
        opened.queue_declare(lost, exclusive=True)
        opened.confirm_delivery()
        publish(opened, kept, "still here", delivery_mode=PERSISTENT)
        publish(opened, transient, "here too")
    with connected(address) as connection:
        opened = connection.channel()
        assert drained(opened, kept) == [b"still here"]
        assert drained(opened, transient) == [b"here too"]
        opened.queue_delete(kept)
        opened.queue_delete(transient)
        with refused(404, f"NOT_FOUND - no queue '{lost}' in vhost '/'"):
            opened.queue_declare(lost, passive=True)


@scenario
def the_broker_names_a_queue(address: Address) -> None:
    with connected(address) as connection:
        opened, other = connection.channel(), connection.channel()
        names = [opened.queue_declare("", exclusive=True).method.queue for _ in range(3)]
        assert len({*names}) == 3
        assert all(name.startswith("amq.gen-") for name in names), names
        opened.queue_declare(names[0], passive=True)
        with refused(403, f"ACCESS_REFUSED - queue name '{names[0]}' contains reserved prefix"):
            connection.channel().queue_declare(names[0], exclusive=True)
        # No name is the last one declared on this channel, passively too.
        publish(opened, names[0], "to the last")
        eventually(lambda: get(opened, ""), "the message of the last queue declared")
        with refused(404, "NOT_FOUND - no previously declared queue"):
            other.queue_purge("")


@scenario
def an_exclusive_queue_is_locked_for_others(address: Address) -> None:
    with channel(address) as opened, connected(address) as connection:
        queue = declared(opened)
        text = f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}'"
        with refused(405, text):
            connection.channel().queue_declare(queue, exclusive=True)
        with refused(405, text):
            connection.channel().queue_declare(queue, passive=True)
        with refused(405, text):
            connection.channel().queue_delete(queue)
        with refused(405, text):
            Consumer(connection.channel(), queue)
        publish(connection.channel(), queue, "publishing is free")
        arrived(opened, queue, 1)


@scenario
def an_auto_delete_queue_goes_with_its_last_consumer(address: Address) -> None:
    with connected(address) as connection:
        opened, other = connection.channel(), connection.channel()
        queue = declared(opened, exclusive=False, auto_delete=True)
        one, two = Consumer(opened, queue), Consumer(other, queue)
        opened.basic_cancel(one.tag)
        opened.queue_declare(queue, passive=True)
        other.basic_cancel(two.tag)
        with refused(404):
            opened.queue_declare(queue, passive=True)


@scenario
def an_inequivalent_declaration_is_refused(address: Address) -> None:
    with connected(address) as connection:
        queue = declared(connection.channel(), exclusive=False, durable=True, max_length=5)
        with refused(406, f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{queue}' in"
                     " vhost '/': received 'false' but current is 'true'"):  # fmt: skip
            declared(connection.channel(), queue, exclusive=False, max_length=5)
        with refused(406, "inequivalent arg 'x-max-length'", "received '6' but current is '5'"):
            declared(connection.channel(), queue, exclusive=False, durable=True, max_length=6)
        assert declared(connection.channel(), queue, exclusive=False, durable=True, max_length=5)
        connection.channel().queue_delete(queue)


@scenario
def a_queue_in_use_or_with_messages_is_deleted_only_when_asked_so(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        queue = declared(opened)
        publish(opened, queue, "one")
        eventually(lambda: ready(opened, queue) == 1, "it is there")
        with refused(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"):
            connection.channel().queue_delete(queue, if_empty=True)
        Consumer(opened, queue)
        with refused(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"):
            connection.channel().queue_delete(queue, if_unused=True)
        assert connection.channel().queue_delete(queue).method.message_count in (0, 1)


@scenario
def deleting_tells_the_messages_and_a_queue_that_is_not_there_is_no_error(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, "a", "b")
        eventually(lambda: ready(opened, queue) == 2, "two are ready")
        assert opened.queue_delete(queue).method.message_count == 2
        assert opened.queue_delete(queue).method.message_count == 0


@scenario
def a_purge_takes_what_is_ready_and_leaves_what_is_handed_out(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, "a", "b", "c")
        arrived_first = get_when_there(opened, queue)
        eventually(lambda: ready(opened, queue) == 2, "two are left")
        assert opened.queue_purge(queue).method.message_count == 2
        opened.basic_nack(arrived_first, requeue=True)
        eventually(lambda: drained(opened, queue) == [b"a"], "the one that was handed out")


def get_when_there(opened: object, queue: str) -> int:
    """Take one message, unacknowledged; its tag."""
    tags: list[int] = []

    def _take() -> bool:
        message = get(opened, queue, auto_ack=False)
        if message is not None:
            tags.append(message.method.delivery_tag)
        return message is not None

    eventually(_take, "a message")
    return tags[0]


@scenario
def messages_are_in_order(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        sent = [str(number).encode() for number in range(500)]
        publish(opened, queue, *sent)
        assert [message.body for message in arrived(opened, queue, 500)] == sent


@scenario
def a_queues_ttl_takes_messages_away(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, message_ttl=200)
        publish(opened, queue, "old")
        eventually(lambda: ready(opened, queue) == 1, "it is there")
        time.sleep(0.5)
        assert get(opened, queue) is None
        publish(opened, queue, "new")
        assert arrived(opened, queue, 1)[0].body == b"new"


@scenario
def a_ttl_of_zero_is_for_who_waits_already(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, message_ttl=0)
        publish(opened, queue, "nobody waits")
        time.sleep(0.2)
        assert get(opened, queue) is None
        consumer = Consumer(opened, queue, auto_ack=True)
        publish(opened, queue, "somebody waits")
        assert consumer.wait(1)[0].body == b"somebody waits"


@scenario
def a_messages_own_expiration_holds_where_it_is_shorter(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, message_ttl=60_000)
        publish(opened, queue, "brief", expiration="200")
        publish(opened, queue, "lasting", expiration="90000")
        time.sleep(0.6)
        found = arrived(opened, queue, 1)[0]
        assert found.body == b"lasting"
        assert found.properties.expiration == "90000"
        short = declared(opened, message_ttl=200)
        publish(opened, short, "brief all the same", expiration="60000")
        time.sleep(0.6)
        assert get(opened, short) is None


@scenario
def an_expired_message_leaves_when_it_comes_to_the_head(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, "stays")
        publish(opened, queue, "goes", expiration="100")
        time.sleep(0.4)
        assert drained(opened, queue) == [b"stays"]


@scenario
def an_expiration_that_is_no_number_is_refused(address: Address) -> None:
    with channel(address) as opened, refused(406, "PRECONDITION_FAILED - invalid expiration"):
        publish(opened, declared(opened), "never", expiration="soon")
        opened.queue_declare(unused(), passive=True)


@scenario
def an_unused_queue_expires(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        queue = declared(opened, exclusive=False, expires=700)
        consumer = Consumer(opened, queue)
        connection.process_data_events(1.5)
        # Used, it stays however long.
        assert connection.channel().queue_declare(queue, passive=True)
        opened.basic_cancel(consumer.tag)
        time.sleep(2.5)
        with refused(404):
            connection.channel().queue_declare(queue, passive=True)


@scenario
def a_full_queue_drops_its_head(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, max_length=3)
        opened.confirm_delivery()
        publish(opened, queue, *"abcde")
        assert drained(opened, queue) == [b"c", b"d", b"e"]


@scenario
def a_queue_full_of_bytes_drops_its_head(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, max_length_bytes=10)
        opened.confirm_delivery()
        publish(opened, queue, "12345", "67890", "abc")
        assert drained(opened, queue) == [b"67890", b"abc"]
        publish(opened, queue, "more than the queue holds")
        assert drained(opened, queue) == []


@scenario
def handed_out_messages_do_not_count_for_the_limit(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, max_length=2)
        opened.confirm_delivery()
        publish(opened, queue, "a", "b")
        assert get(opened, queue, auto_ack=False)
        publish(opened, queue, "c")
        assert drained(opened, queue) == [b"b", b"c"]


@scenario
def priorities_go_first_and_in_order_within(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, max_priority=5)
        opened.confirm_delivery()
        for body, priority in (("a", 1), ("b", 5), ("c", 1), ("d", 5), ("e", None), ("f", 200)):
            publish(opened, queue, body, priority=priority)
        found = arrived(opened, queue, 6)
        assert [message.body for message in found] == [b"b", b"d", b"f", b"a", b"c", b"e"]
        assert found[2].properties.priority == 200, "it is told as it was sent"


@scenario
def a_lazy_queue_is_as_any_other(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, queue_mode="lazy")
        publish(opened, queue, "a", "b")
        assert [message.body for message in arrived(opened, queue, 2)] == [b"a", b"b"]


@scenario
def arguments_nobody_knows_are_kept_out_of_the_way(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, nobody_knows_this=[1, {"a": None}])
        publish(opened, queue, "a")
        arrived(opened, queue, 1)


@scenario
def names_may_be_of_any_letters(address: Address) -> None:
    with channel(address) as opened:
        for name in ("größe", "a|b{c}", "with space", "名前", "x" * 200, "a/b#c*d"):
            queue = opened.queue_declare(f"{name}{unused('')}", exclusive=True).method.queue
            publish(opened, queue, "there")
            assert arrived(opened, queue, 1)[0].method.routing_key == queue


@scenario
def a_reserved_name_is_refused(address: Address) -> None:
    with channel(address) as opened:
        text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
        with refused(403, text):
            opened.queue_declare("amq.mine")


@scenario
def a_deleted_queue_is_gone_for_who_gets_and_who_publishes(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        queue = declared(opened)
        opened.queue_delete(queue)
        publish(opened, queue, "nobody's")
        with refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
            opened.basic_get(queue)
