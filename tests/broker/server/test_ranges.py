"""Large answers of a real broker: the files' bytes, whatever client, disk and log do meanwhile.

What the page cache holds is not asked of the system here, which drops pages when it is short of
memory: `PageCache` says it. That the disk knows what is there is tested in `tests/unit/posix`.
"""

import os
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.log.segment.served_ranges import RANGE_BYTES_MIN
from headrace.net.outlet import Outlet
from headrace.ports.disk import Buffer
from headrace.posix.files import RealFile
from headrace.record import batch
from headrace.record.record import new_record
from headrace.testing import BrokerThread
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import fetch, metadata, produce
from tests.support.net.links import Link

BATCHES = 40
RECORD_BYTES = 10_000
SEGMENT_BYTES = 3_000_000
VERSION = 11


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    settings = {
        "log.segment.bytes": str(SEGMENT_BYTES),
        "socket.send.buffer.bytes": "65536",
        "log.segment.delete.delay.ms": "0",
    }
    with BrokerThread(settings) as one:
        yield one


class Reader(Link):
    """One connection with a small receive buffer."""

    def __init__(self, broker: BrokerThread) -> None:
        super().__init__(broker, receive_buffer_bytes=1 << 16)

    def ask_fetch(self, topic: str, offset: int, max_bytes: int) -> None:
        asked = fetch.FetchPartition(0, -1, offset, -1, -1, max_bytes)
        wanted = [fetch.FetchTopic(topic, bytes(16), [asked])]
        request = fetch.FetchRequest(0, 1, max_bytes, 0, 0, -1, wanted)
        self.send(ApiKey.FETCH, VERSION, fetch.encode_request(VERSION, request))

    def fetched(self) -> fetch.FetchedPartition:
        answer = fetch.decode_response(VERSION, self.receive(ApiKey.FETCH, VERSION))
        return answer.topics[0].partitions[0]

    def fetch(self, topic: str, offset: int, max_bytes: int = 16 << 20) -> fetch.FetchedPartition:
        self.ask_fetch(topic, offset, max_bytes)
        return self.fetched()


class PageCache:
    """What is said to be in memory: a file that was written or read through, until it is `cool`.

    What the system was told to send is noted, and whether the loop knew that it need not wait.
    """

    def __init__(self) -> None:
        self.cold: set[str] = set()
        """Paths of files that are not there."""
        self.sent: list[int] = []
        """Sizes of what the system sent past the process."""
        self.unknown: list[str] = []
        """What it was told to send without a question whether all that is there."""
        self._known: tuple[str, int, int] | None = None

    def cached(self, file: RealFile, position: int, size: int) -> bool:
        held = file.path not in self.cold
        self._known = (file.path, position, size) if held else None
        return held

    def sends(self, file: RealFile, position: int, size: int) -> None:
        known, self._known = self._known, None
        if known != (file.path, position, size):
            self.unknown.append(f"{size} bytes of {file.path} at {position}")


@pytest.fixture(autouse=True)
def page_cache(monkeypatch: pytest.MonkeyPatch) -> PageCache:
    cache = PageCache()
    ask, send, read = RealFile.cached, RealFile.send, RealFile._read_nowait

    def noted(file: RealFile, position: int, size: int, to: int) -> int:
        cache.sends(file, position, size)
        cache.sent.append(send(file, position, size, to))
        return cache.sent[-1]

    def cached(file: RealFile, position: int, size: int) -> bool:
        ask(file, position, size)  # it writes what is held back, too
        return cache.cached(file, position, size)

    def read_nowait(file: RealFile, position: int, into: Buffer) -> int:
        if file.path not in cache.cold:
            file._cached_flags = 0  # taken for memory
        return read(file, position, into)

    monkeypatch.setattr(RealFile, "cached", cached)
    monkeypatch.setattr(RealFile, "send", noted)
    monkeypatch.setattr(RealFile, "_read_nowait", read_nowait)
    return cache


@pytest.fixture
def link(broker: BrokerThread) -> Iterator[Reader]:
    reader = Reader(broker)
    with closing(reader.socket):
        yield reader


class Filled:
    """A topic with `BATCHES` batches, and the bytes of its files."""

    def __init__(self, broker: BrokerThread, name: str) -> None:
        self.broker = broker
        self.name = name
        self.directory = Path(broker.directory) / f"{name}-0"
        link = Reader(broker)
        with closing(link.socket):
            self._fill(link)

    def _fill(self, link: Reader) -> None:
        name = self.name
        wanted = metadata.MetadataRequest([metadata.TopicRequest(name)])
        link.send(ApiKey.METADATA, 8, metadata.encode_request(8, wanted))
        link.receive(ApiKey.METADATA, 8)
        for number in range(BATCHES):
            records = [
                new_record(bytes([number, each]) * (RECORD_BYTES // 2), timestamp=1_780_000_000_000)
                for each in range(20)
            ]
            data = produce.PartitionData(0, batch.build(records))
            request = produce.ProduceRequest(None, -1, 20_000, [
                produce.TopicData(name, bytes(16), [data])
            ])  # fmt: skip
            link.send(ApiKey.PRODUCE, 8, produce.encode_request(8, request))
            answer = produce.decode_response(8, link.receive(ApiKey.PRODUCE, 8))
            assert answer.topics[0].partitions[0].error_code == 0

    @property
    def files(self) -> list[Path]:
        return sorted(self.directory.glob("*.log"))

    def content(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.files)

    def cool(self, page_cache: PageCache) -> None:
        """Out of the page cache with it."""
        for path in self.files:
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            page_cache.cold.add(str(path))

    def read_through(self, link: Reader, max_bytes: int) -> bytes:
        """All of it, fetch by fetch."""
        out, offset = b"", 0
        while offset < BATCHES * 20:
            found = link.fetch(self.name, offset, max_bytes)
            assert found.error_code == 0
            assert isinstance(found.records, memoryview)
            out += found.records
            for _, header in batch.iterate(found.records):
                offset = batch.next_offset(header)
        return out


@pytest.fixture
def filled(broker: BrokerThread, request: pytest.FixtureRequest) -> Filled:
    name = f"t-{abs(hash(request.node.name))}"
    return Filled(broker, name)


@pytest.fixture
def by_range(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what left by an outlet."""
    sizes: list[int] = []
    send = Outlet.send

    def noted(outlet: Outlet, parts: Any) -> None:
        sizes.append(sum(map(len, parts)))
        send(outlet, parts)

    monkeypatch.setattr(Outlet, "send", noted)
    return sizes


@pytest.mark.parametrize("max_bytes", [100_000, 300_000, 1_000_000, 16 << 20])
@pytest.mark.parametrize("cold", [False, True])
def test_a_client_gets_the_files_bytes(
    filled: Filled,
    link: Reader,
    by_range: list[int],
    page_cache: PageCache,
    max_bytes: int,
    cold: bool,
) -> None:
    content = filled.content()
    if cold:
        filled.cool(page_cache)
    assert filled.read_through(link, max_bytes) == content
    assert bool(by_range) == (max_bytes >= RANGE_BYTES_MIN)
    assert not (cold and page_cache.sent), "what was not in memory was not looked at"
    if cold:
        page_cache.cold.clear()
        assert filled.read_through(link, max_bytes) == content
    assert filled.read_through(link, max_bytes) == content
    if max_bytes >= RANGE_BYTES_MIN:
        # But for what the socket did not take, which went by the transport: a small buffer here.
        assert sum(page_cache.sent) > len(content) // 4, "what was looked at was looked at again"
    assert page_cache.unknown == [], "the loop may have waited for the disk"


def test_the_loop_never_waits_for_the_disk(
    filled: Filled, link: Reader, page_cache: PageCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop_thread = filled.broker.call(lambda _: threading.get_ident())
    waited: list[str] = []
    read, preadv = RealFile.read, os.preadv

    def read_noted(file: RealFile, position: int, size: int) -> bytes:
        if threading.get_ident() == loop_thread and file.path.endswith(".log"):
            waited.append(f"read {file.path} at {position}")
        return read(file, position, size)

    def preadv_noted(fd: int, buffers: Any, position: int, flags: int = 0) -> int:
        if threading.get_ident() == loop_thread and not flags & os.RWF_NOWAIT:
            waited.append(f"preadv at {position}")
        return preadv(fd, buffers, position, flags)

    monkeypatch.setattr(RealFile, "read", read_noted)
    monkeypatch.setattr(os, "preadv", preadv_noted)
    for _ in range(3):
        filled.cool(page_cache)
        assert filled.read_through(link, 16 << 20) == filled.content()
    assert waited == []
    assert page_cache.sent == []


def test_a_slow_reader_of_a_segment_that_goes_gets_its_bytes_or_the_end(
    filled: Filled, link: Reader
) -> None:
    content = filled.content()
    link.ask_fetch(filled.name, 0, 16 << 20)
    begun = link.raw(1000)
    other = Reader(filled.broker)
    with closing(other.socket):
        other.ask(ApiKey.DELETE_TOPICS, 3, _delete_topics(filled.name))
    got = bytearray(begun)
    (size,) = struct.unpack_from(">i", begun)
    while len(got) < size + 4:
        try:
            more = link.socket.recv(100_000)
        except ConnectionResetError:
            break
        if not more:
            break
        got += more
    records_at = len(got) - got[::-1].index(content[:20][::-1]) - 20  # where the first batch begins
    assert bytes(got[records_at:]) == content[: len(got) - records_at]


def _delete_topics(name: str) -> bytes:
    text = name.encode()
    return struct.pack(">ih", 1, len(text)) + text + struct.pack(">i", 10_000)


def test_damage_found_while_sending_ends_the_connection_and_is_told_to_who_asks_again(
    filled: Filled, link: Reader, page_cache: PageCache
) -> None:
    first = filled.files[0]
    with first.open("r+b") as file:
        file.seek(first.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    # Bytes that were looked at, and stay in memory, are not looked at again.
    filled.cool(page_cache)
    with pytest.raises(ConnectionError):
        link.fetch(filled.name, 0)
    again = Reader(filled.broker)
    with closing(again.socket):
        offset, found = 0, again.fetch(filled.name, 0)
        while not found.error_code:
            assert isinstance(found.records, memoryview)
            for at, header in batch.iterate(found.records):
                size = batch.size_of(header)
                assert batch.crc_ok(found.records[at : at + size], header)
                offset = batch.next_offset(header)
            found = again.fetch(filled.name, offset)
    assert found.error_code == 56
    assert 0 < offset < BATCHES * 20
