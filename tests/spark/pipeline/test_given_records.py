"""The fixture `pipeline`: flows on given records, with real decoders, checks and state."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.given.given_run import GivenError
from headrace.spark.errors import CheckFailedError
from headrace.testing.pipeline import pipeline_of
from tests.spark.pipeline.projects import write_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headrace.testing.pipeline import PipelineUnderTest

LOG = """
from datetime import datetime, UTC
from typing import NamedTuple

class Line(NamedTuple):
    event_time: datetime
    client: str
    status: int | None

def parse(value):
    client, _, rest = value.decode().partition(" ")
    if not rest:
        raise hp.Unreadable("no time behind the client")
    time, _, status = rest.partition(" ")
    at = datetime.fromisoformat(f"2026-11-28T{time}").replace(tzinfo=UTC)
    return Line(at, client, int(status) if status else None)

def lines():
    return hp.topic("access-log", hp.parser(parse, Line), event_time="event_time",
                    watermark="2 minutes", heartbeats=True)

@dp.table
def requests():
    return lines().where("status IS NOT NULL").select("client", "status", "_offset")

@dp.table
def windows():
    minutes = lines().groupBy(F.window("event_time", "1 minute").alias("minute"))
    counted = minutes.agg(F.count("status").alias("requests"))
    return counted.select(F.col("minute.start").alias("window_start"), "requests")
"""
ORDERS = """
@F.udf("double")
def doubled(amount):
    return None if amount is None else amount * FACTOR

FACTOR = 2

@dp.temporary_view
def placed():
    return hp.topic("orders", "id BIGINT NOT NULL, amount DOUBLE, at TIMESTAMP",
                    event_time="at", watermark="10 minutes")

@dp.table(format="delta")
@hp.expect("large", "amount >= 10")
@hp.expect_or_drop("known amount", "amount > -1000")
@hp.expect_or_quarantine("amount is positive", "amount > 0")
def orders():
    return hp.read("placed").withColumn("twice", doubled("amount"))

@dp.table
@hp.expect_or_fail("mostly small", "amount < 100", at_least=0.5)
def small():
    return hp.read("placed").select("id", "amount")

@dp.table
def paid():
    payments = hp.topic("payments", "id BIGINT NOT NULL, paid_at TIMESTAMP",
                        event_time="paid_at", watermark="10 minutes", meta=False).alias("p")
    on = "o.id = p.id AND paid_at BETWEEN at AND at + INTERVAL 30 MINUTES"
    return hp.read("placed").alias("o").join(payments, F.expr(on)).select("o.id", "paid_at")

dp.create_sink("alerts", "headrace", {"topic": "order-alerts"})

@dp.append_flow(target="alerts")
def alerts():
    rows = hp.topic("orders", "id BIGINT, note STRING", meta="key")
    return rows.select(F.col("_key").alias("key"), F.to_json(F.struct("id")).alias("value"))

@dp.append_flow(target="alerts")
def more_alerts():
    rows = hp.topic("orders", "id BIGINT")
    return rows.where("id > 100").select(F.lit("large").alias("key"),
                                         F.lit("{}").alias("value"))
"""
NOON = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


def line(time: str, client: str = "10.0.0.1", status: int | None = 200) -> bytes:
    return f"{client} {time} {status}".encode()


def order(number: int, amount: float | None = 20.0, minute: int = 0) -> dict[str, Any]:
    at = NOON + timedelta(minutes=minute)
    return {"id": number, "amount": amount, "at": at.isoformat()}


@contextmanager
def project(place: Path, text: str) -> Iterator[PipelineUnderTest]:
    write_project(place, text)
    (place / "tests").mkdir()
    with pipeline_of(place / "tests" / "test_it.py") as found:
        yield found


@pytest.fixture
def log(spark: SparkSession, tmp_path: Path) -> Iterator[PipelineUnderTest]:
    with project(tmp_path, LOG) as found:
        yield found


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Iterator[PipelineUnderTest]:
    with project(tmp_path, ORDERS) as found:
        yield found


def test_a_late_line_is_not_counted(log: PipelineUnderTest) -> None:
    """The example of the design."""
    run = log.given(
        "access-log", [line("12:00:01"), b"junk"], [line("12:06:00")], [line("12:00:30")]
    )
    assert run.rows("windows", "window_start", "requests") == [(NOON, 1)]
    assert run.late("windows") == 1
    assert run.quarantined("access-log") == [("no time behind the client", b"junk")]
    assert run.rows("requests") == [
        ("10.0.0.1", 200, 0),
        ("10.0.0.1", 200, 2),
        ("10.0.0.1", 200, 3),
    ]


def test_micro_batches_decide_what_is_late(log: PipelineUnderTest) -> None:
    run = log.given("access-log", [line("12:00:01"), line("12:06:00"), line("12:00:30")])
    assert run.rows("windows") == [(NOON, 2)]
    assert run.late("windows") == 0


def test_heartbeats_advance_the_watermark(log: PipelineUnderTest) -> None:
    beat = log.record(None, timestamp=NOON + timedelta(minutes=5))
    run = log.given("access-log", [line("12:00:01")], [beat])
    assert run.rows("windows") == [(NOON, 1)]
    assert [row[2] for row in run.rows("requests")] == [0]
    assert run.quarantined("access-log") == []
    without = log.given("access-log", [line("12:00:01")], [line("12:00:02")])
    assert without.rows("windows") == []


def test_each_given_is_a_run_of_its_own(log: PipelineUnderTest) -> None:
    for _ in range(2):
        assert len(log.given("access-log", [line("12:00:01")]).rows("requests")) == 1


def test_checks_divide_rows_by_their_outcome(shop: PipelineUnderTest) -> None:
    amounts = [20.0, 5.0, 0.0, None, -2000.0]
    run = shop.given("orders", [order(each, amount) for each, amount in enumerate(amounts)])
    assert run.rows("orders", "id", "amount", "twice") == [(0, 20.0, 40.0), (1, 5.0, 10.0)]
    assert run.failed("orders", "large") == 4
    assert run.failed("orders", "known amount") == 2, "null fails, too"
    quarantined = run.quarantined("orders")
    assert [reason for reason, _ in quarantined] == ["check: amount is positive"] * 3
    assert b'"amount": 0.0' in (quarantined[0][1] or b"")


def test_a_check_may_fail_the_run_by_its_share_of_a_batch(shop: PipelineUnderTest) -> None:
    sound = shop.given("orders", [order(1, 100), order(2, 99)], [order(3, 1)])
    assert [row[0] for row in sound.rows("small")] == [1, 2, 3]
    assert sound.failed("small", "mostly small") == 1
    wrong = shop.given("orders", [order(1, 1), order(2, 1)], [order(3, 100)])
    with pytest.raises(CheckFailedError, match="'mostly small' failed: 1 of 1 row of batch 1"):
        wrong.rows("small")


def test_json_values_are_refused_with_their_reason(shop: PipelineUnderTest) -> None:
    run = shop.given("orders", [b'{"id": 1', '{"id": "x"}', {"amount": 1}, {"id": 4}], [b""])
    assert run.rows("paid") == []
    reasons = {value: reason for reason, value in run.quarantined("orders")}
    assert set(reasons) >= {b'{"id": 1', b'{"id": "x"}', b'{"amount": 1}', b""}
    assert "id" in reasons[b'{"id": "x"}']
    assert run.rows("alerts", "value") == [('{"id":4}',), ("{}",)], "its id may be null"


def test_two_topics_are_given_in_step(shop: PipelineUnderTest) -> None:
    payment = {"id": 2, "paid_at": (NOON + timedelta(minutes=5)).isoformat()}
    run = shop.given("orders", [order(1), order(2)]).given("payments", [], [payment])
    assert run.rows("paid") == [(2, NOON + timedelta(minutes=5))]
    late = {"id": 2, "paid_at": (NOON + timedelta(minutes=31)).isoformat()}
    assert shop.given("orders", [order(2)]).given("payments", [late]).rows("paid") == []


def test_rows_of_all_flows_into_a_sink_are_returned(shop: PipelineUnderTest) -> None:
    run = shop.given("orders", [shop.record(b'{"id": 200}', key=b"k")])
    assert run.rows("alerts") == [(b"k", '{"id":200}'), ("large", "{}")]


def test_unknown_names_are_errors_that_list_the_known(shop: PipelineUnderTest) -> None:
    run = shop.given("orders", [order(1)])
    with pytest.raises(GivenError, match="no flow writes to placed; tables and sinks: alerts, "):
        run.rows("placed")
    with pytest.raises(GivenError, match="small has no column price: id, amount"):
        run.rows("small", "price")
    with pytest.raises(GivenError, match="small has no check 'x': mostly small"):
        run.failed("small", "x")
    with pytest.raises(GivenError, match="give all records before"):
        run.given("payments", [])


def test_a_test_outside_of_a_project_is_an_error(tmp_path: Path) -> None:
    wrong = pipeline_of(tmp_path / "test_it.py")
    with pytest.raises(GivenError, match=r"no directory above .* has a pipeline\.toml"), wrong:
        pass


def test_errors_of_the_projects_files_are_errors(tmp_path: Path) -> None:
    write_project(tmp_path, "1 / 0\n")
    wrong = pipeline_of(tmp_path / "tests" / "test_it.py")
    with pytest.raises(GivenError, match=r"all\.py:4: ZeroDivisionError"), wrong:
        pass
