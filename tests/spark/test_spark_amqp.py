"""What pika publishes to a queue and to an exchange with a topic, with its properties in Spark.

The broker is one of these tests' own: that of the others has no listener of AMQP.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row, SparkSession

from headrace.queues.model.exchange_topic import KEY_HEADER, TOPIC
from headrace.testing import BrokerThread
from tests.support.amqp.topics import CONFIG, SECONDS, confirming, connected, create
from tests.support.queues.records import NOTHING

QUEUE = "__amqp.queue.orders"
"""The topic of the durable queue `orders`."""
AT = 1_700_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(CONFIG) as running:
        yield running


@pytest.fixture
def channel(broker: BrokerThread) -> Iterator[Any]:
    with connected(broker) as connection:
        yield confirming(connection)


def options(broker: BrokerThread, topic: str, **more: str) -> dict[str, str]:
    needed = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    return needed | {"startingOffsets": "earliest", "includeAmqp": "true"} | more


def read(spark: SparkSession, broker: BrokerThread, topic: str, **more: str) -> DataFrame:
    return spark.read.format("headrace").options(**options(broker, topic, **more)).load()


def rows_of(frame: DataFrame) -> list[tuple[bytes, dict[str, Any] | None]]:
    """Value and column of each row, in the order of their values."""
    rows = frame.select("value", "amqp").orderBy("value").collect()
    return [(bytes(row["value"]), known(row["amqp"])) for row in rows]


def known(amqp: Row | None) -> dict[str, Any] | None:
    """The column as a dict, its time in UTC."""
    if amqp is None:
        return None
    at = amqp["timestamp"]
    return amqp.asDict() | {"timestamp": at and at.astimezone(UTC)}


def stream(
    spark: SparkSession, broker: BrokerThread, topic: str, path: Path, **more: str
) -> DataFrame:
    """What a streaming query has written so far, that has just taken what is there."""
    reader = spark.readStream.format("headrace").options(**options(broker, topic, **more))
    writer = reader.load().writeStream.option("checkpointLocation", str(path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(path / "rows"), format="parquet")
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return spark.read.parquet(str(path / "rows"))


def described(**properties: Any) -> pika.BasicProperties:
    return pika.BasicProperties(delivery_mode=2, **properties)


def test_a_durable_queue_is_read_with_its_properties_by_batch_and_by_stream(
    spark: SparkSession, broker: BrokerThread, channel: Any, tmp_path: Path
) -> None:
    channel.queue_declare("orders", durable=True)
    headers = {"n": 7, "name": "Zoë", "none": None, "list": [1, {"a": "b"}]}
    properties = described(
        content_type="text/plain", headers=headers, priority=3, correlation_id="c", type="order",
        message_id="m", timestamp=AT, app_id="till", reply_to="answers", user_id="guest",
        content_encoding="utf-8", expiration="3600000",
    )  # fmt: skip
    channel.basic_publish("", "orders", b"1", properties)
    channel.basic_publish("", "orders", b"2", described())
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
    producer.produce(QUEUE, b"3", key=b"\xff")
    assert producer.flush(SECONDS) == 0
    plain = NOTHING | {"exchange": "", "routing_key": "orders", "delivery_mode": 2}
    first = plain | {
        "content_type": "text/plain", "content_encoding": "utf-8", "priority": 3,
        "headers": {"n": "7", "name": "Zoë", "none": None, "list": '[1,{"a":"b"}]'},
        "correlation_id": "c", "reply_to": "answers", "expiration": "3600000", "message_id": "m",
        "type": "order", "user_id": "guest", "app_id": "till",
        "timestamp": datetime.fromtimestamp(AT, UTC),
    }  # fmt: skip
    frame = read(spark, broker, QUEUE)
    assert frame.columns[-1] == "amqp"
    for found in (frame, stream(spark, broker, QUEUE, tmp_path)):
        assert rows_of(found) == [(b"1", first), (b"2", plain), (b"3", None)]
    wanted = frame.where("amqp.headers['n'] = '7'").select("amqp.routing_key", "amqp.type")
    assert [tuple(row) for row in wanted.collect()] == [("orders", "order")]

    channel.basic_publish("", "orders", b"4", described(type="later"))
    assert rows_of(stream(spark, broker, QUEUE, tmp_path))[3] == (b"4", plain | {"type": "later"})


@pytest.mark.parametrize("compression", ["producer", "zstd"])
def test_an_exchanges_topic_is_read_with_routing_keys_in_splits_and_compressed(
    spark: SparkSession, broker: BrokerThread, channel: Any, tmp_path: Path, compression: str
) -> None:
    topic, shop = f"sold-{compression}", f"shop-{compression}"
    create(broker, topic, 2, compression_type=compression)
    arguments = {TOPIC: topic, KEY_HEADER: "customer"}
    channel.exchange_declare(shop, durable=True, arguments=arguments)
    wanted = []
    for number in range(60):
        headers = {"customer": f"c{number % 7}"}
        properties = described(headers=headers, message_id=f"m{number}")
        channel.basic_publish(shop, f"eu.{number % 3}", b"%02d" % number, properties)
        place = {"exchange": shop, "routing_key": f"eu.{number % 3}", "delivery_mode": 2}
        row = NOTHING | place | {"headers": headers, "message_id": f"m{number}"}
        wanted.append((b"%02d" % number, row))
    split = {"maxRecordsPerPartition": "7", "columns": "amqp,value,key"}
    frame = read(spark, broker, topic, **split)
    assert frame.columns == ["amqp", "value", "key"]
    assert frame.rdd.getNumPartitions() >= 9
    assert rows_of(frame) == wanted
    assert {bytes(row["key"]) for row in frame.collect()} == {b"c%d" % at for at in range(7)}
    assert rows_of(stream(spark, broker, topic, tmp_path, maxOffsetsPerTrigger="25")) == wanted
