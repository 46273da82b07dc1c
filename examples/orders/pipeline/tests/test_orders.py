"""The pipeline's own tests: `headrace pipeline test examples/orders/pipeline`."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.pipeline import PipelineUnderTest

NOON = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


def order(number: int, minutes: float = 0, amount: str = "39.90", sku: str = "kettle") -> object:
    at = NOON + timedelta(minutes=minutes)
    return {"id": number, "sku": sku, "amount": amount, "at": at.isoformat()}


def payment(number: int, minutes: float) -> object:
    return {"id": number, "paid_at": (NOON + timedelta(minutes=minutes)).isoformat()}


def test_an_order_that_is_paid_in_time_is_a_paid_order(pipeline: "PipelineUnderTest") -> None:
    run = pipeline.given("orders", [order(1), order(2), order(3)])
    run.given("payments", [payment(1, 1)], [payment(2, 30), payment(3, 30.5), payment(9, 1)])
    assert run.rows("paid_orders", "id", "amount") == [
        (1, Decimal("39.90")),
        (2, Decimal("39.90")),
    ]


def test_a_payment_may_arrive_before_its_order(pipeline: "PipelineUnderTest") -> None:
    run = pipeline.given("orders", [], [order(1)]).given("payments", [payment(1, 2)], [])
    assert run.rows("paid_orders", "id") == [(1,)]


def test_a_payment_before_the_time_of_its_order_does_not_count(
    pipeline: "PipelineUnderTest",
) -> None:
    run = pipeline.given("orders", [order(1, 5)]).given("payments", [payment(1, 4)])
    assert run.rows("paid_orders") == []


def test_revenue_is_written_when_its_window_is_over(pipeline: "PipelineUnderTest") -> None:
    early = [order(1), order(2, 4.9), order(3, 1, "5.00", "cup"), order(4, 5)]
    assert pipeline.given("orders", early).rows("revenue") == []
    run = pipeline.given("orders", early, [order(5, 15.1)])
    assert run.rows("revenue", "window_start", "sku", "revenue") == [
        (NOON, "cup", Decimal("5.00")),
        (NOON, "kettle", Decimal("79.80")),
    ]


def test_an_order_behind_the_watermark_is_late(pipeline: "PipelineUnderTest") -> None:
    run = pipeline.given("orders", [order(1)], [order(2, 30)], [order(3, 1)])
    assert run.rows("revenue", "revenue") == [(Decimal("39.90"),)]
    assert run.late("revenue") == 1


def test_windows_without_revenue_are_dropped(pipeline: "PipelineUnderTest") -> None:
    run = pipeline.given("orders", [order(1, 0, "-5.00")], [order(2, 30)])
    assert run.rows("revenue") == []
    assert run.failed("revenue", "revenue is positive") == 1


def test_orders_above_10000_are_alerts(pipeline: "PipelineUnderTest") -> None:
    run = pipeline.given("orders", [order(1, 0, "10000.00"), order(2, 0, "10000.01")])
    ((key, value),) = run.rows("alerts", "key", "value")
    assert (key, json.loads(value)["id"]) == ("kettle", 2)


def test_an_order_without_a_number_is_quarantined(pipeline: "PipelineUnderTest") -> None:
    run = pipeline.given("orders", [order(1), {"sku": "cup", "at": "2026-11-20T12:00:00Z"}])
    ((reason, _),) = run.quarantined("orders")
    assert "id" in reason
