"""The recorder's own client: its recorded requests, sent again.

It sends what real clients seldom send: errors, edges, both forms of headers. Its requests go out in
the recorded order, on as many connections, with the recorded pauses, each behind the responses
that came before it. Times are moved to now; physical offsets are those of the same messages here.

A message without a queue is sent to another topic: the broker chooses the queue at random. Another
one, which is not recorded, is sent to the queue that was chosen in the recording.
"""

import socket
import time
from collections.abc import Mapping, Sequence

from headrace.model.errors import Malformed
from headrace.wire.rocketmq.codes import RequestCode
from headrace.wire.rocketmq.commands import RemotingCommand, decode_command, encode_command
from headrace.wire.rocketmq.frames import Serialization, frame_at, frame_bytes
from headrace.wire.rocketmq.stored_messages import decode_messages
from tests.outside.rocketmq.golden.recording import (
    NOT_RECORDED,
    REQUEST,
    RESPONSE,
    Address,
    Entry,
)
from tests.outside.rocketmq.golden.views import MESSAGES_IN

TIMES = frozenset({"g", "bornTimestamp", "timestamp", "bornTime", "subVersion"})
"""Fields that are moved to now."""
TIMES_FROM = 10**12
PAUSE_MS_MIN = 300
"""Shorter pauses were those of the client's labels."""
ANSWER_SECONDS_MAX = 40
ANY_QUEUE = "-1"


def fields_of(command: RemotingCommand) -> dict[str, str]:
    """Return the fields of a command's header."""
    return dict(command.fields or {})


class _Connection:
    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, ANSWER_SECONDS_MAX)
        self._buffer = b""
        self.answers: dict[int, RemotingCommand] = {}

    def send(self, command: RemotingCommand, serialization: Serialization) -> None:
        self._socket.sendall(b"".join(encode_command(command, serialization)))

    def answer(self, opaque: int) -> RemotingCommand:
        while opaque not in self.answers:
            self._receive()
        return self.answers.pop(opaque)

    def _receive(self) -> None:
        while (
            not 0 < (size := frame_bytes(self._buffer, 0, len(self._buffer))) <= len(self._buffer)
        ):
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("closed by the broker")
            self._buffer += data
        frame = frame_at(memoryview(self._buffer), 0)
        command = decode_command(frame.serialization, frame.header, bytes(frame.body))
        self._buffer = self._buffer[size:]
        if command.is_response:
            self.answers[command.opaque] = command

    def close(self) -> None:
        self._socket.close()


class Replay:
    """A replay of a recording's requests through the recorder."""

    def __init__(self, addresses: Mapping[int, Address], label_port: int) -> None:
        self._addresses = addresses
        """By recorded connection: where it goes."""
        self._labels = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._label_address = ("127.0.0.1", label_port)
        self._connections: dict[int, _Connection] = {}
        self._began_ms: int | None = None
        """When the recording began, ms since 1970."""
        self._offsets: dict[str, str] = {}
        """Physical offsets here, by the recorded ones."""

    def play(self, entries: Sequence[Entry]) -> None:
        """Send the requests of a recording and wait for their responses."""
        scenario = ""
        before = entries[0]
        asked: RemotingCommand | None = None
        for entry in entries:
            command = entry.command
            if entry.direction == REQUEST and not command.is_response:
                if entry.ms - before.ms > PAUSE_MS_MIN:
                    time.sleep((entry.ms - before.ms) / 1000)
                if entry.scenario != scenario:
                    self._label(scenario := entry.scenario)
                asked = self._moved(entry)
                elsewhere = asked
                if fields_of(asked).get("e") == ANY_QUEUE:
                    topic = fields_of(asked)["b"] + "Any"
                    elsewhere = asked._replace(fields=fields_of(asked) | {"b": topic})
                serialization = frame_at(memoryview(entry.raw), 0).serialization
                self._connection(entry.connection).send(elsewhere, serialization)
            elif entry.direction == RESPONSE and command.is_response:
                answer = self._connection(entry.connection).answer(command.opaque)
                self._note_offsets(entry, command, answer)
                if asked is not None and fields_of(asked).get("e") == ANY_QUEUE:
                    self._send_there(entry, asked, fields_of(command)["queueId"])
                    scenario = NOT_RECORDED
            before = entry
        self._label(NOT_RECORDED)
        for connection in self._connections.values():
            connection.close()
        self._labels.close()

    def _send_there(self, entry: Entry, asked: RemotingCommand, queue_id: str) -> None:
        """Send a message to the queue of the recording, in no scenario."""
        self._label(NOT_RECORDED)
        fields = fields_of(asked) | {"e": queue_id}
        connection = self._connection(entry.connection)
        connection.send(asked._replace(fields=fields), Serialization.JSON)
        connection.answer(asked.opaque)

    def _label(self, scenario: str) -> None:
        time.sleep(0.03)
        self._labels.sendto(scenario.encode(), self._label_address)
        time.sleep(0.03)

    def _connection(self, number: int) -> _Connection:
        if number not in self._connections:
            self._connections[number] = _Connection(self._addresses[number])
        return self._connections[number]

    def _moved(self, entry: Entry) -> RemotingCommand:
        """Return a recorded request with times and physical offsets of now."""
        command = entry.command
        fields = fields_of(command)
        for name, value in fields.items():
            if name in TIMES and value.isdigit() and int(value) > TIMES_FROM:
                if self._began_ms is None:
                    self._began_ms = int(value) - entry.ms
                age_ms = self._began_ms + entry.ms - int(value)
                fields[name] = str(int(time.time() * 1000) - age_ms)
            elif command.code == RequestCode.CONSUMER_SEND_MSG_BACK and name == "offset":
                fields[name] = self._offsets.get(value, value)
        body = bytes(command.body)
        body += body[-1:] * (entry.size - len(entry.raw))  # where the recording cut it
        return command._replace(fields=fields, body=body)

    def _note_offsets(self, entry: Entry, golden: RemotingCommand, answer: RemotingCommand) -> None:
        if entry.request not in MESSAGES_IN:
            return
        try:
            theirs = list(decode_messages(bytes(golden.body)))
            ours = list(decode_messages(bytes(answer.body)))
        except Malformed:
            return
        for recorded, here in zip(theirs, ours, strict=False):
            self._offsets[str(recorded.physical_offset)] = str(here.physical_offset)
