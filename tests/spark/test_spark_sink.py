"""`format("headrace")` as a sink, on real Spark: what was written, once, and what is refused."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

from headrace.client.producer import transactions
from headrace.client.sync import connect, run
from headrace.record.key_partition import partition_of
from tests.spark.kit import TIME_MS, Topics
from tests.spark.long import long_only
from tests.spark.sink_kit import committed_rows, numbers_of, sink_of

NOW = datetime.fromtimestamp(TIME_MS / 1000, UTC)
"""Within the broker's retention."""


def read_by_librdkafka(bootstrap: str, topic: str, count: int) -> list[Any]:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"g-{topic}",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found = []
    for _ in range(60):
        found += [one for one in consumer.consume(count, 1) if one.error() is None]
        if len(found) >= count:
            break
    consumer.close()
    return found


@pytest.mark.parametrize(
    ("delivery", "codec"),
    [
        ("exactly_once", "lz4"),
        pytest.param("exactly_once", "none", marks=long_only),
        pytest.param("exactly_once", "zstd", marks=long_only),
        pytest.param("at_least_once", "none", marks=long_only),
        pytest.param("at_least_once", "lz4", marks=long_only),
        pytest.param("at_least_once", "zstd", marks=long_only),
    ],
)
def test_every_column_arrives_as_a_stock_client_reads_it(
    spark: SparkSession, topics: Topics, delivery: str, codec: str
) -> None:
    topic = topics.create(3)
    rows = [
        (f"k{at}" if at % 5 else None, f"v{at}".encode(), [("h", b"1"), ("n", None)], at % 3, NOW)
        for at in range(100)
    ]
    frame = spark.createDataFrame(
        rows,
        "key string, value binary, headers array<struct<key:string,value:binary>>, partition int,"
        " timestamp timestamp",
    )
    options = {"topic": topic, "delivery": delivery, "kafka.compression.type": codec}
    sink_of(frame.write, topics.bootstrap, f"p-{topic}", **options).mode("append").save()
    found = read_by_librdkafka(topics.bootstrap, topic, 100)
    assert len(found) == 100
    by_value = {message.value(): message for message in found}
    for key, value, _, partition, time in rows:
        message = by_value[value]
        assert message.key() == (None if key is None else key.encode())
        assert message.headers() == [("h", b"1"), ("n", None)]
        assert message.partition() == partition
        assert message.timestamp()[1] == round(time.timestamp() * 1000)


@long_only
def test_keys_go_where_kafkas_clients_put_them_and_topics_by_their_column(
    spark: SparkSession, topics: Topics
) -> None:
    names = [topics.create(4), topics.create(2)]
    frame = spark.range(200).selectExpr(
        f"if(id % 2 = 0, '{names[0]}', '{names[1]}') topic", "concat('k', id) key",
        "string(id) value",
    )  # fmt: skip
    sink_of(frame.write, topics.bootstrap, f"p-{names[0]}").mode("append").save()
    assert numbers_of(topics.bootstrap, *names) == list(range(200))
    for count, name in zip((4, 2), names, strict=True):
        for row in committed_rows(topics.bootstrap, name):
            assert row["partition"] == partition_of(row["key"], count)
            assert (int(row["value"]) % 2 == 0) == (name == names[0])


def test_a_streaming_query_writes_each_batch_once_and_leaves_nothing_open(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.create(2), topics.create(3)
    pipeline = f"p-{target}"

    def run_once() -> Any:
        stream = spark.readStream.format("headrace").options(
            **{"kafka.bootstrap.servers": topics.bootstrap, "subscribe": source,
               "startingOffsets": "earliest", "maxOffsetsPerTrigger": "150"}
        ).load()  # fmt: skip
        writer = sink_of(
            stream.select("key", "value").writeStream, topics.bootstrap, pipeline, topic=target
        )
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        started = query.start()
        started.awaitTermination(120)
        return started

    topics.number(source, 0, 0, 300)
    topics.number(source, 1, 300, 100)
    first = run_once()
    assert first.exception() is None
    assert numbers_of(topics.bootstrap, target) == list(range(400))
    topics.number(source, 1, 400, 50)
    run_once()
    assert numbers_of(topics.bootstrap, target) == list(range(450))
    with connect(topics.bootstrap) as client:
        assert run(transactions.open_ids(client, f"{pipeline}.")) == []


def test_a_failing_task_leaves_nothing_behind_and_its_retry_writes_once(
    spark: SparkSession, topics: Topics
) -> None:
    target = topics.create(2)
    frame = spark.range(0, 100, 1, 4).selectExpr(
        "string(id) value", "if(id = 57, raise_error('no'), 1) x"
    )
    write = sink_of(frame.write, topics.bootstrap, f"p-{target}", topic=target).mode("append")
    with pytest.raises(Exception, match="no"):
        write.save()
    assert committed_rows(topics.bootstrap, target) == []
    good = spark.range(0, 100, 1, 4).selectExpr("string(id) value")
    sink_of(good.write, topics.bootstrap, f"p-{target}", topic=target).mode("append").save()
    assert numbers_of(topics.bootstrap, target) == list(range(100))
    # A task that Spark kills may open its transaction when the job is given up already: the next
    # one aborts it.
    with connect(topics.bootstrap) as client:
        assert run(transactions.open_ids(client, f"p-{target}.")) == []


@long_only
def test_a_batch_write_of_the_same_version_is_written_once(
    spark: SparkSession, topics: Topics
) -> None:
    target = topics.create(2)
    frame = spark.range(10).selectExpr("string(id) value")
    for version in ("3", "3", "2", "4"):
        options = {"topic": target, "txnAppId": f"app-{target}", "txnVersion": version}
        writer = frame.write.format("headrace").options(
            **{"kafka.bootstrap.servers": topics.bootstrap, **options}
        )
        writer.mode("append").save()
    assert numbers_of(topics.bootstrap, target) == sorted([*range(10), *range(10)])


@long_only
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "pipeline: missing"),
        ({"pipeline": "a.b"}, "pipeline: 'a.b' has other signs"),
        ({"pipeline": "p", "kafka.acks": "1"}, "kafka.acks: 1 can lose"),
        ({"pipeline": "p", "delivery": "never"}, "delivery: 'never' is not one of"),
        ({"pipeline": "p", "asyncProgressTrackingEnabled": "true"}, "asyncProgressTracking"),
        ({"pipeline": "p", "txnVersion": "3"}, "txnAppId and txnVersion: give both"),
        ({"pipeline": "p", "colour": "red"}, "colour: no such option"),
        ({"pipeline": "p", "kafka.transactional.id": "x"}, "the sink names its transactions"),
    ],
)
def test_options_are_refused_in_one_sentence(
    spark: SparkSession, topics: Topics, options: dict[str, str], why: str
) -> None:
    frame = spark.range(1).selectExpr("string(id) value")
    given = {"kafka.bootstrap.servers": topics.bootstrap, "topic": "t", **options}
    # Spark hands the names over in lower case.
    with pytest.raises(Exception, match=f"(?i){why}"):
        frame.write.format("headrace").options(**given).mode("append").save()


@long_only
def test_a_column_of_another_type_and_an_unknown_partition_are_refused(
    spark: SparkSession, topics: Topics
) -> None:
    target = topics.create(2)
    for columns, why in (
        ("id value", "value: the column is bigint, and must be string or binary"),
        ("string(id) value, 7 partition", f"partition: 7 is not one of {target}, which has 2"),
        ("id", "value: there is no such column"),
    ):
        frame = spark.range(3).selectExpr(*columns.split(", "))
        with pytest.raises(Exception, match=why):
            sink_of(frame.write, topics.bootstrap, f"p-{target}", topic=target).mode(
                "append"
            ).save()
    assert committed_rows(topics.bootstrap, target) == []


@long_only
def test_a_stream_needs_its_checkpoint_as_an_option(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("string(value) value")
    writer = sink_of(stream.writeStream, topics.bootstrap, "p", topic="t").queryName("q")

    def write() -> None:
        writer.trigger(availableNow=True).start().awaitTermination(60)

    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        with pytest.raises(Exception, match="checkpointLocation: missing"):
            write()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
