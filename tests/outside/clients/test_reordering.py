"""A request that fails once and is sent again: the order, by the producer's settings.

Between producer and broker stands a relay that refuses one Produce request itself, once so many
later ones have gone through.
"""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.model.errors import ErrorCode
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import parse_request, response_head
from headrace.wire.kafka.hot import produce
from tests.support.processes.process import BrokerProcess, free_port

SECONDS_MAX = 20.0


def frame_of(stream: socket.socket) -> bytes:
    """The next frame with its length; empty at the end."""
    head = _exactly(stream, 4)
    return head + _exactly(stream, int.from_bytes(head, "big")) if head else b""


def _exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data


def refusal(frame: bytes) -> bytes:
    """The answer to a Produce request that it failed and may be sent again."""
    view = memoryview(bytearray(frame[4:]))
    header = parse_request(view)
    asked = produce.decode_request(header.version, view[header.body :])
    code = ErrorCode.REQUEST_TIMED_OUT
    topics = [
        produce.TopicResponse(
            topic.name,
            topic.topic_id,
            [produce.PartitionResponse(one.partition, code) for one in topic.partitions],
        )
        for topic in asked.topics
    ]
    body = produce.encode_response(header.version, produce.ProduceResponse(topics))
    head = response_head(ApiKey.PRODUCE, header.version, header.correlation_id, len(body))
    return head + body


class Relay:
    """Passes everything on; with `refuse(later)` it answers the next Produce request itself, after
    `later` others have been passed on."""

    def __init__(self, port: int) -> None:
        self.broker_port = 0
        self._armed: int | None = None
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def refuse(self, later: int) -> None:
        self._armed = later

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self.broker_port))
            may_answer = threading.Event()
            may_answer.set()
            pair = (client, broker, may_answer)
            threading.Thread(target=self._requests, args=pair, daemon=True).start()
            threading.Thread(target=self._answers, args=pair, daemon=True).start()

    def _requests(
        self, client: socket.socket, broker: socket.socket, may_answer: threading.Event
    ) -> None:
        answer, missing = b"", 0
        try:
            while frame := frame_of(client):
                is_produce = frame[4:6] == b"\0\0"
                if is_produce and self._armed is not None:
                    answer, missing, self._armed = refusal(frame), self._armed, None
                    # Answers keep the order of their requests.
                    may_answer.clear()
                else:
                    broker.sendall(frame)
                    missing -= is_produce
                if answer and missing <= 0:
                    client.sendall(answer)
                    answer = b""
                    may_answer.set()
        except OSError:
            pass
        broker.close()

    @staticmethod
    def _answers(client: socket.socket, broker: socket.socket, may_answer: threading.Event) -> None:
        try:
            while frame := frame_of(broker):
                may_answer.wait(SECONDS_MAX)
                client.sendall(frame)
        except OSError:
            pass
        client.close()


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Relay, str]]:
    port = free_port()
    between = Relay(port)
    directory = tmp_path_factory.mktemp("relayed")
    settings: dict[str, Any] = {"advertised_listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with BrokerProcess(directory, **settings) as broker:
        between.broker_port = broker.port
        yield between, f"127.0.0.1:{port}"
    between.close()


@pytest.mark.parametrize(
    ("idempotent", "order"), [(False, b"023451"), (True, b"012345")], ids=["plain", "idempotent"]
)
def test_a_retry_with_others_in_flight_changes_the_order_unless_the_producer_is_idempotent(
    relay: tuple[Relay, str], idempotent: bool, order: bytes
) -> None:
    between, bootstrap = relay
    name = f"retried-{idempotent}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS_MAX)
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": 0,
        "batch.num.messages": 1,
        "retry.backoff.ms": 100,
        "max.in.flight": 5,
        "enable.idempotence": idempotent,
    }
    producer = Producer(settings)
    producer.produce(name, b"0", partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    between.refuse(4)
    for number in range(1, 6):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    assert read(bootstrap, name, 6) == order


def read(bootstrap: str, topic: str, count: int) -> bytes:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = b""
    for message in consumer.consume(count, SECONDS_MAX):
        values += message.value() or b""
    consumer.close()
    return values
