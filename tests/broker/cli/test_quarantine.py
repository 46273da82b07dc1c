"""`headrace pipeline quarantine` on a broker that has refused records."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from headrace.client.client import Client
from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.pipeline.quarantine import settlement
from headrace.pipeline.quarantine.records import Quarantined, read_committed, read_quarantine
from headrace.spark.source.offsets import Position
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Asked, Says

NUMBER, NULL = 'id: expected an integer, got "x" (byte 6)', "id: is null"
LIST, SHOW = "pipeline quarantine list", "pipeline quarantine show"
REPLAY, DROP = "pipeline quarantine replay", "pipeline quarantine drop"


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        started.create_topics("orders", "orders.quarantine", partitions=2)
        yield started


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[Client]:
    with connect(broker.bootstrap) as made:
        yield made


def quarantine(client: Client, offset: int, reason: str, flow: str = "daily", **more: Any) -> None:
    """Write a refused record as a pipeline publishes it."""
    info = {
        "topic": "orders", "partition": 3, "offset": offset, "timestamp": 1000 + offset,
        "pipeline": more.get("pipeline", "shop"), "flow": flow, "run": "r", "batch": 4,
        "stage": "decode", "reason": reason, "field": "id", "schema": "aa",
        "attempt": more.get("attempt", 1),
    }  # fmt: skip
    headers = [("trace", b"\xff"), *((f"headrace.{k}", str(v).encode()) for k, v in info.items())]
    producer = Producer(client)
    run(
        producer.send(
            "orders.quarantine", b'{"id":"x"}', b"key", timestamp=1000 + offset,
            headers=headers, partition=more.get("partition", offset % 2),
        )
    )  # fmt: skip
    run(producer.flush())


@pytest.fixture
def refused(client: Client) -> None:
    """Three records of flow `daily` and one of `hourly`."""
    for offset, reason in ((10, NUMBER), (11, NUMBER.replace('"x"', '"y"')), (12, NULL)):
        quarantine(client, offset, reason)
    quarantine(client, 10, NUMBER, "hourly")


def retried(client: Client, topic: str = "shop.orders.retry") -> list[tuple[str, str]]:
    """Flow and original offset of the records that a committed reader of the topic sees."""
    found = []
    for _, record in read_committed(client, topic):
        headers = dict(record.headers)
        assert record.value == b'{"id":"x"}'
        assert record.key == b"key"
        assert headers["trace"] == b"\xff"
        flow, offset = (headers[f"headrace.{name}"] or b"" for name in ("flow", "offset"))
        assert record.timestamp == 1000 + int(offset)
        found.append((flow.decode(), offset.decode()))
    return sorted(found)


def states(asked: Asked) -> dict[str, int]:
    counts: dict[str, int] = {}
    for group in asked(LIST, "orders", "--all")[1]:
        counts[group["state"]] = counts.get(group["state"], 0) + group["records"]
    return counts


@pytest.mark.usefixtures("refused")
def test_refused_records_are_listed_by_reason_and_flow(asked: Asked, says: Says) -> None:
    code, found = asked(LIST, "orders")
    assert code == 0
    first = {
        "reason": "id: expected an integer, got a string", "pipeline": "shop", "flow": "daily",
        "state": "waiting", "records": 2, "refused_again": 0, "first_ms": 1010,
        "last_ms": 1011, "example": "orders-3@10",
    }  # fmt: skip
    assert found[0] == first
    assert sorted((group["flow"], group["records"]) for group in found[1:]) == [
        ("daily", 1), ("hourly", 1),
    ]  # fmt: skip
    assert [group["flow"] for group in asked(LIST, "orders", "--flow", "hourly")[1]] == ["hourly"]
    assert [group["reason"] for group in asked(LIST, "orders", "--reason", "null")[1]] == [NULL]
    said = says("pipeline", "quarantine", "list", "orders")[1]
    assert "orders-3@10" in said
    assert "1970-01-01T00:00:01.010Z" in said


@pytest.mark.usefixtures("refused")
def test_a_refused_record_is_shown_for_each_flow(asked: Asked, says: Says) -> None:
    code, (daily, hourly) = asked(SHOW, "orders-3@10")
    assert code == 0
    assert {daily["info"]["flow"], hourly["info"]["flow"]} == {"daily", "hourly"}
    assert (daily["position"], daily["state"]) == ("orders-3@10", "waiting")
    assert (daily["key"], daily["value"]) == ("key", '{"id":"x"}')
    assert daily["headers"] == [{"key": "trace", "value": "/w==", "value_encoding": "base64"}]
    said = says("pipeline", "quarantine", "show", "orders-3@12")[1]
    assert said.startswith(f"orders-3@12: {NULL}\n")
    assert "flow: daily" in said
    assert all(f"\n  {label}: " in said for label in ("refused at", "run of the query", "batch"))
    code, _, error = says("pipeline", "quarantine", "show", "orders-3@99")
    assert (code, "orders-3@99 is not in the quarantine of orders" in error) == (4, True)
    assert says("pipeline", "quarantine", "show", "orders-3")[0] == 2


@pytest.mark.usefixtures("refused")
def test_records_are_replayed_once_each(asked: Asked, client: Client) -> None:
    code, sent = asked(REPLAY, "orders", "--reason", "integer", "--flow", "daily")
    row = {
        "pipeline": "shop", "flow": "daily", "topic": "shop.orders.retry", "records": 2,
        "refused_again": 0, "ranges": [{"partition": 3, "first": 10, "last": 11}],
        "outcome": None,
    }  # fmt: skip
    assert (code, sent) == (0, [row])
    assert retried(client) == [("daily", "10"), ("daily", "11")]
    assert asked(REPLAY, "orders", "--reason", "integer", "--flow", "daily")[1] == []
    _, rest = asked(REPLAY, "orders")
    assert [(row["flow"], row["records"]) for row in rest] == [("daily", 1), ("hourly", 1)]
    assert retried(client) == [
        ("daily", "10"), ("daily", "11"), ("daily", "12"), ("hourly", "10"),
    ]  # fmt: skip
    assert asked(LIST, "orders")[1] == []
    assert states(asked) == {"replayed": 4}
    quarantine(client, 13, NULL)
    assert [row["records"] for row in asked(REPLAY, "orders")[1]] == [1]
    assert len(retried(client)) == 5


@pytest.mark.usefixtures("refused")
def test_dropped_records_are_not_replayed(asked: Asked, says: Says, client: Client) -> None:
    assert says("pipeline", "quarantine", "drop", "orders")[0] == 2, "it asks"
    assert states(asked) == {"waiting": 4}
    code, dropped = asked(DROP, "orders", "--before", "1011", "--yes")
    assert code == 0
    assert [(row["flow"], row["records"]) for row in dropped] == [("daily", 1), ("hourly", 1)]
    assert states(asked) == {"dropped": 2, "waiting": 2}
    assert asked(DROP, "orders", "--before", "1011", "--yes")[1] == []
    asked(REPLAY, "orders")
    assert retried(client) == [("daily", "11"), ("daily", "12")]
    assert states(asked) == {"dropped": 2, "replayed": 2}
    assert says("pipeline", "quarantine", "drop", "orders", "--before", "never", "--yes")[0] == 2


@pytest.mark.usefixtures("refused")
def test_a_replay_that_is_killed_before_its_commit_is_repeated_whole(
    asked: Asked, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(transactions, "end", killed)
        with pytest.raises(KeyboardInterrupt):
            settlement.replay(client, "orders", ("shop", "daily"), lambda record: True)
    assert [row["records"] for row in asked(REPLAY, "orders", "--flow", "daily")[1]] == [3]
    assert retried(client) == [("daily", "10"), ("daily", "11"), ("daily", "12")]


@pytest.mark.usefixtures("refused")
def test_of_two_replays_the_older_one_sends_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = read_quarantine
    counts: list[int] = []

    def overtaken(*arguments: Any) -> Iterator[Quarantined]:
        with monkeypatch.context() as patched:
            patched.setattr(settlement, "read_quarantine", read)
            owner = ("shop", "daily")
            sent = settlement.replay(client, "orders", owner, lambda record: True)
            counts.append(sent.records)
        return read(*arguments)

    monkeypatch.setattr(settlement, "read_quarantine", overtaken)
    from headrace.model.errors import ApiError

    with pytest.raises(ApiError):
        settlement.replay(client, "orders", ("shop", "daily"), lambda record: True)
    assert counts == [3]
    assert retried(client) == [("daily", "10"), ("daily", "11"), ("daily", "12")]


def test_a_replay_that_no_query_reads_yet_is_noted(says: Says, client: Client) -> None:
    for offset in (1, 2):
        quarantine(client, offset, NULL)
        code, said, noted = says("pipeline", "quarantine", "replay", "orders")
        assert code == 0
        assert said.startswith("1 sent to shop.orders.retry for flow daily (once")
        assert ("shop.orders.retry is new: no query has read it" in noted) == (offset == 1)


def test_pipelines_have_retry_topics_of_their_own(asked: Asked, client: Client) -> None:
    quarantine(client, 1, NULL)
    quarantine(client, 2, NULL, pipeline="other")
    assert [row["topic"] for row in asked(REPLAY, "orders")[1]] == [
        "other.orders.retry", "shop.orders.retry",
    ]  # fmt: skip
    assert retried(client, "other.orders.retry") == [("daily", "2")]


def test_a_topic_without_a_quarantine_is_not_found(asked: Asked, says: Says) -> None:
    for verb in ("list", "replay"):
        code, _, error = says("pipeline", "quarantine", verb, "payments")
        assert code == 4
        assert "the topic payments.quarantine: there is no such topic" in error
    code, _, said = says("pipeline", "quarantine", "list", "orders")
    assert (code, said) == (0, "no refused records of orders\n")
    assert asked(REPLAY, "orders") == (0, [])


def test_settled_records_are_ranges_in_a_compacted_topic(asked: Asked, client: Client) -> None:
    for offset in range(6):
        quarantine(client, offset, NULL if offset < 4 else NUMBER, partition=0)
    asked(REPLAY, "orders", "--reason", "null")
    asked(DROP, "orders", "--yes")
    records = list(read_committed(client, "shop.daily.quarantine.settled"))
    assert [(record.key, record.value) for _, record in records] == [
        (b"orders.quarantine-0", b'[[0, 3, "replayed"]]'),
        (b"orders.quarantine-0", b'[[0, 3, "replayed"], [4, 5, "dropped"]]'),
    ]
    assert records[0][0] == TopicPartition("shop.daily.quarantine.settled", 0)


def test_a_quarantine_is_read_record_by_record(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic of any size is listed in the memory of its groups."""
    pulled = 0
    read = read_quarantine

    def counting(*arguments: Any) -> Iterator[Quarantined]:
        nonlocal pulled
        for record in read(*arguments):
            pulled += 1
            yield record

    for offset in range(6):
        quarantine(client, offset, NULL)
    monkeypatch.setattr(settlement, "read_quarantine", counting)
    found = settlement.waiting(client, "orders", lambda record: True)
    assert next(found)[1] is None
    assert pulled == 1
    assert len(list(found)) == 5
    sent: list[int] = []
    monkeypatch.setattr(settlement, "_send", lambda *_: sent.append(pulled))
    pulled = 0
    done = settlement.replay(client, "orders", ("shop", "daily"), lambda record: True)
    assert done.records == 6
    assert sent == [1, 2, 3, 4, 5, 6]


def test_reasons_beyond_the_bound_of_the_list_are_counted_together(
    asked: Asked, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pipeline.commands.quarantine.GROUPS_MAX", 2)
    for offset, reason in enumerate(("a", "b", "c", "d", "a", "c")):
        quarantine(client, offset, reason, partition=0)
    found = {group["reason"]: group["records"] for group in asked(LIST, "orders")[1]}
    assert found == {"(other reasons)": 3, "a": 2, "b": 1}


def test_settled_ranges_grow_at_both_ends_and_between(asked: Asked, client: Client) -> None:
    for offset, reason in enumerate("abcab"):
        quarantine(client, offset, reason, partition=0)
    for reason in "bca":
        assert [row["records"] for row in asked(REPLAY, "orders", "--reason", reason)[1]] == [
            {"a": 2, "b": 2, "c": 1}[reason]
        ]
        assert asked(REPLAY, "orders", "--reason", reason)[1] == []
    *_, (_, record) = read_committed(client, "shop.daily.quarantine.settled")
    assert record.value == b'[[0, 4, "replayed"]]'


@pytest.mark.usefixtures("refused")
def test_covered_records_wait_again_one_by_one(client: Client, asked: Asked) -> None:
    """Records between settled ones wait again without the others; other outcomes stay."""
    owner = ("shop", "daily")

    def moved(before: str | None, after: str | None, *offsets: int) -> int:
        def decide(record: Quarantined, outcome: str | None) -> str | None:
            chosen = int(record.info["offset"]) in offsets and outcome == before
            return after if chosen else outcome

        return settlement.settle(client, "orders", owner, decide)

    for offset in (14, 16):
        quarantine(client, offset, NULL)
    assert moved(None, "covered", 10, 12, 14) == 3
    assert moved(None, "covered", 10, 12, 14) == 0
    assert states(asked) == {"covered": 3, "waiting": 3}
    assert moved("covered", None, 12) == 1
    assert states(asked) == {"covered": 2, "waiting": 4}
    assert moved("covered", None, 12, 16) == 0
    assert settlement.drop(client, "orders", owner, lambda r: r.place[1] in (10, 12)) == 1
    assert moved("covered", None, 10, 12, 14) == 2, "12 is dropped"
    assert states(asked) == {"dropped": 1, "waiting": 5}
    assert moved("dropped", "replayed", 12) == 1
    assert states(asked) == {"replayed": 1, "waiting": 5}


def test_replay_tells_the_records_their_topic_and_what_happens_next(
    says: Says, asked: Asked, client: Client
) -> None:
    for offset in (10, 11, 12, 20, 30, 31, 40, 50, 60):
        quarantine(client, offset, NULL, partition=0, attempt=2 if offset == 31 else 1)
    (group,) = asked(LIST, "orders")[1]
    assert (group["records"], group["refused_again"]) == (9, 1)
    code, said, _ = says("pipeline", "quarantine", "replay", "orders")
    assert code == 0
    assert said.splitlines() == [
        "9 sent to shop.orders.retry for flow daily (once, in one transaction): orders-3@10..12, "
        "orders-3@20, orders-3@30..31, orders-3@40, orders-3@50 and 1 range more",
        "  refused again after an earlier replay: 1",
        "  next: the flow's next batch in a run of shop reads them; headrace pipeline quarantine "
        "list orders counts what it refuses again",
    ]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The project `shop`, whose flow `daily` writes the table `rows`."""
    (tmp_path / "pipeline.toml").write_text('name = "shop"\n')
    return tmp_path


def finish_batch(shop: Path, number: int, retry_offset: int) -> None:
    """Let the flow's checkpoint have a finished batch up to an offset of the retry topic."""
    ends = {TopicPartition("shop.orders.retry", 0): retry_offset}
    line = json.dumps(Position("", ends).to_json())
    for name, content in (("offsets", f"v1\n{{}}\n{line}"), ("commits", "v1\n{}")):
        directory = shop / "data" / "_checkpoints" / "rows" / "daily" / "0" / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / str(number)).write_text(content)


@pytest.mark.usefixtures("refused")
def test_replay_waits_for_the_flow_and_counts_what_it_refuses_again(
    says: Says, client: Client, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarantine(client, 10, NULL, pipeline="other")
    finish_batch(shop, 0, 0)
    ends = iter([3, 4])  # three records, then the marker of their transaction

    def batch(seconds: float) -> None:
        """A batch of the flow; the last one has read all, and refuses one again."""
        end = next(ends)
        if end == 4:
            quarantine(client, 11, NUMBER, attempt=2)
            quarantine(client, 12, NUMBER, flow="hourly", attempt=2)
            quarantine(client, 98, NUMBER, attempt=2)  # of an earlier replay
            quarantine(client, 99, NUMBER)
        finish_batch(shop, end, end)

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=batch)
    monkeypatch.setattr("headrace.pipeline.commands.quarantine.time", clock)
    words = ["replay", "orders", "--wait", "1h", "-d", str(shop)]
    code, said, _ = says("pipeline", "quarantine", *words, "--flow", "daily")
    assert code == 0
    assert said.splitlines() == [
        "3 sent to shop.orders.retry for flow daily (once, in one transaction): orders-3@10..12",
        "  3 read: 2 accepted, 1 refused again",
    ]
    assert retried(client) == [("daily", "10"), ("daily", "11"), ("daily", "12")]


@pytest.mark.usefixtures("refused")
def test_replay_that_is_not_read_in_time_is_an_error_and_stays_sent(
    says: Says, asked: Asked, client: Client, shop: Path
) -> None:
    words = ["replay", "orders", "--wait", "0s", "-d", str(shop)]
    code, said, error = says("pipeline", "quarantine", *words, "--flow", "daily")
    assert (code, "not read within 0s: is there a run of shop?" in error) == (1, True)
    assert "next: the flow's next batch in a run of shop reads them" in said
    assert len(retried(client)) == 3
    words = ["replay", "orders", "--wait", "soon", "-d", str(shop)]
    assert says("pipeline", "quarantine", *words)[0] == 2
    assert says("pipeline", "quarantine", *words[:-1], str(shop / "no"))[0] == 4
    assert states(asked) == {"replayed": 3, "waiting": 1}
