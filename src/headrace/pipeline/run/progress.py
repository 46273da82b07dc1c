"""A finished batch as an event: from Spark's report of a query's progress, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.spark.source.offsets import MARK, Position

if TYPE_CHECKING:
    from headrace.model.nouns import TopicPartition


def batch_event(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a batch's event.

    `lag`: records that were in the topics and not yet read when the batch was planned; None if the
    sources did not report it.
    """
    sources = progress.get("sources", ())
    state = progress.get("stateOperators", ())
    watermark = progress.get("eventTime", {}).get("watermark")
    event: dict[str, Any] = {
        "batch": progress["batchId"],
        "records": progress.get("numInputRows", 0),
        "seconds": progress.get("batchDuration", 0) / 1000,
        "lag": _sum(_lag(source) for source in sources),
        "offsets": _ends(sources),
    }
    if watermark is not None and not watermark.startswith("1970-01-01"):
        event["watermark"] = watermark
    if state:
        event["late"] = sum(each.get("numRowsDroppedByWatermark", 0) for each in state)
        event["state_rows"] = sum(each.get("numRowsTotal", 0) for each in state)
    return event


def _lag(source: Mapping[str, Any]) -> int | None:
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if latest is None or end is None:
        return None
    return sum(max(0, offset - end.get(at, 0)) for at, offset in latest.items())


def _offsets(said: object) -> Mapping[TopicPartition, int] | None:
    if not isinstance(said, Mapping) or MARK not in said:
        return None
    return Position.of_json(said).offsets


def _ends(sources: Any) -> dict[str, int]:  # noqa: ANN401 - Spark's JSON
    found: dict[str, int] = {}
    for source in sources:
        ends = _offsets(source.get("endOffset")) or {}
        for at, offset in sorted(ends.items(), key=lambda item: item[0]):
            found[str(at)] = min(offset, found.get(str(at), offset))
    return found


def _sum(numbers: Any) -> int | None:  # noqa: ANN401 - an iterable of int | None
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
