"""First batches of a transaction: the coordinator is asked, wherever it is, and answers later."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
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
from headrace.security.identity import ANONYMOUS
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from headrace.wire.kafka.hot import produce
from tests.support.processes.broker import play, room

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


def _session(here: Any) -> KafkaSession:
    dispatcher = Dispatcher(
        here.broker, here.coordinators, here.controller, APIS, here.broker.metrics
    )
    nobody: Any = SimpleNamespace(
        address="127.0.0.1", listener="PLAINTEXT", port=1, principal=ANONYMOUS, waits=False
    )
    return KafkaSession(dispatcher, nobody)


def _first_batch(acks: int) -> bytearray:
    """A request whose one batch would be the first of its transaction, without its length."""
    batch = build(
        [Record(0, 1_780_000_000_000, None, b"v", ())], producer_id=7, producer_epoch=0,
        base_sequence=0, transactional=True,
    )  # fmt: skip
    topic = produce.TopicData("t", bytes(16), [produce.PartitionData(0, batch)])
    body = produce.encode_request(9, produce.ProduceRequest("tx", acks, 1000, [topic]))
    return bytearray(request_head(ApiKey.PRODUCE, 9, 7, "test", len(body)) + body)[4:]


def test_an_unanswered_batch_that_is_refused_ends_its_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await here.controller.create_topics([NewTopic("t", 1, 1)])
            with pytest.raises(CloseConnection):
                _session(here).frame(memoryview(_first_batch(acks=0)))

    play(story())


def test_what_waits_for_a_coordinator_elsewhere_is_kept_and_appended_when_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        # A stop would wait 10 s for the flush of what acks=1 left unflushed.
        async with room(tmp_path, SimDisk(), kill=True) as here:
            await here.controller.create_topics([NewTopic("t", 1, 1)])
            coordinator = Elsewhere()
            monkeypatch.setattr(here.coordinators.all_transactions, "verify", coordinator.verify)
            frame = _first_batch(acks=1)
            _session(here).frame(memoryview(frame))
            frame[:] = bytes(len(frame))  # the connection reads the next request into its place
            log = here.broker.partition("t", 0).log
            assert log.end_offset == 0
            (asked,) = coordinator.asked
            asked[2]({})
            assert log.end_offset == 1
            assert log.producers.is_open(7, 0)

    play(story())
