"""The events of a run as lines of text."""

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.pipeline.quarantine.batch_records import records_read, refused_by_values
from headrace.terminal.failure import EXIT_INTERRUPTED
from headrace.terminal.output import counted


def lines_of_event(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show an event."""
    match event["event"]:
        case "run":
            profile = f" with profile {event['profile']}" if event["profile"] else ""
            yield f"{event['pipeline']}: run {event['run']}{profile}"
        case "finding":
            yield f"  {event['text']}"
        case "replay":
            yield f"  {event['flow']}: replay {event['replay']} is {event['state']}"
        case "flow":
            yield from _of_flow(event)
        case "batch":
            yield _of_batch(event)
            yield from _of_checks(event)
        case "stale":
            newest = event["newest"] or "none in this run"
            yield f"  ! {event['flow']}: check {event['check']!r}: stale, newest {newest}"
        case "fresh":
            yield f"  {event['flow']}: check {event['check']!r}: fresh again"
        case "end" if event["code"] in (0, EXIT_INTERRUPTED):
            yield f"ended after {event['seconds']} s: {event['text']}"


def _of_flow(event: Mapping[str, Any]) -> Iterator[str]:
    match event["state"]:
        case "waiting":
            last = event.get("failures_max")
            count = f" (error {event['failures']} of {last} in a row)" if last else ""
            yield f"  {event['text']}; next attempt in {event['retry_seconds']:g} s{count}"
        case "interrupted":
            yield f"  {event['flow']}: {event['text']}; the next start repeats it"
        case "started":
            yield f"  {event['flow']}: started"
    # The end of a flow is in the lines of its batches, or in the line of the command's error.


def _of_batch(event: Mapping[str, Any]) -> str:
    late = f", {event['late']:,} late" if event.get("late") else ""
    return (
        f"  {event['flow']}: batch {event['batch']}: {counted(records_read(event), 'record')} in"
        f" {event['seconds']:.1f} s{_refused(event)}{_lag(event)}{late}"
    )


def _refused(event: Mapping[str, Any]) -> str:
    count = sum(event.get("refused", {}).values())
    if not count:
        return ""
    by_values = refused_by_values(event)
    by_checks = count - by_values
    both = f" ({by_values:,} by their values, {by_checks:,} by checks)"
    return f", {count:,} refused{both if by_values and by_checks else ''}"


def _lag(event: Mapping[str, Any]) -> str:
    if event["lag"] is not None:
        return f", lag {event['lag']:,}"
    # Spark asks no topic for its end when it repeats a batch that an earlier start has planned.
    return ", lag unknown: planned by an earlier start" if event["offsets"] else ""


def _of_checks(event: Mapping[str, Any]) -> Iterator[str]:
    checks = event.get("checks")
    if checks is None:
        return
    for name, failed in checks["failed"].items():
        if failed:
            places = checks["examples"].get(name)
            first = f", first {places[0]}" if places else ""
            below = "; fewer pass than the check requires" if name in checks["below"] else ""
            rows = counted(checks["rows"], "row")
            yield f"  ! {event['flow']}: check {name!r}: {failed} of {rows} failed{first}{below}"
