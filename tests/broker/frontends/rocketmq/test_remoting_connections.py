"""Connections to a RocketMQ listener: unknown codes, broken frames, ends."""

import socket

import pytest

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand, encode_command
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, code, fields, made, port_of


def test_unknown_codes_are_answered_with_3(client: RemotingClient) -> None:
    for unknown in (7777, 103, 3005, 200050, -5):
        answer = client.call(unknown, {"a": "b"})
        assert code(answer) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.remark == f" request type {unknown} not supported"


def test_requests_without_their_fields_are_answered_with_1(client: RemotingClient) -> None:
    for number in (10, 11, 14, 15, 17, 29, 30, 31, 32, 36, 37, 38, 105, 310, 320, 361):
        assert code(client.call(number, {})) is ResponseCode.SYSTEM_ERROR, number
        assert code(client.call(number)) is ResponseCode.SYSTEM_ERROR, number


def test_answers_of_clients_are_ignored(client: RemotingClient) -> None:
    client.ask(0, {}, flag=1)
    assert code(client.call(7777)) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xfb",
        b"\x01\x10\x00\x00\x00\x00\x00\x0a",
        b"\x00\x00\x00\x08\x00\x00\x00\x64abcd",
        b"\x00\x00\x00\x0a\x07\x00\x00\x06abcdef",
        b"\x00\x00\x00\x0a\x00\x00\x00\x06{nope}",
    ],
)
def test_a_broken_frame_closes_its_connection(broker: BrokerThread, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port_of(broker)), 20) as raw:
        raw.sendall(data)
        assert raw.recv(100) == b""


def test_a_web_browser_is_told_what_the_listener_speaks(broker: BrokerThread) -> None:
    with socket.create_connection(("127.0.0.1", port_of(broker)), 20) as raw:
        raw.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert b"this is an HTTP client at a RocketMQ listener" in raw.recv(1000)


def test_frames_are_handled_however_they_are_cut(client: RemotingClient) -> None:
    topic = made(client, "cut")
    client.send(topic)
    asked = RemotingCommand(30, 99, 0, {"topic": topic, "queueId": "0"})
    frame = b"".join(encode_command(asked))
    for at in range(len(frame)):
        client.send_bytes(frame[at : at + 1])
    assert fields(client.answer(99)) == {"offset": "1"}


def test_a_closed_connection_ends_its_parked_pulls(broker: BrokerThread) -> None:
    with RemotingClient(port_of(broker)) as client:
        topic = made(client, "left")
        for _ in range(50):
            client.ask_pull(topic, **PARKED)
        client.call(7777)
    with RemotingClient(port_of(broker)) as other:
        assert code(other.send("left")) is ResponseCode.SUCCESS
        assert len(messages_in(other.pull("left"))) == 1
