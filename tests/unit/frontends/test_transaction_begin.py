"""First batches of a transaction: the coordinator is asked, wherever it is, and answers later."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cluster.topic_creation import NewTopic
from headrace.coordination.transactions.producers import ProducerEpoch
from headrace.frontends.kafka.connection.dispatch import Dispatcher, KafkaSession
from headrace.frontends.kafka.connection.registry import APIS
from headrace.frontends.kafka.produce import transaction_begin
from headrace.frontends.kafka.produce.transaction_begin import Begun, First
from headrace.log.producers.producer_states import Begins
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.net.session import CloseConnection
from headrace.record.batch import Record, build
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from headrace.wire.kafka.hot import produce
from tests.support.broker import play, room

ONE, OTHER = ProducerEpoch(1, 0), ProducerEpoch(2, 0)


class Elsewhere:
    """A coordinator on another broker, whose answers come when the test gives them."""

    def __init__(self) -> None:
        self.asked: list[tuple[ProducerEpoch, list[TopicPartition], Any]] = []

    def verify(self, _: str, who: ProducerEpoch, partitions: Any, done: Any) -> None:
        self.asked.append((who, list(partitions), done))

    def add(self, _: str, who: ProducerEpoch, partitions: Any, version: int, done: Any) -> None:
        raise AssertionError("not asked here")


def test_each_producer_is_asked_about_once_and_all_answers_are_waited_for() -> None:
    places = [TopicPartition("t", at) for at in range(3)]
    batches = [
        First((0, at), place, producer)
        for at, (place, producer) in enumerate(zip(places, (ONE, OTHER, ONE), strict=True))
    ]
    coordinator, told = Elsewhere(), list[Begun]()
    transaction_begin.verify(coordinator, 11, "tx", batches, told.append)
    assert [(who, asked) for who, asked, _ in coordinator.asked] == [
        (ONE, [places[0], places[2]]),
        (OTHER, [places[1]]),
    ]
    coordinator.asked[1][2]({})
    assert told == []
    coordinator.asked[0][2]({places[2]: ApiError(ErrorCode.INVALID_TXN_STATE)})
    (begun,) = told
    assert begun.begins == {(0, 0): Begins.VERIFIED, (0, 1): Begins.VERIFIED}
    assert begun.refused[0, 2].code is ErrorCode.TRANSACTION_ABORTABLE


def test_an_unanswered_batch_that_is_refused_ends_its_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await here.controller.create_topics([NewTopic("t", 1, 1)])
            dispatcher = Dispatcher(
                here.broker, here.coordinators, here.controller, APIS, here.broker.metrics
            )
            nobody: Any = SimpleNamespace(
                address="127.0.0.1", listener="PLAINTEXT", port=1, waits=False
            )
            batch = build(
                [Record(0, 1_780_000_000_000, None, b"v", ())], producer_id=7, producer_epoch=0,
                base_sequence=0, transactional=True,
            )  # fmt: skip
            topic = produce.TopicData("t", bytes(16), [produce.PartitionData(0, batch)])
            body = produce.encode_request(9, produce.ProduceRequest("tx", 0, 1000, [topic]))
            frame = request_head(ApiKey.PRODUCE, 9, 7, "test", len(body)) + body
            with pytest.raises(CloseConnection):
                KafkaSession(dispatcher, nobody).frame(memoryview(bytearray(frame))[4:])

    play(story())
