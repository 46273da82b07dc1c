"""Consuming: prefetch, acknowledgements, order, cancellation and who is served."""

from pika.spec import Basic

from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.pika_sync.kit import (
    Consumer,
    arrived,
    channel,
    connected,
    declared,
    disconnected,
    drained,
    get,
    publish,
    ready,
    refused,
    scenario,
)
from tests.outside.matrix.scenario import eventually


@scenario
def getting_tells_what_is_left(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        assert get(opened, queue) is None
        publish(opened, queue, "a", "b", "c")
        eventually(lambda: ready(opened, queue) == 3, "three are ready")
        message = get(opened, queue)
        assert message is not None
        assert (message.method.message_count, message.method.redelivered) == (2, False)
        assert (message.method.exchange, message.method.routing_key) == ("", queue)


@scenario
def a_consumer_gets_what_is_there_and_what_comes(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, "a")
        consumer = Consumer(opened, queue, consumer_tag="mine")
        publish(opened, queue, "b")
        consumer.wait(2)
        assert consumer.bodies == [b"a", b"b"]
        assert [message.method.delivery_tag for message in consumer.got] == [1, 2]
        assert {message.method.consumer_tag for message in consumer.got} == {"mine"}


@scenario
def the_broker_names_a_consumer(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        found = opened._impl  # pika makes up tags: an empty one goes past it.
        tags: list[str] = []
        found._rpc(
            Basic.Consume(queue=queue, consumer_tag="", no_ack=True),
            lambda frame: tags.append(frame.method.consumer_tag),
            [Basic.ConsumeOk],
        )

        def _came() -> bool:
            opened.connection.process_data_events(0.02)
            return bool(tags)

        eventually(_came, "a tag")
        assert tags[0].startswith("amq.ctag-"), tags


@scenario
def prefetch_bounds_what_a_consumer_holds(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, *map(str, range(10)))
        opened.basic_qos(prefetch_count=3)
        consumer = Consumer(opened, queue)
        consumer.wait(3)
        assert len(consumer.settle()) == 3
        opened.basic_ack(2, multiple=True)
        consumer.wait(5)
        assert len(consumer.settle()) == 5
        opened.basic_nack(0, multiple=True, requeue=False)
        consumer.wait(8)
        assert len(consumer.settle()) == 8


@scenario
def prefetch_is_for_each_consumer_and_for_those_that_come_after(address: Address) -> None:
    with channel(address) as opened:
        first, second, third = (declared(opened) for _ in range(3))
        opened.basic_qos(prefetch_count=2)
        one = Consumer(opened, first)
        opened.basic_qos(prefetch_count=4)
        two = Consumer(opened, second)
        opened.basic_qos(prefetch_count=0)
        three = Consumer(opened, third)
        for queue in (first, second, third):
            publish(opened, queue, *map(str, range(10)))
        three.wait(10)
        two.settle()
        assert [len(consumer.got) for consumer in (one, two, three)] == [2, 4, 10]


@scenario
def global_prefetch_is_for_the_whole_channel(address: Address) -> None:
    with channel(address) as opened:
        first, second = declared(opened), declared(opened)
        for queue in (first, second):
            publish(opened, queue, *map(str, range(10)))
        opened.basic_qos(prefetch_count=3, global_qos=True)
        one, two = Consumer(opened, first), Consumer(opened, second)

        def _count() -> int:
            return len(one.got) + len(two.got)

        one.wait(1)
        one.settle()
        assert _count() == 3
        opened.basic_ack(0, multiple=True)
        one.settle()
        assert _count() == 6


@scenario
def automatic_acknowledgements_know_no_prefetch(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        opened.basic_qos(prefetch_count=1)
        publish(opened, queue, *map(str, range(20)))
        consumer = Consumer(opened, queue, auto_ack=True)
        consumer.wait(20)
        assert ready(opened, queue) == 0


@scenario
def consumers_of_a_queue_take_turns(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        consumers = [Consumer(opened, queue) for _ in range(3)]
        publish(opened, queue, *map(str, range(30)))

        def _all_came() -> bool:
            opened.connection.process_data_events(0.05)
            return sum(len(consumer.got) for consumer in consumers) == 30

        eventually(_all_came, "thirty deliveries")
        assert [len(consumer.got) for consumer in consumers] == [10, 10, 10]


@scenario
def a_consumers_priority_goes_first(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        opened.basic_qos(prefetch_count=2)
        low = Consumer(opened, queue)
        high = Consumer(opened, queue, arguments={"x-priority": 10})
        publish(opened, queue, "a", "b", "c")
        high.wait(2)
        low.wait(1)
        assert high.bodies == [b"a", b"b"]
        assert low.bodies == [b"c"]
        opened.basic_ack(high.got[0].method.delivery_tag)
        publish(opened, queue, "d")
        high.wait(3)


@scenario
def an_exclusive_consumer_is_alone(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        queue = declared(opened)
        alone = Consumer(opened, queue, exclusive=True)
        text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
        with refused(403, text):
            Consumer(connection.channel(), queue)
        opened.basic_cancel(alone.tag)
        beside = Consumer(opened, queue)
        with refused(403, text):
            Consumer(connection.channel(), queue, exclusive=True)
        opened.basic_cancel(beside.tag)


@scenario
def one_consumer_is_active_and_the_next_follows_it(address: Address) -> None:
    with connected(address) as connection:
        first, second = connection.channel(), connection.channel()
        queue = declared(first, single_active_consumer=True)
        one, two = Consumer(first, queue), Consumer(second, queue)
        publish(first, queue, "a", "b")
        one.wait(2)
        assert two.settle() == []
        first.basic_ack(0, multiple=True)
        first.basic_cancel(one.tag)
        publish(first, queue, "c")
        assert two.wait(1)[0].body == b"c"
        assert one.bodies == [b"a", b"b"]


@scenario
def a_cancelled_consumer_gets_nothing_more_and_keeps_what_it_has(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        opened.basic_qos(prefetch_count=1)
        publish(opened, queue, "a", "b")
        consumer = Consumer(opened, queue)
        consumer.wait(1)
        opened.basic_cancel(consumer.tag)
        opened.basic_ack(1)
        assert len(consumer.settle()) == 1
        assert drained(opened, queue) == [b"b"]


@scenario
def cancelling_what_does_not_consume_is_no_error(address: Address) -> None:
    with channel(address) as opened:
        done: list[str] = []
        opened._impl._rpc(
            Basic.Cancel(consumer_tag="nobody"),
            lambda frame: done.append(frame.method.consumer_tag),
            [Basic.CancelOk],
        )

        def _came() -> bool:
            opened.connection.process_data_events(0.02)
            return bool(done)

        eventually(_came, "its cancel-ok")
        assert done == ["nobody"]


@scenario
def a_consumer_is_told_when_its_queue_is_deleted(address: Address) -> None:
    with connected(address) as connection:
        opened, other = connection.channel(), connection.channel()
        queue = declared(opened)
        told: list[str] = []
        opened.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
        consumer = Consumer(opened, queue)
        other.queue_delete(queue)

        def _told() -> bool:
            connection.process_data_events(0.02)
            return bool(told)

        eventually(_told, "a cancel")
        assert told == [consumer.tag]
        assert opened.is_open


@scenario
def a_rejected_message_comes_again_at_its_place(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, *"abcd")
        tags = []
        for _ in range(3):
            eventually(lambda: ready(opened, queue) > 0, "one is ready")
            message = get(opened, queue, auto_ack=False)
            assert message is not None
            tags.append(message.method.delivery_tag)
        opened.basic_reject(tags[1], requeue=True)
        opened.basic_nack(tags[0], requeue=True)
        found = arrived(opened, queue, 3)
        assert [message.body for message in found] == [b"a", b"b", b"d"]
        assert [message.method.redelivered for message in found] == [True, True, False]
        opened.basic_reject(tags[2], requeue=False)
        assert ready(opened, queue) == 0


@scenario
def a_nack_of_many_brings_all_back_in_order(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, *map(str, range(20)))
        consumer = Consumer(opened, queue)
        consumer.wait(20)
        opened.basic_cancel(consumer.tag)
        opened.basic_nack(20, multiple=True, requeue=True)
        found = arrived(opened, queue, 20)
        assert [int(message.body) for message in found] == [*range(20)]
        assert all(message.method.redelivered for message in found)


@scenario
def what_a_closed_channel_held_comes_again_in_order(address: Address) -> None:
    with connected(address) as connection:
        opened, other = connection.channel(), connection.channel()
        queue = declared(opened)
        publish(opened, queue, *map(str, range(10)))
        consumer = Consumer(opened, queue)
        consumer.wait(10)
        opened.basic_ack(4)
        opened.close()
        found = arrived(other, queue, 9)
        assert [int(message.body) for message in found] == [0, 1, 2, *range(4, 10)]
        assert all(message.method.redelivered for message in found)


@scenario
def recovering_brings_all_back_as_redelivered(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, "a", "b")
        consumer = Consumer(opened, queue)
        consumer.wait(2)
        opened.basic_recover(requeue=True)
        consumer.wait(4)
        assert consumer.bodies == [b"a", b"b", b"a", b"b"]
        again = [message.method.redelivered for message in consumer.got]
        assert again == [False, False, True, True]


@scenario
def recovering_without_requeue_is_not_implemented(address: Address) -> None:
    with connected(address) as connection, disconnected(540, "NOT_IMPLEMENTED - requeue=false"):
        connection.channel().basic_recover(requeue=False)


@scenario
def a_prefetch_in_bytes_is_not_implemented(address: Address) -> None:
    with connected(address) as connection, disconnected(540, "NOT_IMPLEMENTED - prefetch_size!=0"):
        connection.channel().basic_qos(prefetch_size=10)


@scenario
def an_unknown_tag_closes_the_channel(address: Address) -> None:
    with connected(address) as connection:
        for settle in ("basic_ack", "basic_nack", "basic_reject"):
            opened = connection.channel()
            with refused(406, "PRECONDITION_FAILED - unknown delivery tag 99"):
                getattr(opened, settle)(99)
                opened.queue_declare("", exclusive=True)


@scenario
def acknowledging_twice_closes_the_channel(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        publish(opened, queue, "a")
        Consumer(opened, queue).wait(1)
        opened.basic_ack(1)
        with refused(406, "PRECONDITION_FAILED - unknown delivery tag 1"):
            opened.basic_ack(1)
            opened.queue_declare(queue, passive=True)


@scenario
def acknowledging_all_that_is_none_is_no_error(address: Address) -> None:
    with channel(address) as opened:
        opened.basic_ack(0, multiple=True)
        assert declared(opened)
