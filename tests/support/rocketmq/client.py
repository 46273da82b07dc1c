"""A RocketMQ client of one connection, for tests: requests by code, answers by opaque."""

import itertools
import socket
import ssl
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from headrace.wire.rocketmq.batch_bodies import BatchedMessage, encode_batch
from headrace.wire.rocketmq.codes import RequestCode
from headrace.wire.rocketmq.commands import (
    CommandFlag,
    RemotingCommand,
    decode_command,
    encode_command,
)
from headrace.wire.rocketmq.fastjson import FastJson, encode_body
from headrace.wire.rocketmq.frames import Serialization, frame_at, frame_bytes
from headrace.wire.rocketmq.stored_messages import PulledMessage, decode_messages

SECONDS_MAX = 30.0
SEND_FIELDS: Mapping[str, object] = {
    "a": "PG", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1795860860391, "h": 0,
    "i": "TAGS\x01A\x02", "j": 0, "k": "false", "m": "false",
}  # fmt: skip
"""Fields of a send to queue 0; `b` is the topic."""
PULL_FIELDS: Mapping[str, object] = {
    "consumerGroup": "CG", "queueId": 0, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0,
    "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG",
}  # fmt: skip
"""Fields of a pull from queue 0 that does not wait."""


def heartbeat_body(
    client_id: str, group: str, topics: Mapping[str, str], version: int = 1, kind: str = "TAG"
) -> bytes:
    """Return a heartbeat of a group's member with subscriptions by topic."""
    subscriptions: list[FastJson] = [
        {"topic": topic, "subString": text, "subVersion": version, "expressionType": kind}
        for topic, text in topics.items()
    ]
    consumer: FastJson = {"groupName": group, "subscriptionDataSet": subscriptions}
    return encode_body({"clientID": client_id, "consumerDataSet": [consumer]})


def producer_body(client_id: str, groups: Iterable[str]) -> bytes:
    """Return a heartbeat of a producer."""
    producers: list[FastJson] = [{"groupName": group} for group in groups]
    return encode_body({"clientID": client_id, "producerDataSet": producers})


class RemotingClient:
    """A connection. Requests that the broker sends are in `notified`."""

    def __init__(
        self,
        port: int,
        serialization: Serialization = Serialization.JSON,
        version: int = 513,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), SECONDS_MAX)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname="localhost")
        self._buffer = b""
        self._serialization = serialization
        self._version = version
        self.language = "JAVA"
        self._opaques = itertools.count(1)
        self._answers: dict[int, RemotingCommand] = {}
        self.arrived: list[int] = []
        """The opaques of answers in the order in which they came."""
        self.notified: list[RemotingCommand] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def ask(
        self,
        code: int,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        flag: int = 0,
    ) -> int:
        """Send a request; return its opaque."""
        opaque = next(self._opaques)
        texts = None if fields is None else {name: str(value) for name, value in fields.items()}
        command = RemotingCommand(
            code, opaque, flag, texts, body, None, self.language, self._version
        )
        self._socket.sendall(b"".join(encode_command(command, self._serialization)))
        return opaque

    def answer(self, opaque: int, seconds: float = SECONDS_MAX) -> RemotingCommand:
        """Return the answer to a request. TimeoutError: none has come."""
        while opaque not in self._answers:
            self.receive(seconds)
        return self._answers.pop(opaque)

    def call(
        self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b""
    ) -> RemotingCommand:
        """Send a request; return its answer."""
        return self.answer(self.ask(code, fields, body))

    def wait_notified(self, code: int) -> RemotingCommand:
        """Return the next request of the broker's with a code, and drop those before it."""
        while True:
            while not self.notified:
                self.receive()
            command = self.notified.pop(0)
            if command.code == code:
                return command

    def reply(
        self, asked: RemotingCommand, body: bytes = b"", code: int = 0, remark: str | None = None
    ) -> None:
        """Answer a request of the broker's."""
        command = RemotingCommand(code, asked.opaque, CommandFlag.RESPONSE, None, body, remark)
        self._socket.sendall(b"".join(encode_command(command, self._serialization)))

    def receive(self, seconds: float = SECONDS_MAX) -> None:
        """Receive one frame."""
        self._socket.settimeout(seconds)
        while True:
            size = frame_bytes(self._buffer, 0, len(self._buffer))
            if 0 < size <= len(self._buffer):
                break
            received = self._socket.recv(1 << 16)
            if not received:
                raise ConnectionError("closed by the broker")
            self._buffer += received
        frame = frame_at(memoryview(self._buffer), 0)
        command = decode_command(frame.serialization, frame.header, bytes(frame.body))
        self._buffer = self._buffer[size:]
        if command.is_response:
            self._answers[command.opaque] = command
            self.arrived.append(command.opaque)
        else:
            self.notified.append(command)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    # requests

    def ask_send(self, topic: str, body: bytes = b"body", **fields: object) -> int:
        """Send a message to queue 0, without waiting for the answer; return its opaque."""
        named = {**SEND_FIELDS, "b": topic, **fields}
        return self.ask(RequestCode.SEND_MESSAGE_V2, named, body)

    def send(self, topic: str, body: bytes = b"body", **fields: object) -> RemotingCommand:
        """Send a message to queue 0; return the answer."""
        return self.answer(self.ask_send(topic, body, **fields))

    def send_batch(self, topic: str, messages: list[BatchedMessage]) -> RemotingCommand:
        """Send a batch to queue 0; return the answer."""
        return self.send(topic, encode_batch(messages), m="true")

    def ask_pull(
        self,
        topic: str,
        offset: int = 0,
        *,
        number: int = RequestCode.PULL_MESSAGE,
        **fields: object,
    ) -> int:
        """Pull from queue 0, for no longer than it takes; return the opaque."""
        return self.ask(number, {**PULL_FIELDS, "topic": topic, "queueOffset": offset, **fields})

    def pull(self, topic: str, offset: int = 0, **fields: object) -> RemotingCommand:
        """Pull from queue 0; return the answer."""
        number = RequestCode.PULL_MESSAGE
        return self.answer(self.ask_pull(topic, offset, number=number, **fields))

    def heartbeat(
        self,
        client_id: str,
        group: str,
        topics: Mapping[str, str],
        version: int = 1,
        kind: str = "TAG",
    ) -> RemotingCommand:
        """Send a heartbeat of a group's member with subscriptions by topic; return the answer."""
        body = heartbeat_body(client_id, group, topics, version, kind)
        return self.call(RequestCode.HEART_BEAT, {}, body)

    def produces(self, client_id: str, *groups: str) -> RemotingCommand:
        """Send a heartbeat of a producer; return the answer."""
        return self.call(RequestCode.HEART_BEAT, {}, producer_body(client_id, groups))

    def one_way(self, code: int, fields: Mapping[str, object]) -> int:
        """Send a one-way request; return its opaque."""
        return self.ask(code, fields, flag=CommandFlag.ONE_WAY)


def messages_in(answer: RemotingCommand) -> list[PulledMessage]:
    """Return the messages of a pull's answer."""
    return list(decode_messages(bytes(answer.body)))
