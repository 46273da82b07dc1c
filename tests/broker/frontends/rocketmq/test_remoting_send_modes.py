"""Send modes through a RocketMQ listener: one-way, WAIT, ASYNC_FLUSH, and a disk that is slow."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.server.assembly import Server
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.batch_bodies import BatchedMessage, encode_batch
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import CommandFlag
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, code, fields, made, port_of, served

TIMEOUT = {"rocketmq.sync.flush.timeout.ms": "200"}
NOT_WAITING = "UNIQ_KEY\x01u\x02WAIT\x01false\x02"


@contextmanager
def slow_disk(broker: BrokerThread) -> Iterator[None]:
    """Hold all flushes of a broker until the end."""
    held: list[Callable[[], object]] = []

    def begin(server: Server) -> Any:
        (directory,) = server.broker.directories
        flusher: Any = directory.flusher
        strategy = flusher.strategy
        flusher.strategy = lambda *given: held.append(lambda: strategy(*given))
        return flusher, strategy

    flusher, strategy = broker.call(begin)

    def end(server: Server) -> None:
        flusher.strategy = strategy
        for each in held:
            each()

    try:
        yield
    finally:
        broker.call(end)


@pytest.fixture(scope="module")
def impatient() -> Iterator[BrokerThread]:
    """A broker that waits 0.2 s for a flush."""
    with BrokerThread(SETTINGS | TIMEOUT) as made_broker:
        yield made_broker


def test_a_send_whose_flush_is_late_is_stored_and_answered_with_flush_disk_timeout(
    impatient: BrokerThread,
) -> None:
    with RemotingClient(port_of(impatient)) as client:
        topic = made(client, "late")
        client.send(topic, b"before")
        with slow_disk(impatient):
            late = client.send(topic, b"late", i="UNIQ_KEY\x01u\x02")
            assert code(late) is ResponseCode.FLUSH_DISK_TIMEOUT
            named = fields(late)
            assert (named["queueOffset"], named["queueId"], named["transactionId"]) == (
                "1", "0", "u",
            )  # fmt: skip
            assert len(named["msgId"]) == 32
            assert fields(client.call(30, {"topic": topic, "queueId": 0}))["offset"] == "1"
        assert code(client.send(topic, b"after")) is ResponseCode.SUCCESS
        bodies = [each.body for each in messages_in(client.pull(topic))]
        assert bodies == [b"before", b"late", b"after"], "once each"


@pytest.mark.parametrize(
    ("properties", "mode"),
    [
        ("UNIQ_KEY\x01u\x02DELAY\x011\x02", {}),
        ("UNIQ_KEY\x01u\x02TIMER_DELAY_SEC\x0160\x02", {}),
        ("UNIQ_KEY\x01u\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02", {"f": 4}),
    ],
    ids=["level", "timer", "half"],
)
def test_a_held_message_whose_flush_is_late_is_answered_with_flush_disk_timeout(
    impatient: BrokerThread, properties: str, mode: dict[str, object]
) -> None:
    with RemotingClient(port_of(impatient)) as client:
        topic = made(client, "late-held")
        first = client.send(topic, b"before", i=properties, **mode)
        assert code(first) is ResponseCode.SUCCESS
        before = late_count(impatient)
        with slow_disk(impatient):
            late = client.send(topic, b"late", i=properties, **mode)
            assert code(late) is ResponseCode.FLUSH_DISK_TIMEOUT
            assert fields(late).keys() == fields(first).keys(), "the same as of one in time"
            assert fields(late)["transactionId"] == "u"
            assert int(fields(late)["queueOffset"]) == int(fields(first)["queueOffset"]) + 1
        assert late_count(impatient) == before + 1
        again = client.send(topic, b"after", i=properties, **mode)
        assert code(again) is ResponseCode.SUCCESS, "it has its own answer alone"
        client.call(215, {"topic": topic})


def late_count(broker: BrokerThread) -> int:
    """Return how many messages were answered with FLUSH_DISK_TIMEOUT."""
    late = ResponseCode.FLUSH_DISK_TIMEOUT
    return broker.call(lambda server: served(server).sending.waits.counts[late])


def test_a_held_message_is_not_late_where_flushes_are_not_waited_for() -> None:
    settings = SETTINGS | TIMEOUT | {"rocketmq.flush.disk.type": "ASYNC_FLUSH"}
    with BrokerThread(settings) as broker, RemotingClient(port_of(broker)) as client:
        topic = made(client, "async-held")
        client.send(topic, i="DELAY\x011\x02")
        with slow_disk(broker):
            waits = client.ask_send(topic, i="DELAY\x011\x02")
            with pytest.raises(TimeoutError):
                client.receive(1)
            assert late_count(broker) == 0
        assert code(client.answer(waits)) is ResponseCode.SUCCESS


def test_messages_with_wait_false_are_answered_before_the_flush(impatient: BrokerThread) -> None:
    with RemotingClient(port_of(impatient)) as client:
        topic = made(client, "not-waiting")
        client.send(topic)
        batch = encode_batch([BatchedMessage(0, b"x", b""), BatchedMessage(0, b"y", b"")])
        with slow_disk(impatient):
            single = client.send(topic, i=NOT_WAITING)
            assert (code(single), fields(single)["queueOffset"]) == (ResponseCode.SUCCESS, "1")
            several = client.send(topic, batch, m="true", i=NOT_WAITING)
            assert (code(several), fields(several)["queueOffset"]) == (ResponseCode.SUCCESS, "2")
            waits = client.send(topic, i="WAIT\x01true\x02")
            assert code(waits) is ResponseCode.FLUSH_DISK_TIMEOUT


def test_sends_one_way_are_stored_without_an_answer(impatient: BrokerThread) -> None:
    with RemotingClient(port_of(impatient)) as client:
        topic = made(client, "one-way")
        named = {"a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 5, "h": 0,
                 "i": "", "j": 0, "k": "false", "m": "false"}  # fmt: skip
        for _ in range(3):
            client.ask(RequestCode.SEND_MESSAGE_V2, named, b"x", CommandFlag.ONE_WAY)
        assert fields(client.send(topic))["queueOffset"] == "3"
        assert len(client.arrived) == 2, "of the topic's creation and of the last send"


@pytest.mark.parametrize(
    "settings",
    [
        {"rocketmq.flush.disk.type": "ASYNC_FLUSH"},
        {"rocketmq.flush.disk.type": "ASYNC_FLUSH", "rocketmq.broker.role": "ASYNC_MASTER"},
        {"log.flush.on.ack": "false"},
    ],
)
def test_async_flush_answers_before_the_flush(settings: dict[str, str]) -> None:
    with BrokerThread(SETTINGS | settings) as broker, RemotingClient(port_of(broker)) as client:
        topic = made(client, "async")
        client.send(topic)
        with slow_disk(broker):
            assert code(client.send(topic)) is ResponseCode.SUCCESS
        shown = bytes(client.call(RequestCode.GET_BROKER_CONFIG).body)
        assert b"flushDiskType=ASYNC_FLUSH\n" in shown
        role = settings.get("rocketmq.broker.role", "SYNC_MASTER")
        assert f"brokerRole={role}\n".encode() in shown
