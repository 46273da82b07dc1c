"""Messages of RocketMQ producers in Spark: both copies of one whose answer was lost."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.testing import BrokerThread
from tests.broker.frontends.rocketmq.test_remoting_lost_answers import (
    sent_with_a_lost_answer,
    unique_keys_of,
)
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import SETTINGS, made, port_of


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(SETTINGS) as running:
        yield running


def test_a_message_whose_answer_is_lost_has_two_rows_with_one_unique_key(
    spark: SparkSession, broker: BrokerThread
) -> None:
    with RemotingClient(port_of(broker)) as client:
        topic = made(client, "lost-answer")
    sent_with_a_lost_answer(broker, topic)
    options = {
        "kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic,
        "startingOffsets": "earliest", "includeHeaders": "true",
    }  # fmt: skip
    rows = spark.read.format("headrace").options(**options).load().orderBy("offset").collect()
    found = [(row["offset"], bytes(row["key"]), bytes(row["value"])) for row in rows]
    assert found == [(0, b"order-1", b"once"), (1, b"order-1", b"once")]
    keys = [unique_keys_of([(each["key"], bytes(each["value"])) for each in row["headers"]])
            for row in rows]  # fmt: skip
    assert keys == [[b"7F0000011EBC4E0E2F2A8D3F66750000"]] * 2
