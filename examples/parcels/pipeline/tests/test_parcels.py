"""The pipeline's own tests: `headrace pipeline test examples/parcels/pipeline`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.pipeline import PipelineUnderTest


def parcel(number: int, grams: int | None) -> object:
    return {"id": number, "customer": "ann", "grams": grams, "posted_at": "2026-11-20T12:00:00Z"}


def test_postage_is_by_begun_500_grams(pipeline: "PipelineUnderTest") -> None:
    run = pipeline.given("parcels", [parcel(1, 500), parcel(2, 501), parcel(3, 1)])
    assert run.rows("parcels", "id", "postage") == [(1, 160), (2, 220), (3, 160)]


def test_a_parcel_without_weight_is_quarantined(pipeline: "PipelineUnderTest") -> None:
    run = pipeline.given("parcels", [parcel(1, 0), parcel(2, None), parcel(3, 1)])
    assert run.rows("parcels", "id") == [(3,)]
    assert run.failed("parcels", "a parcel has a weight") == 2
    reasons = [reason for reason, _ in run.quarantined("parcels")]
    assert reasons == ["check: a parcel has a weight"] * 2


def test_a_message_that_is_no_parcel_is_quarantined(pipeline: "PipelineUnderTest") -> None:
    run = pipeline.given("parcels", [b"hello", parcel(1, 1)])
    assert run.rows("parcels", "id") == [(1,)]
    ((_, value),) = run.quarantined("parcels")
    assert value == b"hello"
