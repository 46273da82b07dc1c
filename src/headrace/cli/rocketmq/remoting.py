"""A blocking client of RocketMQ's protocol, for one command: it asks name server and brokers."""

import itertools
import socket
from collections.abc import Mapping

from headrace.config.listeners import parse_address
from headrace.model.errors import Malformed
from headrace.terminal.failure import CommandError, UsageError
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import (
    REFUSED_OPAQUE,
    RemotingCommand,
    decode_command,
    encode_command,
)
from headrace.wire.rocketmq.fastjson import FastJson, decode_body
from headrace.wire.rocketmq.frames import frame_at, frame_bytes

SECONDS_MAX = 20.0
_RECEIVED_BYTES = 1 << 16
_OTHER_PORT = "does this port speak RocketMQ? -n and -b need a broker's ROCKETMQ listener"


class AnswerRefused(CommandError):
    """An answer that is an error, in the words of mqadmin."""

    def __init__(self, code: int, remark: str | None) -> None:
        super().__init__(f"CODE: {code}  DESC: {remark or ''}")
        self.answer_code = code


class Remoting:
    """Connections to the addresses that a command asks. Close it with `close`."""

    def __init__(self) -> None:
        self._sockets: dict[str, socket.socket] = {}
        self._opaques = itertools.count(REFUSED_OPAQUE + 1)

    def ask(
        self,
        address: str,
        code: RequestCode,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
    ) -> RemotingCommand:
        """Return the answer to a request. AnswerRefused: it is an error. Raises CommandError."""
        texts = {name: _text(value) for name, value in (fields or {}).items()}
        opaque = next(self._opaques)
        try:
            connection = self._connection(address)
            command = RemotingCommand(code, opaque, 0, texts, body)
            connection.sendall(b"".join(encode_command(command)))
            answer = _received(connection, opaque)
        except (ConnectionResetError, Malformed):
            raise CommandError(f"{address}: no answer of RocketMQ's; {_OTHER_PORT}") from None
        except OSError as error:
            raise CommandError(f"{address}: {error}") from None
        if answer.opaque == REFUSED_OPAQUE:
            raise CommandError(f"{address}: {answer.remark}")
        if answer.code != ResponseCode.SUCCESS:
            raise AnswerRefused(answer.code, answer.remark)
        return answer

    def read(
        self, address: str, code: RequestCode, fields: Mapping[str, object] | None = None
    ) -> Mapping[str, FastJson]:
        """Return the object in the body of an answer. Raises as `ask`."""
        found = decode_body(self.ask(address, code, fields).body)
        if not isinstance(found, dict):
            raise CommandError(f"{address}: the answer to {code.name} is not an object")
        return found

    def _connection(self, address: str) -> socket.socket:
        connection = self._sockets.get(address)
        if connection is None:
            try:
                host, port = parse_address(address)
            except ValueError as error:
                raise UsageError(f"{address}: {error}") from None
            connection = socket.create_connection((host, port), SECONDS_MAX)
            self._sockets[address] = connection
        return connection

    def close(self) -> None:
        """Close all connections."""
        for connection in self._sockets.values():
            connection.close()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _received(connection: socket.socket, opaque: int) -> RemotingCommand:
    """Return the answer with a number, or the refusal of the connection.

    Requests of the broker's are ignored. ConnectionResetError: the connection ends first.
    Raises Malformed and OSError.
    """
    buffer = b""
    while True:
        size = frame_bytes(buffer, 0, len(buffer))
        if 0 < size <= len(buffer):
            frame = frame_at(memoryview(buffer), 0)
            command = decode_command(frame.serialization, frame.header, bytes(frame.body))
            buffer = buffer[size:]
            if command.is_response and command.opaque in (opaque, REFUSED_OPAQUE):
                return command
            continue
        received = connection.recv(_RECEIVED_BYTES)
        if not received:
            raise ConnectionResetError
        buffer += received
