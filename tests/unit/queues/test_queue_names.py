"""Queues' topics: names Kafka takes, one for each queue, and back."""

from headrace.model.nouns import topic_name_problem
from headrace.queues.queue_names import QueueName, is_queue_topic, queue_of_topic, queue_topic


def test_a_plain_name_can_be_read_in_its_topic() -> None:
    assert queue_topic("/", "orders") == "__amqp.queue.orders"
    assert queue_topic("/", "my_orders.eu-1") == "__amqp.queue.my__orders.eu-1"
    assert queue_topic("shop", "orders") == "__amqp.vhost.shop.orders"
    assert queue_topic("a.b", "c") == "__amqp.vhost.a_2eb.c"
    assert queue_topic("/", "celery@ä") == "__amqp.queue.celery_40_c3_a4"


def test_a_topic_tells_its_queue() -> None:
    for name in (("/", "a_b.c"), ("a.b", "c.d"), ("", ""), ("v", ""), ("/", "ä\n\udcff")):
        assert queue_of_topic(queue_topic(*name)) == QueueName(*name)


def test_a_long_name_is_a_hash_that_kafka_takes() -> None:
    longest = queue_topic("/", "q" * 236)
    assert len(longest) == 249
    assert queue_of_topic(longest) == ("/", "q" * 236)
    hashed = queue_topic("/", "q" * 237)
    assert hashed.startswith("__amqp.hash.")
    assert topic_name_problem(hashed) is None
    assert queue_of_topic(hashed) is None
    assert hashed != queue_topic("/", "q" * 238)


def test_the_ends_of_vhost_and_queue_tell_hashes_apart() -> None:
    assert queue_topic("a" * 200, "b" * 200) != queue_topic("a" * 201, "b" * 199)
    assert queue_topic("a" * 200, "a" * 200) != queue_topic("a" * 201, "a" * 199)


def test_what_is_no_queues_name_names_none() -> None:
    for topic in (
        "orders",
        "__amqp.queue._41",
        "__amqp.queue.a_",
        "__amqp.vhost._2f.a",
        "__amqp.x",
    ):
        assert queue_of_topic(topic) is None


def test_the_prefix_is_kept_for_queues() -> None:
    assert is_queue_topic("__amqp.anything")
    assert not is_queue_topic("__amqp")
    assert not is_queue_topic("amqp.queue.a")
