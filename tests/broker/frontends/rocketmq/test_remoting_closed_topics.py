"""Messages that wait are closed to all clients: those of Kafka, AMQP and RocketMQ, and tools.

No ACL opens them: half messages are undecided, and delayed ones are not due.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headrace.frontends.rocketmq.held.held_topics import DELAYS_TOPIC, HALF_TOPIC
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.protocols import ROCKETMQ_TOPICS
from headrace.queues.model.exchange_topic import TOPIC, exchange_topic
from headrace.queues.refusals import Refused
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import SETTINGS, code, log_records, port_of

WAITING = "DELAY\x0110\x02", "TRAN_MSG\x01true\x02PGROUP\x01PG\x02"


@pytest.fixture(scope="module")
def holding() -> Iterator[BrokerThread]:
    """A broker with a delayed and an undecided message."""
    with BrokerThread(SETTINGS) as broker:
        with RemotingClient(port_of(broker)) as client:
            for properties in WAITING:
                assert code(client.send("t", b"waits", i=properties)) is ResponseCode.SUCCESS
        yield broker


def test_the_row_names_the_topics_of_held_messages() -> None:
    assert ROCKETMQ_TOPICS.closed == {DELAYS_TOPIC, HALF_TOPIC}


@pytest.mark.parametrize("topic", [DELAYS_TOPIC, HALF_TOPIC])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_kafka_consumers_do_not_read_held_messages(
    holding: BrokerThread, topic: str, isolation: str
) -> None:
    consumer = Consumer(
        {"bootstrap.servers": holding.bootstrap, "group.id": "g", "isolation.level": isolation}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.poll(20)
    assert found is not None
    error = found.error()
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer.close()


@pytest.mark.parametrize("topic", [DELAYS_TOPIC, HALF_TOPIC])
def test_kafka_producers_do_not_write_held_messages(holding: BrokerThread, topic: str) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": holding.bootstrap})
    before = len(log_records(holding, topic))
    producer.produce(topic, b"forged", key=b"k" * 24, on_delivery=lambda e, _: errors.append(e))
    producer.flush(20)
    (error,) = errors
    assert error is not None
    assert error.code() == KafkaError.TOPIC_EXCEPTION
    transactional = Producer(
        {"bootstrap.servers": holding.bootstrap, "transactional.id": f"tx-{topic}"}
    )
    transactional.init_transactions(20)
    transactional.begin_transaction()
    transactional.produce(topic, b"forged", key=b"k" * 24)
    with pytest.raises(KafkaException):
        transactional.commit_transaction(20)
    transactional.abort_transaction(20)
    values = [record.value for record in log_records(holding, topic)]
    assert b"forged" not in values
    assert before == 1


@pytest.mark.parametrize("topic", [DELAYS_TOPIC, HALF_TOPIC])
def test_exchanges_and_streams_of_amqp_are_not_bound_to_held_messages(topic: str) -> None:
    with pytest.raises(Refused, match="the broker's own"):
        exchange_topic({TOPIC: topic}, "exchange 'e'")


def test_tools_and_rocketmq_clients_do_not_read_held_messages(holding: BrokerThread) -> None:
    for topic in (DELAYS_TOPIC, HALF_TOPIC):
        with pytest.raises(ApiError) as refused:
            holding.records(topic)
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with RemotingClient(port_of(holding)) as client:
            assert code(client.pull(topic)) is ResponseCode.INVALID_PARAMETER
            route = client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            assert code(route) is not ResponseCode.SUCCESS
            for name in ("RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"):
                assert code(client.pull(name)) is ResponseCode.TOPIC_NOT_EXIST
