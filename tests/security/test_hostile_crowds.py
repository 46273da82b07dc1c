"""Many bad clients at once, against a broker in its own process: its memory stays bounded and a
well-behaved client beside them notices nothing."""

import contextlib
import os
import random
import resource
import select
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.wire.kafka.api import ApiKey
from tests.support.processes.process import BrokerProcess

MEGABYTE = 1 << 20
FRAME_BYTES = 100 * MEGABYTE
SLOW_SECONDS = 2.0
"""What a good client may wait at most, on a machine that has other work."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("crowd")) as one:
        yield one


@pytest.fixture
def many_files() -> Iterator[int]:
    """Lets this process open as many files as it may; yields how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(hard, 20_000) if hard != resource.RLIM_INFINITY else 20_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    yield most
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def memory(broker: BrokerProcess, field: int) -> int:
    """Bytes of one field of the broker's /proc/…/statm."""
    assert broker.process is not None
    pages = Path(f"/proc/{broker.process.pid}/statm").read_text().split()[field]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def rss(broker: BrokerProcess) -> int:
    """Bytes of memory the broker has written to."""
    return memory(broker, 1)


def taken(broker: BrokerProcess) -> int:
    """Bytes of memory the broker has asked for, zeroed and never written to included."""
    return memory(broker, 5)


def connect(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=10)


def request(key: int, version: int, body: bytes) -> bytes:
    """A frame with a header that is not a flexible one."""
    head = struct.pack(">hhih", key, version, 7, 1) + b"c"
    return struct.pack(">i", len(head) + len(body)) + head + body


class GoodClient:
    """One connection, kept, on which a request is answered soon or the test fails."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._link = connect(broker)
        self.slowest = 0.0
        self.ask()

    def ask(self) -> None:
        began = time.monotonic()
        self._link.sendall(request(ApiKey.API_VERSIONS, 0, b""))
        (size,) = struct.unpack(">i", self._receive(4))
        assert self._receive(size)[:4] == struct.pack(">i", 7)
        self.slowest = max(self.slowest, time.monotonic() - began)
        assert self.slowest < SLOW_SECONDS

    def _receive(self, size: int) -> bytes:
        got = b""
        while len(got) < size:
            more = self._link.recv(size - len(got))
            assert more, "the broker cut off a client that did nothing wrong"
            got += more
        return got

    def close(self) -> None:
        self._link.close()


@pytest.fixture
def good(broker: BrokerProcess) -> Iterator[GoodClient]:
    client = GoodClient(broker)
    yield client
    try:
        client.ask()
    finally:
        client.close()


def push(links: list[socket.socket], data: bytes, seconds: float) -> int:
    """Send `data` on all links again and again, as fast as they take it; returns bytes taken."""
    for link in links:
        link.setblocking(False)
    sent = 0
    end = time.monotonic() + seconds
    while links and time.monotonic() < end:
        _, ready, _ = select.select([], links, [], 0.1)
        for link in ready:
            try:
                sent += link.send(data)
            except BlockingIOError:
                pass
            except OSError:
                links.remove(link)
    return sent


def writes_and_reads(broker: BrokerProcess, topic: str, size: int = 600_000) -> None:
    """Produce a record, a large one, and read it back with a stock client, soon."""
    began = time.monotonic()
    value = bytes(size)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "log_level": 0})
    producer.produce(topic, value)
    assert producer.flush(10) == 0
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(10)
        assert message is not None
        assert message.value() == value
        assert time.monotonic() - began < 2 * SLOW_SECONDS
    finally:
        consumer.close()


def test_fifty_announcements_of_100_mb_cost_next_to_nothing(
    broker: BrokerProcess, good: GoodClient
) -> None:
    """Neither memory nor the others' place in queued.max.request.bytes."""
    before = taken(broker)
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(connect(broker)) for _ in range(50)]
        for link in links:
            link.sendall(struct.pack(">i", FRAME_BYTES) + bytes(1000))
        good.ask()
        time.sleep(0.3)
        assert taken(broker) - before < FRAME_BYTES
        writes_and_reads(broker, "announced")


def test_fifty_senders_of_100_mb_share_the_bound_and_leave_room_for_others(
    tmp_path: Path,
) -> None:
    bounded = BrokerProcess(tmp_path / "b", queued_max_request_bytes=64 * MEGABYTE)
    with bounded as broker, contextlib.ExitStack() as stack:
        good = GoodClient(broker)
        stack.callback(good.close)
        before = rss(broker)
        links = [stack.enter_context(connect(broker)) for _ in range(50)]
        for link in links:
            link.sendall(struct.pack(">i", 30 * MEGABYTE))
        sent = push(list(links), bytes(MEGABYTE), 2.0)
        assert sent > 30 * MEGABYTE
        good.ask()
        grown = rss(broker) - before
        assert grown < 150 * MEGABYTE, (grown >> 20, sent >> 20)
        writes_and_reads(broker, "beside", 10_000)  # large ones wait for the senders


def test_who_never_reads_is_not_answered_without_end(
    broker: BrokerProcess, good: GoodClient
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for _ in range(20):
        producer.produce("wide", bytes(900_000), partition=0)
    assert producer.flush(20) == 0
    fetch = struct.pack(">iiiibi", -1, 0, 1, 50 * MEGABYTE, 0, 1)
    fetch += struct.pack(">h", 4) + b"wide" + struct.pack(">iiqi", 1, 0, 0, 50 * MEGABYTE)
    before = rss(broker)
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(connect(broker)) for _ in range(10)]
        push(links, request(ApiKey.FETCH, 4, fetch), 1.5)
        good.ask()
        time.sleep(0.5)
        assert rss(broker) - before < 400 * MEGABYTE
        writes_and_reads(broker, "narrow")


def test_two_thousand_connections_one_of_which_is_yours(
    broker: BrokerProcess, good: GoodClient, many_files: int
) -> None:
    if many_files < 3_000:
        pytest.skip(f"this process may open {many_files} files only")
    before = rss(broker)
    with contextlib.ExitStack() as stack:
        links = []
        for _ in range(2_000):
            link = stack.enter_context(connect(broker))
            link.sendall(request(ApiKey.API_VERSIONS, 0, b""))  # who is silent is dropped
            links.append(link)
        good.ask()
        for link in links:
            assert link.recv(4)
        assert rss(broker) - before < 150 * MEGABYTE
        writes_and_reads(broker, "crowded")
    good.ask()


def test_half_frames_and_noise_then_gone(broker: BrokerProcess, good: GoodClient) -> None:
    noise = random.Random(20260501)
    whole = request(ApiKey.METADATA, 1, struct.pack(">i", 0))
    for number in range(300):
        with connect(broker) as link, contextlib.suppress(ConnectionError):
            link.sendall(
                whole[: noise.randrange(len(whole))]
                if number % 2
                else noise.randbytes(noise.randrange(1, 200))
            )
            if number % 3 == 0:  # a reset, not an orderly end
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if number % 50 == 0:
            good.ask()
    writes_and_reads(broker, "after-noise")
    assert broker.process is not None
    assert broker.process.poll() is None
    assert "Traceback" not in broker.output
