"""A broker with its controller on a simulated disk: no sockets, no server, time moved by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.metadata_image import Endpoint
from headrace.broker.partition import Appended, Partition
from headrace.cluster.controller import Controller
from headrace.cluster.producer_id_source import ProducerIdSource
from headrace.config.broker import load
from headrace.coordination.coordinators import Coordinators
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.log.directory.log_directory import LogDirectory
from headrace.model.nouns import BrokerId
from headrace.observe.metrics import Metrics
from headrace.posix.store.embedded_store import FILE_NAME, EmbeddedStore
from headrace.record.batch import Record, build, parse_header
from headrace.testing.clock import SimClock, SimRandom
from headrace.testing.disk import SimDisk
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey

CLUSTER_ID = "c-l-u-s-t-e-r"
ENDPOINT = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
_SEEDS = count(7)


class Room:
    """One running broker. `clock`, `disk` and `store` are what it stands on."""

    def __init__(
        self,
        broker: Broker,
        coordinators: Coordinators,
        controller: Controller,
        disk: SimDisk,
        store: EmbeddedStore,
    ) -> None:
        self.broker = broker
        self.coordinators = coordinators
        self.controller = controller
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
            client_host="127.0.0.1",
            listener="PLAINTEXT",
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
    **settings: str,
) -> AsyncIterator[Room]:
    """Start a broker, its metadata in `place`, its logs on `disk`; stop (or kill) it at the end.

    `settings` are Kafka's keys with underscores for dots.
    """
    clock = SimClock()
    given = {name.replace("_", "."): value for name, value in settings.items()}
    config, _ = load(flags={"log.dirs": ",".join(directories), **given})
    pump = asyncio.ensure_future(_pump(disk, clock))
    opened = [
        LogDirectory.open(disk, clock, SimRandom(), path, broker_id=0, cluster_id=CLUSTER_ID)
        for path in directories
    ]
    broker = Broker(
        config,
        broker_id=BrokerId(0),
        clock=clock,
        disk=disk,
        random=SimRandom(next(_SEEDS)),
        directories=opened,
        metrics=Metrics(),
        cluster_id=CLUSTER_ID,
    )
    store = EmbeddedStore(str(place / FILE_NAME))
    controller = Controller(broker, store)
    config_of = await controller.log_configs()
    for directory in opened:
        directory.load_blocking(config_of)
    producer_ids = ProducerIdSource(controller)
    coordinators = Coordinators(broker, producer_ids.new_producer_id)
    here = Room(broker, coordinators, controller, disk, store)
    try:
        await controller.start([ENDPOINT])
        coordinators.begin()
        broker.start()
        yield here
    finally:
        if kill:
            await here.kill()
        else:
            producer_ids.close()
            coordinators.close()
            await controller.stop()
            broker.stop()
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
    """Let the broker work until that is so."""
    for _ in range(5000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never is")


def play(story: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine."""
    asyncio.run(story)
