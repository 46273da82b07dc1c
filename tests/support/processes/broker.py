"""A broker with its controller on a simulated disk: no sockets, no server, time moved by hand."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from headrace.broker.appended import Appended
from headrace.broker.metadata_image import TopicInfo
from headrace.broker.partition import Partition
from headrace.cluster.topics.creation import NewTopic
from headrace.config.broker import load
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.log import file_names
from headrace.ports.network import ListenOptions, Network
from headrace.ports.store import SessionEvents
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.record.batch import Record, build, parse_header
from headrace.security.authorizer import Authorizer
from headrace.security.identity import Identity
from headrace.server.assembly import Server
from headrace.testing.clock import SimClock, SimRandom
from headrace.testing.disk import SimDisk
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey

if TYPE_CHECKING:
    from headrace.ports.clock import Clock, Random
    from headrace.ports.disk import BrokerDisk

T = TypeVar("T")
_SEEDS = count(7)


class _AtOnce(ThreadPoolExecutor):
    """Runs work when it is submitted: a loop that waits for a thread only turns meanwhile."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - raised to the caller who waits
            done.set_exception(error)
        return done


class NoListening:
    """An address that nobody can reach."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def accept(self, made: Callable[[], Any]) -> None:
        """Nobody comes."""

    def close(self) -> None:
        """Nobody came."""


class NoNetwork:
    """No sockets: requests are made by `Room.ask`. `ports.network.Network`."""

    def host_name(self) -> str:
        return "nowhere"

    def listen(self, host: str, port: int, options: ListenOptions) -> NoListening:
        return NoListening(port)

    def listen_local(self, path: str, backlog: int = 0) -> None:
        return None

    async def connect(
        self, made: Callable[[], Any], host: str, port: int, tls: object = None
    ) -> NoReturn:
        raise ConnectionRefusedError


class HandWorld:
    """`ports.world.World` on a simulated disk, its time moved by hand, its metadata in `place`."""

    has_processes = False

    def __init__(self, place: Path, disk: SimDisk) -> None:
        self.sim_clock = SimClock()
        self.clock: Clock = self.sim_clock
        self.random: Random = SimRandom(next(_SEEDS))
        self.disk: BrokerDisk = disk
        self.network: Network = NoNetwork()
        self.boot_seconds = self.sim_clock.monotonic
        self.store: EmbeddedStore
        self._place = place

    def store_exists(self) -> bool:
        return (self._place / file_names.METADATA).exists()

    def shares_store(self) -> bool:
        return False

    def open_store(self, events: SessionEvents) -> EmbeddedStore:
        self.store = EmbeddedStore(str(self._place / file_names.METADATA))
        self.store._file._thread = _AtOnce()
        return self.store

    def close(self) -> None:
        """There are no threads."""


class Room:
    """One running broker. `disk` and `store` are what it stands on."""

    def __init__(self, server: Server, disk: SimDisk, store: EmbeddedStore) -> None:
        self.server = server
        self.broker = server.broker
        self.coordinators = server.coordinators
        self.controller = server.controller
        self.disk = disk
        self.store = store

    def context(self, key: ApiKey, version: int) -> RequestContext:
        """Of a request through the PLAINTEXT listener."""
        return RequestContext(
            broker=self.broker,
            coordinators=self.coordinators,
            controller=self.controller,
            api_key=key,
            version=version,
            client_id="test",
            identity=Identity("127.0.0.1", "PLAINTEXT"),
        )

    async def ask(
        self, handle: Callable[..., Any], key: ApiKey, version: int, **fields: Any
    ) -> Any:
        """One request through the codec and back: what a client would read as the answer."""
        request = kio_codec.request_type(key, version)(**fields)
        body = memoryview(bytearray(kio_codec.encode_body(request)))
        answer = handle(self.context(key, version), kio_codec.decode_request(key, version, body))
        if asyncio.iscoroutine(answer):
            answer = await answer
        return kio_codec.decode_response(key, version, memoryview(kio_codec.encode_body(answer)))

    def write(self, topic: str, index: int = 0, value: bytes = b"v") -> int:
        """Append one record; returns its offset."""
        return append(self.broker.partition(topic, index), value).base_offset

    async def kill(self) -> None:
        """End as a kill would: nothing is closed cleanly."""
        for directory in self.broker.directories:
            directory.close(clean=False)
        await self.store.close()


def append(partition: Partition, value: bytes = b"v", **producer: Any) -> Appended:
    """Append one record to a partition as a client would."""
    now = 1_780_000_000_000
    view = memoryview(bytearray(build([Record(0, now, None, value, ())], **producer)))
    return partition.append(view, parse_header(view), now_ms=now)


@asynccontextmanager
async def room(
    place: Path,
    disk: SimDisk,
    *,
    kill: bool = False,
    directories: tuple[str, ...] = ("/data",),
    authorizer: Authorizer | None = None,
    **settings: str,
) -> AsyncIterator[Room]:
    """Start a broker, its metadata in `place`, its logs on `disk`; stop (or kill) it at the end.

    `settings` are Kafka's keys with underscores for dots.
    """
    given = {name.replace("_", "."): value for name, value in settings.items()}
    config, _ = load(flags={"log.dirs": ",".join(directories), **given})
    world = HandWorld(place, disk)
    pump = asyncio.ensure_future(_pump(disk, world.sim_clock))
    broken: list[Exception] = []
    server = Server(config, world, broken.append, authorizer=authorizer)
    try:
        await server.start()
        here = Room(server, disk, world.store)
        try:
            yield here
        finally:
            if kill:
                await here.kill()
            else:
                await server.stop()
        assert not broken
    finally:
        pump.cancel()
        with suppress(asyncio.CancelledError):
            await pump


async def _pump(disk: SimDisk, clock: SimClock) -> None:
    """What a loop and its threads do: finish the disk's work and end turns."""
    while True:
        disk.settle()
        clock.turn()
        await asyncio.sleep(0)


async def until(holds: Callable[[], object]) -> None:
    """Let the broker work until that is so: threads of its store may be slow beside other work."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never is")


def play(story: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine."""
    asyncio.run(story)


async def created(here: Room, *wanted: NewTopic) -> list[TopicInfo]:
    """Create topics, all of which must succeed; returns them."""
    outcome = await here.controller.create_topics(wanted)
    topics = [topic for topic in outcome if isinstance(topic, TopicInfo)]
    assert len(topics) == len(wanted), outcome
    return topics
