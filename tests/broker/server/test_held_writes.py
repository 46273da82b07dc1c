"""Answers that count on writes a pass holds back, where nothing waits for a flush."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.posix import files
from headrace.testing import BrokerThread
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from headrace.wire.kafka.hot import produce
from tests.support.net.links import Link

PRODUCE_VERSION, VERSION = 8, 4


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread({"log.flush.on.ack": "false"}) as broker:
        yield broker


def refused_produce() -> bytes:
    """The frame of a request that holds writes back, and writes nothing."""
    data = produce.PartitionData(0, b"no batch")
    request = produce.ProduceRequest(None, 1, 1000, [produce.TopicData("t", bytes(16), [data])])
    body = produce.encode_request(PRODUCE_VERSION, request)
    return request_head(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "test", len(body)) + body


def init_producer_id(transactional_id: str) -> bytes:
    """The frame of a request whose answer counts on a record of the coordinator's."""
    module = kio_codec.entity_module(ApiKey.INIT_PRODUCER_ID, VERSION).request
    request = module.InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout=timedelta(seconds=60),
        producer_id=-1,
        producer_epoch=-1,
    )
    return bytes(kio_codec.encode_request(request, 2, "test"))


def find_coordinator() -> bytes:
    """The frame of a request that has the coordinator's topic made."""
    module = kio_codec.entity_module(ApiKey.FIND_COORDINATOR, VERSION).request
    request = module.FindCoordinatorRequest(key_type=1, coordinator_keys=("first",))
    return bytes(kio_codec.encode_request(request, 3, "test"))


def told(link: Link) -> ErrorCode:
    body = link.receive(ApiKey.INIT_PRODUCER_ID, VERSION)
    answer: Any = kio_codec.decode_response(ApiKey.INIT_PRODUCER_ID, VERSION, body)
    return ErrorCode(answer.error_code)


def test_a_coordinators_answer_in_a_pass_that_holds_writes_back_counts_on_what_is_written(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = Link(broker)
    with closing(link.socket):
        link.socket.sendall(find_coordinator())
        link.receive(ApiKey.FIND_COORDINATOR, VERSION)
        link.socket.sendall(init_producer_id("first"))  # loads what the next one needs
        while told(link) is not ErrorCode.NONE:
            link.socket.sendall(init_producer_id("first"))
        link.socket.sendall(refused_produce() + init_producer_id("second"))
        link.receive(ApiKey.PRODUCE, PRODUCE_VERSION)
        assert told(link) is ErrorCode.NONE

        def full(fd: int, position: int, parts: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(files, "write_all", full)
        link.socket.sendall(refused_produce() + init_producer_id("second"))
        link.receive(ApiKey.PRODUCE, PRODUCE_VERSION)
        assert told(link) is ErrorCode.NOT_COORDINATOR
