"""Appends by a thread while the kernel holds writers up: no other client waits, none is misled."""

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Self, cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.ports.disk import Failures
from headrace.posix import append_writer, files
from headrace.posix.disk import RealDisk
from headrace.posix.files import RealFile
from headrace.posix.threads import Workers
from headrace.testing import BrokerThread
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head

Told = asyncio.Future[Failures]


class Gate:
    """Writes by the thread wait while it is closed; those to `broken` fail."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.arrived = threading.Event()
        self.broken = -1
        self._write = files.write_all

    def write_all(self, fd: int, position: int, parts: list[bytes]) -> int:
        if threading.current_thread().name.startswith("write"):
            self.arrived.set()
            assert self.opened.wait(30)
            if fd == self.broken:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._write(fd, position, parts)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    one = Gate()
    monkeypatch.setattr(files, "write_all", one.write_all)
    yield one
    one.opened.set()


def on_loop(story: Callable[[RealDisk], Awaitable[None]]) -> None:
    async def main() -> None:
        workers = Workers(asyncio.get_running_loop())
        disk = RealDisk(workers)
        disk.writer._slow_until = float("inf")
        try:
            await asyncio.wait_for(story(disk), 60)
        finally:
            await asyncio.to_thread(workers.stop)

    asyncio.run(main())


def opened(disk: RealDisk, path: Path) -> RealFile:
    file = disk.open(str(path), create=True)
    assert isinstance(file, RealFile)
    return file


def one_pass(disk: RealDisk, file: RealFile, position: int, data: bytes) -> Told:
    """Write as a pass of a connection does, from a buffer that is used again at once."""
    told: Told = asyncio.get_running_loop().create_future()
    buffer = bytearray(data)
    disk.begin_gather()
    file.write_at(position, [memoryview(buffer)])
    assert disk.end_gather(told.set_result) is None
    buffer[:] = bytes(len(buffer))
    return told


def flushed(disk: RealDisk, *those: RealFile) -> "asyncio.Future[OSError | None]":
    done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    disk.flush(those, done.set_result)
    return done


def test_a_slow_pass_has_the_next_ones_written_by_the_thread_until_they_are_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(disk: RealDisk) -> None:
        now = [1000.0]
        monkeypatch.setattr(append_writer, "monotonic", lambda: now[0])
        disk.writer._slow_until = 0.0
        disk.writer.took(0.009, 100, 1)
        disk.writer.took(0.300, 100_000_000, 1)
        disk.writer.took(0.080, 100, 1000)
        held_up = disk.writer.wanted
        assert not held_up, "quick, or as long as so much and so many take"
        disk.writer.took(0.050, 100, 1)
        assert disk.writer.wanted
        file = opened(disk, tmp_path / "f")
        assert await one_pass(disk, file, 0, b"one") == []
        now[0] += append_writer.SLOW_FOR_SECONDS
        disk.begin_gather()
        file.write_at(3, [b"two"])
        assert disk.end_gather(lambda _: None) == []
        assert (tmp_path / "f").read_bytes() == b"onetwo"
        file.close()

    on_loop(story)


def test_flushes_and_reads_wait_for_what_the_thread_has_not_written(
    tmp_path: Path, gate: Gate
) -> None:
    async def story(disk: RealDisk) -> None:
        file = opened(disk, tmp_path / "f")
        written = one_pass(disk, file, 0, b"first")
        after = one_pass(disk, file, 5, b"second")
        flush = flushed(disk, file)
        read: asyncio.Future[bytes | BaseException] = asyncio.get_running_loop().create_future()
        disk.run(lambda: file.read(0, 99), read.set_result)
        assert file.read_cached(0, 5) is None
        await asyncio.to_thread(gate.arrived.wait, 30)
        await asyncio.sleep(0.05)
        assert not any(one.done() for one in (written, after, flush, read))
        gate.opened.set()
        assert await written == await after == []
        assert await flush is None
        assert await read == b"firstsecond"
        assert file.read_cached(0, 99) == b"firstsecond"
        file.close()

    on_loop(story)


@pytest.mark.parametrize(
    "use",
    [RealFile.sync, RealFile.size, RealFile.close, lambda file: file.truncate(4)],
    ids=["sync", "size", "close", "truncate"],
)
def test_who_uses_a_file_elsewhere_waits_for_what_the_thread_has_not_written(
    tmp_path: Path, gate: Gate, use: Callable[[RealFile], object]
) -> None:
    async def story(disk: RealDisk) -> None:
        file = opened(disk, tmp_path / "f")
        written = one_pass(disk, file, 0, b"first")
        await asyncio.to_thread(gate.arrived.wait, 30)
        used = asyncio.create_task(asyncio.to_thread(use, file))
        await asyncio.sleep(0.05)
        assert not used.done()
        assert (tmp_path / "f").read_bytes() == b""
        gate.opened.set()
        await used
        assert await written == []
        assert (tmp_path / "f").read_bytes() in (b"first", b"firs")
        file.close()

    on_loop(story)


def test_a_pass_that_finds_its_batches_written_by_another_waits_for_that_one(
    tmp_path: Path, gate: Gate
) -> None:
    async def story(disk: RealDisk) -> None:
        file = opened(disk, tmp_path / "f")
        first = one_pass(disk, file, 0, b"first")
        retry: Told = asyncio.get_running_loop().create_future()
        disk.begin_gather()
        assert disk.end_gather(retry.set_result) is None
        assert disk.end_gather(print) == [], "a pass that asks for nothing of the kind goes on"
        await asyncio.sleep(0.05)
        assert not any(one.done() for one in (first, retry))
        gate.opened.set()
        assert await retry == []
        assert first.done()
        file.close()

    on_loop(story)


def test_a_write_of_the_thread_that_fails_fails_the_flush_and_all_behind_it(
    tmp_path: Path, gate: Gate
) -> None:
    async def story(disk: RealDisk) -> None:
        bad, good = opened(disk, tmp_path / "bad"), opened(disk, tmp_path / "good")
        gate.broken = bad.fileno()
        failing = one_pass(disk, bad, 0, b"lost")
        behind = one_pass(disk, bad, 4, b"behind")
        fine = one_pass(disk, good, 0, b"fine")
        both, alone = flushed(disk, bad, good), flushed(disk, good)
        gate.opened.set()
        assert [path for path, _ in await failing] == [bad.path]
        assert [path for path, _ in await behind] == [bad.path]
        assert await fine == []
        assert isinstance(await both, OSError)
        assert await alone is None
        assert isinstance(await flushed(disk, bad), OSError)
        assert (tmp_path / "bad").read_bytes() == b""
        assert (tmp_path / "good").read_bytes() == b"fine"
        bad.close()
        good.close()

    on_loop(story)


class Slow(BrokerThread):
    """A broker whose writes are the thread's, for good."""

    def start(self) -> Self:
        super().start()
        self.call(
            lambda server: setattr(cast(RealDisk, server.disk).writer, "_slow_until", float("inf"))
        )
        return self


def producer(broker: BrokerThread, acks: str) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap, "acks": acks, "linger.ms": 0})


def ask_versions(broker: BrokerThread) -> bytes:
    """Something that needs no disk."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=20) as link:
        link.sendall(request_head(ApiKey.API_VERSIONS, 0, 7, "test", 0))
        return link.recv(8)


@pytest.mark.parametrize("acks", ["1", "all"])
@pytest.mark.parametrize("durable", ["true", "false"])
def test_a_producer_waits_for_its_own_writes_and_nobody_else_does(
    gate: Gate, acks: str, durable: str
) -> None:
    with Slow({"log.flush.on.ack": durable}) as broker:
        gate.opened.set()
        one = producer(broker, acks)
        told: list[object] = []
        one.produce("t", b"first", on_delivery=lambda error, _: told.append(error))
        one.flush(30)
        gate.opened.clear()
        gate.arrived.clear()
        one.produce("t", b"second", on_delivery=lambda error, _: told.append(error))
        one.poll(0)
        assert gate.arrived.wait(30)
        assert ask_versions(broker)[4:] == b"\x00\x00\x00\x07"
        one.poll(0.2)
        assert told == [None], "nothing is told before it is written"
        gate.opened.set()
        one.flush(30)
        assert told == [None, None]
        assert broker.call(lambda server: server.disk.passes_handed_over) >= 2
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        values = [message.value() for _ in range(2) if (message := consumer.poll(30))]
        consumer.close()
        assert values == [b"first", b"second"]


@pytest.mark.parametrize("acks", ["1", "all"])
def test_a_write_of_the_thread_that_fails_is_acknowledged_to_nobody(gate: Gate, acks: str) -> None:
    with Slow() as broker:
        gate.opened.set()
        one = producer(broker, acks)
        one.produce("t", b"good")
        assert one.flush(30) == 0
        gate.broken = broker.call(
            lambda server: server.broker.partition("t", 0).log.segments[-1].file.fileno()
        )
        told: list[object] = []
        two = Producer(
            {"bootstrap.servers": broker.bootstrap, "acks": acks, "message.timeout.ms": "2000"}
        )
        two.produce("t", b"lost", on_delivery=lambda error, _: told.append(error))
        two.flush(30)
        assert told != []
        assert all(one is not None for one in told)  # KafkaError cannot be compared with None


def test_while_the_thread_has_not_done_the_next_passes_are_its_too(
    tmp_path: Path, gate: Gate
) -> None:
    async def story(disk: RealDisk) -> None:
        file = opened(disk, tmp_path / "a")
        told = one_pass(disk, file, 0, b"one")
        disk.writer._slow_until = 0.0
        assert (disk.writer.busy, disk.writer.wanted, file.pins > 0) == (True, True, True)
        gate.opened.set()
        assert await told == []
        assert (disk.writer.busy, disk.writer.last, file.pins) == (False, None, 0)

    on_loop(story)


def test_behind_a_write_that_failed_nothing_is_written_though_the_disk_would_take_it(
    tmp_path: Path, gate: Gate
) -> None:
    async def story(disk: RealDisk) -> None:
        file = opened(disk, tmp_path / "a")
        gate.broken = file.fileno()
        gate.opened.set()
        assert await one_pass(disk, file, 0, b"lost") != []
        gate.broken = -1
        assert await one_pass(disk, file, 4, b"behind") != []
        assert (tmp_path / "a").stat().st_size == 0

    on_loop(story)
