"""Records of a retry topic, restored to their first position."""

from typing import Any

import pyarrow as pa
import pytest

from headrace.arrow.read.columns import TYPES
from headrace.arrow.typed.typed_rows import Mode, TypedValues
from headrace.model.nouns import TopicPartition
from headrace.spark.errors import OptionError, SourceError
from headrace.spark.quarantine import range_task
from headrace.spark.quarantine.manifest import read_manifest, write_manifest
from headrace.spark.quarantine.range_task import QuarantinedRange, TaskQuarantine
from headrace.spark.quarantine.retried import Reader, restored
from headrace.spark.quarantine.spool import Planned, Spool
from headrace.spark.source.options import parse_options
from tests.unit.spark.quarantine.test_quarantine_options import SOURCE
from tests.unit.spark.quarantine.test_spool_and_manifest import AT, Context

READER = Reader("orders", "q", {})
PLACE = TopicPartition("t", 3)


def headers(offset: int, flow: str = "orders", **more: str | None) -> list[dict[str, Any]]:
    info = {
        "topic": "t", "partition": "3", "offset": str(offset), "timestamp": "1700000000123",
        "flow": flow, "attempt": "2", **more,
    }  # fmt: skip
    added = [
        {"key": f"headrace.{name}", "value": value.encode()}
        for name, value in info.items()
        if value is not None
    ]
    return [{"key": "h", "value": b"\xff"}, *added]


def batch(*rows: list[dict[str, Any]] | None, values: list[bytes] | None = None) -> pa.RecordBatch:
    count = len(rows)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(values or [b'{"id":1}'] * count, pa.binary()),
            pa.array(range(100, 100 + count), pa.int64()),
            pa.array([b"k"] * count, pa.binary()),
            pa.array([0] * count, TYPES["timestamp"]),
            pa.array(list(rows), TYPES["headers"]),
            pa.array([0] * count, pa.int32()),
        ],
        names=["value", "offset", "key", "timestamp", "headers", "partition"],
    )


def test_records_of_the_flow_get_their_first_position_and_headers() -> None:
    given = batch(headers(7), headers(8, "another"), headers(9))
    (found,) = restored(iter([given]), READER, "p.t.retry-0")
    assert found.column("offset").to_pylist() == [7, 9]
    assert found.column("partition").to_pylist() == [3, 3]
    assert found.column("topic").to_pylist() == ["t", "t"]
    assert found.column("attempt").to_pylist() == [2, 2]
    assert found.column("headers").to_pylist() == [[{"key": "h", "value": b"\xff"}]] * 2
    micros = found.column("timestamp").cast(pa.int64()).to_pylist()
    assert micros == [1_700_000_000_123_000] * 2


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ({PLACE: 8}, [7, 9, 10]),
        ({PLACE: 0}, [9, 10]),
        ({TopicPartition("t", 2): 0}, [9, 10]),
        ({PLACE: 20}, [7, 8, 9, 10]),
        ({}, [7, 8, 9, 10]),
    ],
)
def test_a_record_of_an_earlier_query_is_left_out_if_this_one_has_read_it(
    first: dict[TopicPartition, int], expected: list[int]
) -> None:
    """A new partition was read from its beginning; records of an older release name no query."""
    given = batch(headers(7, query="p"), headers(8, query="p"), headers(9, query="q"), headers(10))
    (found,) = restored(iter([given]), Reader("orders", "q", first), "p.t.retry-0")
    assert found.column("offset").to_pylist() == expected


@pytest.mark.parametrize(
    "bad",
    [None, [], headers(1, partition="x"), headers(1, attempt=None), headers(1, topic=None)],
)
def test_a_record_that_was_not_replayed_is_an_error_with_its_offset(bad: Any) -> None:
    with pytest.raises(SourceError, match=r"p\.t\.retry-0@101 is no replayed record"):
        list(restored(iter([batch(headers(7), bad)]), READER, "p.t.retry-0"))


def test_a_record_refused_again_is_spooled_at_its_first_position(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_NUMBA", "0")
    monkeypatch.setattr(range_task, "TaskContext", Context())
    spool = Spool(str(tmp_path), "orders")
    spool.announce_sink("q")
    quarantine = TaskQuarantine(spool, "aa", (Planned(0, 100, 103),), retries=True)
    typed = TypedValues("id BIGINT", Mode.QUARANTINE)
    given = batch(headers(7), headers(8, "another"), headers(9), values=[b"{}", b"junk", b"junk"])
    place = TopicPartition("p.t.retry", 0)
    task = QuarantinedRange(typed, ("partition", "offset"), quarantine, place, (100, 103))
    (rows,) = task.rows(iter([given]))
    assert rows.select(["_partition", "_offset"]).to_pylist() == [{"_partition": 3, "_offset": 7}]
    manifest = write_manifest(spool, AT)
    assert manifest is not None
    (record,) = read_manifest(manifest.path)
    assert (record.place, record.attempt, record.timestamp) == ("t-3@9", 3, 1_700_000_000_123)
    assert record.headers == [("h", b"\xff")]
    (refusals,) = manifest.topics
    assert (refusals.topic, refusals.read, refusals.refused) == ("p.t.retry", 3, 1)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "needs isolation.level=read_committed"),
        ({"isolation.level": "read_uncommitted"}, "needs isolation.level=read_committed"),
        (
            {"kafka.isolation.level": "read_committed", "subscribe": None, "assign": '{"t":[0]}'},
            "only with subscribe",
        ),
        (
            {
                "isolation.level": "read_committed", "startingTimestamp": "5",
                "startingTimestampOn": "everyStart",
            },
            "without startingTimestampOn",
        ),
    ],
)  # fmt: skip
def test_retries_need_committed_records_of_named_topics(
    given: dict[str, str | None], reason: str
) -> None:
    options = {**SOURCE, "quarantineRetry": "true", **given}
    named = {name: value for name, value in options.items() if value is not None}
    with pytest.raises(OptionError, match=reason):
        parse_options(named, streaming=True)


def test_retry_topics_are_those_of_the_pipeline() -> None:
    options = parse_options(
        {**SOURCE, "quarantineRetry": "true", "isolation.level": "read_committed"}, streaming=True
    )
    assert options.quarantine is not None
    assert options.quarantine.retry_topics(["a", "b"]) == ("shop.a.retry", "shop.b.retry")
    without = parse_options(SOURCE, streaming=True).quarantine
    assert without is not None
    assert without.retry_topics(["a"]) == ()


def test_replayed_records_are_spooled_whole_before_the_last_rows(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writing task finds them there if a row of theirs fails a check."""
    monkeypatch.setenv("HEADRACE_NUMBA", "0")
    monkeypatch.setattr(range_task, "TaskContext", Context())
    spool = Spool(str(tmp_path), "orders")
    first = {PLACE: 0}
    quarantine = TaskQuarantine(spool, "aa", (Planned(0, 100, 103),), retries=True, first=first)
    typed, place = TypedValues("id BIGINT", Mode.QUARANTINE), TopicPartition("p.t.retry", 0)
    task = QuarantinedRange(typed, ("offset",), quarantine, place, (100, 103))
    given = batch(headers(7), headers(8, query="another"), headers(9), values=[b"{}"] * 3)
    rows = task.rows(iter([given]))
    assert next(rows).column("_offset").to_pylist() == [7, 9]
    (file,) = spool.all_replayed(AT)
    found = list(read_manifest(file))
    assert [(record.place, record.attempt) for record in found] == [("t-3@7", 2), ("t-3@9", 2)]
    assert (found[0].key, found[0].value, found[0].headers) == (b"k", b"{}", [("h", b"\xff")])
    assert write_manifest(spool, AT) is None, "nothing is refused"
    assert list(rows) == []
