"""What the driver asks of the brokers and tells them: ends, times, commits of what was read."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.calls.fetch import Fetched
from headrace.client.calls.metadata import TopicMetadata
from headrace.client.calls.offsets import OffsetAt
from headrace.client.transport.port import Address
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record.batch import build, new_record
from headrace.spark.errors import SourceError
from headrace.spark.source import cluster, commits
from headrace.spark.source.cluster import Cluster
from headrace.spark.source.commits import Commits
from headrace.spark.source.connections import kept_connections
from headrace.spark.source.offsets import Ends
from headrace.spark.source.options import Bound, Fetching, Strategy, Subscription

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
HERE = Address("h", 1)

# --- what the cluster is asked --------------------------------------------------------------------


class Asked:
    """What `Cluster` asks of the brokers, and what they say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
        self.wanted: list[tuple[dict[TopicPartition, int], bool]] = []
        self.say: dict[tuple[TopicPartition, int], int] = {}
        monkeypatch.setattr(cluster, "list_offsets", self._list_offsets)
        monkeypatch.setattr(cluster, "run", _run)
        self.cluster = Cluster("h:1", Fetching(**more))

    async def _list_offsets(
        self, client: Any, wanted: dict[TopicPartition, int], *, read_committed: bool, metadata: Any
    ) -> dict[TopicPartition, OffsetAt]:
        if wanted:
            self.wanted.append((dict(wanted), read_committed))
        return {at: OffsetAt(self.say[at, which], -1, -1) for at, which in wanted.items()}


def _run(work: Any) -> Any:
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


def test_offsets_given_for_each_partition_may_be_any_and_either_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = [TopicPartition("t", number) for number in range(4)]
    asked = Asked(monkeypatch)
    asked.say = {(places[1], -2): 11, (places[2], -1): 22}
    bound = Bound(offsets={"t": {0: 0, 1: -2, 2: -1, 3: 5}})
    assert asked.cluster.resolve(bound, places) == dict(zip(places, (0, 11, 22, 5), strict=True))
    for wrong, text in (({0: 0}, "t-1 has none"), (dict.fromkeys(range(5), 0), "given for t-4")):
        with pytest.raises(SourceError, match=text):
            asked.cluster.resolve(Bound(offsets={"t": wrong}), places)


def test_the_first_record_may_be_as_late_as_a_time_and_none_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(monkeypatch)
    asked.say = {(T0, 5): 0, (T1, 5): -1, (T1, -1): 30}
    with pytest.raises(SourceError, match="no record of t-1 is as late as 5"):
        asked.cluster.resolve(Bound(timestamp=5), [T0, T1])
    found = asked.cluster.not_before(Bound(timestamp=5), [T0, T1])
    assert found == {T0: 0, T1: 30}
    asked.say[T1, 5] = 7
    assert asked.cluster.resolve(Bound(timestamps={"t": {0: 5, 1: 5}}), [T0, T1]) == {T0: 0, T1: 7}


@pytest.mark.parametrize("committed", [False, True])
def test_ends_are_of_the_querys_isolation_unless_another_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    asked = Asked(monkeypatch, read_committed=committed)
    asked.say = {(T0, -1): 9}
    asked.cluster.ends([T0], -1)
    asked.cluster.ends([T0], -1, read_committed=False)
    assert [isolation for _, isolation in asked.wanted] == [committed, False]


@pytest.mark.parametrize(
    ("retries", "interval_ms", "seconds"), [(3, 1000, 3.0), (0, 1000, 1.0), (8, 500, 4.0)]
)
def test_the_driver_tries_again_for_as_long_as_the_options_say(
    retries: int, interval_ms: int, seconds: float
) -> None:
    fetching = Fetching(retries=retries, retry_interval_ms=interval_ms, request_timeout_ms=7000)
    client = Cluster("h:1", fetching)._client
    assert client.retry_seconds == seconds
    assert client.request_timeout_seconds == 7.0


# --- what is there --------------------------------------------------------------------------------


class Metadata:
    """What the brokers say of topics."""

    def __init__(self, one: Cluster, **topics: int) -> None:
        self.asked: list[Any] = []
        self.topics = {
            name: TopicMetadata(name, bytes(16), False, [_partition(at) for at in range(count)])
            for name, count in topics.items()
        }
        client: Any = one._client
        client.metadata = client.leaders = self._metadata

    async def _metadata(self, names: Any, **_: Any) -> Any:
        self.asked.append(names)
        return SimpleNamespace(topics=self.topics, brokers={1: HERE}, cluster_id="c")


def _partition(at: int) -> Any:
    return SimpleNamespace(partition=at, leader=1)


def test_a_pattern_takes_what_it_matches_but_nothing_internal_or_in_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Asked(monkeypatch).cluster
    said = Metadata(one, orders=1, orders_old=1, __consumer_offsets=1, other=1)
    internal, failing = said.topics["__consumer_offsets"], said.topics["orders_old"]
    said.topics["__consumer_offsets"] = internal._replace(internal=True)
    said.topics["orders_old"] = failing._replace(error_code=5)
    view = one.look(Subscription(Strategy.PATTERN, pattern=".*or.*|__.*"))
    assert list(view.topics) == ["orders"]
    assert said.asked == [None], "of all topics"


def test_of_a_topic_that_is_assigned_only_those_partitions_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Asked(monkeypatch).cluster
    Metadata(one, t=4)
    view = one.look(Subscription(Strategy.ASSIGN, assigned=(("t", (1, 3)),)))
    assert [place.partition for place in view.partitions()] == [1, 3]
    with pytest.raises(SourceError, match="there is no partition t-4"):
        one.look(Subscription(Strategy.ASSIGN, assigned=(("t", (1, 4)),)))


class Sampled:
    """A connection whose fetch fails, or brings a batch of many offsets and one of few."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.closed = self.kept = 0

    def fetch(self, wanted: Any, *, max_wait_ms: int) -> list[Fetched]:
        if self.error is not None:
            raise self.error
        data = build([new_record(b"x" * 100)] * 8) + build([new_record(b"x")])
        return [Fetched("t", 0, 0, 9, 9, 0, (), memoryview(data))]

    def close(self) -> None:
        self.closed += 1


def test_an_offset_weighs_what_its_batches_do_and_a_connection_that_failed_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Asked(monkeypatch).cluster
    Metadata(one, t=1)
    view = one.look(Subscription(Strategy.SUBSCRIBE, topics=("t",)))
    good, bad = Sampled(), Sampled(ApiError(ErrorCode.REQUEST_TIMED_OUT))
    taken = [good, bad]
    kept: list[Any] = []
    monkeypatch.setattr(kept_connections, "take", lambda *_: taken.pop(0))
    monkeypatch.setattr(kept_connections, "give_back", lambda each, _: kept.append(each))
    (weight,) = one.record_bytes({T0: 0}, view).values()
    assert 100 < weight < 130
    with pytest.raises(SourceError):
        one.record_bytes({T0: 0}, view)
    assert (kept, good.closed, bad.closed) == ([good], 0, 1)


# --- commits --------------------------------------------------------------------------------------


class Shown:
    """A cluster to which commits go once the test lets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.began = threading.Event()
        self.committed: list[tuple[str, int]] = []
        self.refused: set[str] = set()
        monkeypatch.setattr(commits, "Cluster", lambda *_: self)
        self.commits = Commits("h:1", Fetching())

    def __enter__(self) -> "Shown":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def commit(self, group: str, ends: Ends) -> None:
        self.began.set()
        assert self.gate.wait(10)
        if group in self.refused:
            raise SourceError("refused")
        self.committed.append((group, ends[T0]))


def test_of_what_is_shown_while_a_commit_is_under_way_the_last_is_committed_before_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Shown(monkeypatch)
    here.commits.show("g", {T0: 1})
    assert here.began.wait(10)
    for offset in (2, 3, 4):
        here.commits.show("g", {T0: offset})
    closing = threading.Thread(target=here.commits.close)
    closing.start()
    while not here.commits._closed:
        time.sleep(0.001)
    here.commits.show("g", {T0: 5})
    here.gate.set()
    closing.join(10)
    assert here.committed == [("g", 1), ("g", 4)]


def test_a_group_that_is_refused_keeps_no_other_and_no_later_commit_from_being_made(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here = Shown(monkeypatch)
    here.gate.set()
    here.refused = {"bad"}
    here.commits.show("bad", {T0: 1})
    while "cannot commit offsets of group bad" not in caplog.text:
        time.sleep(0.001)
    here.commits.show("good", {T0: 2})
    here.commits.close()
    assert here.committed == [("good", 2)]
