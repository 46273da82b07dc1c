"""Delays, retries and transactions of RocketMQ: pulls, Kafka's consumers and Spark show one sum."""

import time
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.topic_names import kafka_name
from tests.crash.remoting_kill_loop import COMMIT, ROLLBACK, consumed, pulled
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import SETTINGS, code, fields, port_of

DEAD, RETRIED = "%DLQ%CG", "%RETRY%CG"
EXPECTED = {
    "plain": [b"dead", b"plain", b"retried"],
    "delayed": [b"due 0", b"due 1", b"due 2"],
    "decided": [b"committed 0", b"committed 1"],
    DEAD: [b"dead"],
    RETRIED: [b"retried"],
}
HELD = ("__rocketmq.delays", "__rocketmq.half")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """A broker to which messages of all kinds were sent; those that are due are delivered."""
    with BrokerThread(SETTINGS) as running:
        with RemotingClient(port_of(running)) as client:
            sent_to(client)
        yield running


def sent_to(client: RemotingClient) -> None:
    """Send messages of all kinds; wait until each is where it should be."""
    places = {
        body: int(fields(client.send("plain", body))["msgId"][-16:], 16)
        for body in EXPECTED["plain"]
    }
    for body, level in ((b"dead", -1), (b"retried", 1)):
        named = {"group": "CG", "offset": places[body], "delayLevel": level}
        back = client.call(RequestCode.CONSUMER_SEND_MSG_BACK, named)
        assert code(back) is ResponseCode.SUCCESS
    for number, body in enumerate(EXPECTED["delayed"]):
        client.send("delayed", body, i=f"UNIQ_KEY\x01{number}\x02TIMER_DELAY_MS\x01{number * 50}")
    client.send("delayed", b"never due here", i="UNIQ_KEY\x01n\x02TIMER_DELAY_MS\x013600000\x02")
    bodies = [*EXPECTED["decided"], b"rolled back", b"undecided"]
    for number, body in enumerate(bodies):
        half = f"UNIQ_KEY\x01h{number}\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02"
        place = int(fields(client.send("decided", body, i=half))["msgId"][-16:], 16)
        decision = {b"rolled back": ROLLBACK, b"undecided": 0}.get(body, COMMIT)
        named = {"producerGroup": "PG", "commitLogOffset": place, "commitOrRollback": decision}
        assert code(client.call(RequestCode.END_TRANSACTION, named)) is ResponseCode.SUCCESS
    deadline = time.monotonic() + 30
    while any(len(pulled(client, topic)) < len(EXPECTED[topic]) for topic in EXPECTED):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("topic", EXPECTED)
def test_pulls_kafka_consumers_and_spark_read_the_same_messages(
    spark: SparkSession, broker: BrokerThread, topic: str
) -> None:
    with RemotingClient(port_of(broker)) as client:
        by_pull = sorted(message.body for message in pulled(client, topic))
    by_kafka = sorted(consumed(int(broker.bootstrap.rpartition(":")[2]), kafka_name(topic)))
    reader = spark.read.format("headrace").option("kafka.bootstrap.servers", broker.bootstrap)
    rows = reader.option("subscribe", kafka_name(topic)).load().select("value").collect()
    by_spark = sorted(bytes(row["value"]) for row in rows)
    assert by_pull == by_kafka == by_spark == EXPECTED[topic]


@pytest.mark.parametrize("topic", HELD)
def test_spark_does_not_read_messages_that_wait(
    spark: SparkSession, broker: BrokerThread, topic: str
) -> None:
    reader = spark.read.format("headrace").option("kafka.bootstrap.servers", broker.bootstrap)
    with pytest.raises(PySparkException, match="TOPIC_AUTHORIZATION_FAILED"):
        reader.option("subscribe", topic).load().select("value").collect()
