"""A simulated broker with a listener for RocketMQ, and its clients: time passes in no time."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Self

from headrace.frontends.rocketmq.serving import ServedBroker
from headrace.testing.clock import SimRandom
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.world import LoopClock
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import (
    CommandFlag,
    RemotingCommand,
    decode_command,
    encode_command,
)
from headrace.wire.rocketmq.frames import Serialization, frame_at, frame_bytes
from headrace.wire.rocketmq.stored_messages import PulledMessage
from tests.support.rocketmq.client import (
    PULL_FIELDS,
    SEND_FIELDS,
    heartbeat_body,
    messages_in,
    producer_body,
)
from tests.support.rocketmq.kit import served
from tests.support.sim.cluster import play

PORT = 9876
SETTINGS = {
    "listeners": f"PLAINTEXT://broker-0:9092,ROCKETMQ://broker-0:{PORT}",
    "offsets.topic.num.partitions": "1",
    "rocketmq.disk.clean.used.percent": "100",
    "rocketmq.disk.max.used.percent": "100",
    "auto.create.topics.enable": "true",
}
ANSWER_SECONDS_MAX = 60.0
COMMIT, ROLLBACK = 8, 12


class SimRemotingClient(asyncio.Protocol):
    """A client's connection on a simulated machine."""

    def __init__(self) -> None:
        self._opaques = itertools.count(1)
        self._buffer = b""
        self._waiting: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._transport: asyncio.Transport | None = None
        self.notified: list[RemotingCommand] = []
        """Requests of the broker's, oldest first."""

    @classmethod
    async def connect(cls, cluster: SimCluster, name: str = "client") -> Self:
        """Return a connection of the machine `name`."""
        made: Self = await cluster.network.machine(name).connect(cls, "broker-0", PORT)
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Handle whole frames."""
        self._buffer += data
        while 0 < (size := frame_bytes(self._buffer, 0, len(self._buffer))) <= len(self._buffer):
            frame = frame_at(memoryview(self._buffer), 0)
            command = decode_command(frame.serialization, frame.header, bytes(frame.body))
            self._buffer = self._buffer[size:]
            if not command.is_response:
                self.notified.append(command)
            elif command.opaque in self._waiting:
                self._waiting.pop(command.opaque).set_result(command)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the requests that wait."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("closed by the broker"))

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    # requests

    def ask(
        self, code: int, fields: Mapping[str, object], body: bytes = b"", flag: int = 0
    ) -> "asyncio.Future[RemotingCommand]":
        """Send a request; return its answer to come."""
        texts = {name: str(value) for name, value in fields.items()}
        opaque = next(self._opaques)
        command = RemotingCommand(code, opaque, flag, texts, body, None, "JAVA", 513)
        answer = asyncio.get_running_loop().create_future()
        # An answer that nothing waits for any more may fail.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self._transport is None or self._transport.is_closing():
            answer.set_exception(ConnectionError("closed"))
            return answer
        self._waiting[opaque] = answer
        self._transport.write(b"".join(encode_command(command, Serialization.JSON)))
        return answer

    async def call(
        self, code: int, fields: Mapping[str, object], body: bytes = b""
    ) -> RemotingCommand:
        """Send a request; return its answer. ConnectionError: the broker has ended."""
        return await asyncio.wait_for(self.ask(code, fields, body), ANSWER_SECONDS_MAX)

    def one_way(self, code: int, fields: Mapping[str, object]) -> None:
        """Send a one-way request."""
        self.ask(code, fields, flag=CommandFlag.ONE_WAY)

    def ask_send(
        self, topic: str, body: bytes, **fields: object
    ) -> "asyncio.Future[RemotingCommand]":
        """Send a message to queue 0; return the answer to come."""
        return self.ask(RequestCode.SEND_MESSAGE_V2, {**SEND_FIELDS, "b": topic, **fields}, body)

    async def send(self, topic: str, body: bytes, **fields: object) -> RemotingCommand:
        """Send a message to queue 0; return the answer."""
        return await asyncio.wait_for(self.ask_send(topic, body, **fields), ANSWER_SECONDS_MAX)

    def ask_pull(
        self, topic: str, offset: int = 0, **fields: object
    ) -> "asyncio.Future[RemotingCommand]":
        """Pull from queue 0; return the answer to come."""
        named = {**PULL_FIELDS, "topic": topic, "queueOffset": offset, **fields}
        return self.ask(RequestCode.PULL_MESSAGE, named)

    async def pull(self, topic: str, offset: int = 0, **fields: object) -> RemotingCommand:
        """Pull from queue 0; return the answer."""
        return await asyncio.wait_for(self.ask_pull(topic, offset, **fields), ANSWER_SECONDS_MAX)

    async def pulled(self, topic: str, group: str = "CG_reads") -> list[PulledMessage]:
        """Return all messages of queue 0."""
        found: list[PulledMessage] = []
        while True:
            offset = found[-1].queue_offset + 1 if found else 0
            answer = await self.pull(topic, offset, consumerGroup=group)
            if answer.code != ResponseCode.SUCCESS:
                return found
            found += messages_in(answer)

    async def bodies(self, topic: str) -> list[str]:
        """Return the bodies of all messages of queue 0."""
        return [message.body.decode() for message in await self.pulled(topic)]

    async def heartbeat(
        self, client_id: str, group: str, topics: Mapping[str, str], version: int = 1
    ) -> RemotingCommand:
        """Send a heartbeat of a group's member; return the answer."""
        body = heartbeat_body(client_id, group, topics, version)
        return await self.call(RequestCode.HEART_BEAT, {}, body)

    async def produces(self, client_id: str, *groups: str) -> RemotingCommand:
        """Send a heartbeat of a producer; return the answer."""
        return await self.call(RequestCode.HEART_BEAT, {}, producer_body(client_id, groups))

    async def commit(self, group: str, topic: str, offset: int) -> RemotingCommand:
        """Store a group's offset of queue 0; return the answer. The group pulls before."""
        await self.pull(topic, consumerGroup=group, queueId=1 << 20)  # a queue without effect
        named = {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": offset}
        return await self.call(RequestCode.UPDATE_CONSUMER_OFFSET, named)

    async def committed(self, group: str, topic: str) -> int | None:
        """Return a group's offset of queue 0, None without one; waits while offsets load."""
        named = {"consumerGroup": group, "topic": topic, "queueId": 0, "setZeroIfNotFound": "false"}
        while True:
            answer = await self.call(RequestCode.QUERY_CONSUMER_OFFSET, named)
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            if answer.code == ResponseCode.SUCCESS:
                return int((answer.fields or {})["offset"])
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, answer.remark
            await asyncio.sleep(0.05)

    async def reset(self, group: str, topic: str, offset: int) -> RemotingCommand:
        """Reset a group's offset of queue 0; return the answer."""
        named = {"group": group, "topic": topic, "timestamp": 0, "isForce": "true",
                 "queueId": 0, "offset": offset}  # fmt: skip
        return await self.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, named)

    async def end(self, place: int, decision: int, group: str = "PG") -> RemotingCommand:
        """Decide on an undecided message at a physical offset; return the answer."""
        named = {"producerGroup": group, "commitLogOffset": place, "commitOrRollback": decision}
        return await self.call(RequestCode.END_TRANSACTION, named)

    async def send_back(self, place: int, group: str, level: int) -> RemotingCommand:
        """Send the message at a physical offset back; return the answer."""
        named = {"group": group, "offset": place, "delayLevel": level, "maxReconsumeTimes": 16}
        return await self.call(RequestCode.CONSUMER_SEND_MSG_BACK, named)


def place_in(answer: RemotingCommand) -> int:
    """Return the physical offset in the answer to a send."""
    return int((answer.fields or {})["msgId"][-16:], 16)


class Remoting:
    """The simulated broker of one story."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self._lives = 1

    @property
    def served(self) -> ServedBroker:
        """The broker as requests see it."""
        return served(self.cluster.brokers[0])

    @property
    def now_ms(self) -> int:
        """The broker's wall clock."""
        return self.cluster.worlds[0].clock.wall_ms()

    async def client(self, name: str = "client") -> SimRemotingClient:
        """Return a new connection."""
        return await SimRemotingClient.connect(self.cluster, name)

    async def kill(self) -> None:
        """Kill the broker's process and start it again; its clock stays as it was set."""
        ahead = self._ahead_ms()
        self.cluster.kill(0)
        await self._start_again(ahead)

    async def cut_power(self) -> None:
        """Cut the broker's power and start it again."""
        ahead = self._ahead_ms()
        await self.cluster.cut_power(0)
        await self._start_again(ahead)

    async def _start_again(self, ahead_ms: int) -> None:
        self.set_clock(ahead_ms)
        self._lives += 1
        # Another source than before: ids of topics and keys of messages are never given again.
        self.cluster.world(0).random = SimRandom(f"life {self._lives}")
        await self.cluster.start_again(0)

    def _ahead_ms(self) -> int:
        clock = self.cluster.world(0).clock
        assert isinstance(clock, LoopClock)
        return clock._wall_ms - clock._right_ms

    def set_clock(self, ahead_ms: int) -> None:
        """Set the wall clock ahead of the right time, or behind it."""
        clock = self.cluster.world(0).clock
        assert isinstance(clock, LoopClock)
        clock._wall_ms = clock._right_ms + ahead_ms

    def jump(self, ms: int) -> None:
        """Set the wall clock forwards, or back."""
        self.set_clock(self._ahead_ms() + ms)


def remoting(
    story: Callable[[Remoting], Coroutine[Any, Any, None]],
    settings: Mapping[str, str] | None = None,
    seed: int = 1,
) -> None:
    """Run a story with one simulated broker."""

    async def whole(cluster: SimCluster) -> None:
        await story(Remoting(cluster))

    play(whole, 0, seed=seed, settings=SETTINGS | dict(settings or {}))
