"""A recording proxy between RocketMQ's clients and a broker, and its recordings.

A program announces its scenario by a UDP datagram; `-` ends it. Each frame belongs to the scenario
in which its request was sent. A recording has one line of JSON for each frame; base64 has the
frame, cut at FRAME_BYTES_MAX.
"""

import asyncio
import base64
import gzip
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from headrace.model.errors import Malformed
from headrace.wire.rocketmq.commands import RemotingCommand, decode_command
from headrace.wire.rocketmq.frames import frame_at, frame_bytes

if TYPE_CHECKING:
    from concurrent.futures import Future

FRAME_BYTES_MAX = 1 << 16
END_SECONDS_MAX = 10
REPEATS_MAX = 60
"""Frames of one code, direction and scenario that a recording has at most."""
REQUEST, RESPONSE = "C>S", "S>C"
"""Directions: from the client, and from the broker."""
NOT_RECORDED = "-"

Address = tuple[str, int]


class Entry(NamedTuple):
    """A recorded frame."""

    scenario: str
    connection: int
    ms: int
    """Milliseconds since the recording began."""
    direction: str
    request: int
    """The code of the request, also in its response."""
    raw: bytes
    size: int
    """Bytes of the frame before it was cut."""

    @property
    def command(self) -> RemotingCommand:
        """The frame decoded; its body is cut where the frame is."""
        frame = frame_at(memoryview(self.raw), 0)
        return decode_command(frame.serialization, frame.header, bytes(frame.body))

    @property
    def client(self) -> str:
        """The recording's name, which is the first part of each scenario."""
        return self.scenario.partition("/")[0]


def write_recording(path: Path, entries: Iterable[Entry]) -> None:
    """Write a recording, compressed, with the same bytes each time."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as lines:
        for entry in entries:
            values = entry._replace(raw=base64.b64encode(entry.raw).decode())._asdict()  # type: ignore[arg-type]
            lines.write(json.dumps(values, ensure_ascii=False).encode() + b"\n")


def read_recording(path: Path) -> Iterator[Entry]:
    """Yield the frames of a recording."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            values = json.loads(line)
            yield Entry(**(values | {"raw": base64.b64decode(values["raw"])}))


class _Sent:
    """The requests of one side of a connection that have no response yet, by opaque."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.pending: dict[int, tuple[int, str]] = {}


class Recorder:
    """A proxy on `ports` of 127.0.0.1, each in front of an address. Has a thread of its own."""

    def __init__(self, ports: Sequence[int] = (0,), label_port: int = 0) -> None:
        self.entries: list[Entry] = []
        self.ports = list(ports)
        self.label_port = label_port
        self.scenario = NOT_RECORDED
        self.addresses: list[Address] = []
        """The address behind each port; set before the first client connects."""
        self._open: list[asyncio.AbstractServer | asyncio.DatagramTransport] = []
        self._transports: list[asyncio.WriteTransport] = []
        self._began = time.monotonic()
        self._connections = 0
        self._counts: Counter[tuple[str, int, str, bool]] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._done(asyncio.run_coroutine_threadsafe(self._listen(), self._loop))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done(asyncio.run_coroutine_threadsafe(self._close(), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @staticmethod
    def _done(future: "Future[None]") -> None:
        future.result(60)

    async def _listen(self) -> None:
        for index, port in enumerate(self.ports):

            async def serve(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, at: int = index
            ) -> None:
                await self._serve(reader, writer, self.addresses[at])

            server = await asyncio.start_server(serve, "127.0.0.1", port, limit=1 << 20)
            self.ports[index] = server.sockets[0].getsockname()[1]
            self._open.append(server)
        transport, _ = await self._loop.create_datagram_endpoint(
            lambda: _Labels(self), local_addr=("127.0.0.1", self.label_port)
        )
        self.label_port = transport.get_extra_info("sockname")[1]
        self._open.append(transport)

    async def _close(self) -> None:
        for each in self._open:
            each.close()
        for transport in self._transports:
            transport.abort()
        serving = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if serving:
            await asyncio.wait(serving, timeout=END_SECONDS_MAX)
        await asyncio.sleep(0.01)  # their sockets are closed by the loop

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: Address
    ) -> None:
        self._connections += 1
        number = self._connections
        try:
            to_broker = await asyncio.open_connection(*address)
        except OSError:
            writer.close()
            return
        self._transports += [writer.transport, to_broker[1].transport]
        client, broker = _Sent(), _Sent()
        await asyncio.gather(
            self._pump(reader, to_broker[1], number, REQUEST, client, broker),
            self._pump(to_broker[0], writer, number, RESPONSE, broker, client),
        )

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        number: int,
        direction: str,
        sender: _Sent,
        receiver: _Sent,
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                sender.buffer += data
                self._take(number, direction, sender, receiver)
                writer.write(data)
                await writer.drain()
        except (ConnectionError, Malformed):
            pass
        finally:
            writer.close()

    def _take(self, number: int, direction: str, sender: _Sent, receiver: _Sent) -> None:
        """Record the complete frames of a buffer and remove them from it."""
        while True:
            size = frame_bytes(sender.buffer, 0, len(sender.buffer))
            if not 0 < size <= len(sender.buffer):
                return
            raw = bytes(sender.buffer[:size])
            del sender.buffer[:size]
            ms = int((time.monotonic() - self._began) * 1000)
            entry = Entry(self.scenario, number, ms, direction, 0, raw[:FRAME_BYTES_MAX], size)
            command = entry.command
            if command.is_response:
                request, scenario = receiver.pending.pop(command.opaque, (0, self.scenario))
            else:
                request, scenario = command.code, self.scenario
                sender.pending[command.opaque] = request, scenario
            key = scenario, request, direction, command.is_response
            self._counts[key] += 1
            if scenario != NOT_RECORDED and self._counts[key] <= REPEATS_MAX:
                self.entries.append(entry._replace(scenario=scenario, request=request))


class _Labels(asyncio.DatagramProtocol):
    """Sets the scenario that a program has announced."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._recorder.scenario = data.decode().strip()
