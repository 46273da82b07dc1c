"""A topic read from brokers up to its bound, by a consumer that answers as the test says."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.arrow.sql import topic_source
from headrace.arrow.sql.topic_source import ClusterTopics
from headrace.client.calls.fetch import Fetched
from headrace.client.calls.offsets import EARLIEST, OffsetAt
from headrace.client.client import BACKOFF_SECONDS_MIN
from headrace.client.consumer.consumer import Chunk
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record.batch import build, new_record

PLACE = TopicPartition("t", 0)
RETRY_SECONDS = 5.0
Answer = Sequence[bytes]


class FakeConsumer:
    """`Consumer`: gives what it was told to, then nothing."""

    made: "FakeConsumer"
    answers: Iterator[Answer]
    high_watermark = 10
    failing_for = 0

    def __init__(
        self, client: Any, positions: dict[TopicPartition, int], *, read_committed: bool, **_: int
    ) -> None:
        FakeConsumer.made = self
        self.client = client
        self.positions = positions
        self.read_committed = read_committed
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.polls = 0
        self.on_reset: Any = None

    @property
    def failing(self) -> bool:
        return self.polls <= self.failing_for

    async def poll(self) -> list[Chunk]:
        self.polls += 1
        self.high_watermarks[PLACE] = self.high_watermark
        chunks = []
        for data in next(self.answers, ()):
            position = self.positions[PLACE]
            fetched = Fetched("t", 0, 0, 10, 10, 0, (), memoryview(data))
            chunks.append(Chunk(PLACE, position, fetched, self.read_committed))
            self.positions[PLACE] = chunks[-1].next_position
        return chunks


class Cluster:
    """A cluster of one topic, by a clock that goes on while one waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Answer) -> None:
        self.now = 0.0
        self.start, self.end, self.stable = 0, 10, 10
        self.asked: list[tuple[int, bool]] = []
        self.told: list[str] = []
        transport = SimpleNamespace(now=lambda: self.now, sleep=self._sleep)
        self.client: Any = SimpleNamespace(
            transport=transport,
            retry_seconds=RETRY_SECONDS,
            leaders=self._leaders,
            __enter__=None,
        )
        monkeypatch.setattr(topic_source, "Consumer", FakeConsumer)
        monkeypatch.setattr(topic_source, "list_offsets", self._list_offsets)
        monkeypatch.setattr(topic_source, "run", _run)
        FakeConsumer.answers = iter(answers)
        FakeConsumer.high_watermark, FakeConsumer.failing_for = 10, 0
        itself: Any = self
        self.topics = ClusterTopics(lambda: itself, self.told.append)

    def __enter__(self) -> Any:
        return self.client

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds

    async def _leaders(self, topics: list[str]) -> Any:
        topic = SimpleNamespace(partitions=[SimpleNamespace(partition=0)])
        return SimpleNamespace(topics={"t": topic})

    async def _list_offsets(
        self, client: Any, wanted: dict[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt]:
        (which,) = wanted.values()
        self.asked.append((which, read_committed))
        latest = self.stable if read_committed else self.end
        offset = self.start if which == EARLIEST else latest
        return dict.fromkeys(wanted, OffsetAt(offset, -1, -1))

    def read(self, isolation: Any = "read_uncommitted") -> list[int]:
        """The offsets that come."""
        opened = self.topics.open("t", isolation)
        batches = opened.read(["offset"], opened.ranges)
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def _run(work: Any) -> Any:
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


def data(base: int, count: int) -> bytes:
    made = bytearray(build([new_record(b"x")] * count))
    made[:8] = base.to_bytes(8, "big")
    return bytes(made)


def test_records_come_up_to_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, [data(0, 4)], [data(4, 8)])
    assert cluster.read() == list(range(10))
    assert not FakeConsumer.made.read_committed


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_the_bound_and_the_reading_are_of_the_isolation(
    monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    cluster = Cluster(monkeypatch, [data(0, 20)])
    cluster.stable = 7
    committed = isolation == "read_committed"
    assert cluster.read(isolation) == list(range(7 if committed else 10))
    assert FakeConsumer.made.read_committed is committed


def test_a_bound_below_the_start_is_an_empty_range(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.start, cluster.stable = 8, 5
    assert cluster.topics.open("t", "read_committed").ranges == {0: (8, 8)}
    assert cluster.read("read_committed") == []


def test_what_compaction_took_up_to_the_end_is_believed_when_nothing_comes_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, [data(0, 4)], [], [])
    assert cluster.read() == [0, 1, 2, 3]
    assert FakeConsumer.made.polls == 3
    cluster = Cluster(monkeypatch, [data(0, 4)], [], [data(4, 3)], [], [])
    assert cluster.read() == [0, 1, 2, 3, 4, 5, 6]
    assert FakeConsumer.made.polls == 5


def test_nothing_is_believed_of_a_partition_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, [], [], [], [data(0, 10)])
    FakeConsumer.failing_for = 3
    assert cluster.read() == list(range(10))


def test_what_is_not_readable_to_its_end_is_waited_for_as_long_as_the_client_tries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, [data(0, 4)])
    FakeConsumer.high_watermark = 9
    with pytest.raises(ApiError, match="t-0: nothing of offsets 4 to 9 came in 5 s") as refusal:
        cluster.read()
    assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert RETRY_SECONDS <= cluster.now < RETRY_SECONDS + 1


def test_what_comes_now_and_then_is_waited_for_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pause: list[Answer] = [[]] * int(0.7 * RETRY_SECONDS / BACKOFF_SECONDS_MIN)
    answers = [answer for base in range(0, 10, 2) for answer in (*pause, [data(base, 2)])]
    cluster = Cluster(monkeypatch, *answers)
    FakeConsumer.high_watermark = 9
    assert cluster.read() == list(range(10))
    assert cluster.now > 2 * RETRY_SECONDS


def test_what_was_deleted_is_told_and_a_log_that_was_cut_off_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, [data(0, 10)])
    cluster.read()
    FakeConsumer.made.on_reset(PLACE, 4, 7)
    assert cluster.told == ["t-0: offsets 4 to 6 were deleted while they were read"]
    with pytest.raises(ApiError, match="t-0 was cut off below offset 4"):
        FakeConsumer.made.on_reset(PLACE, 4, 3)
