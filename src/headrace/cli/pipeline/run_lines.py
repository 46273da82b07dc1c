"""The events of a run as lines of text."""

from collections.abc import Mapping
from typing import Any


def line_of_event(event: Mapping[str, Any]) -> str | None:
    """Return an event as one line; None for one that is not shown."""
    match event["event"]:
        case "run":
            profile = f" with profile {event['profile']}" if event["profile"] else ""
            return f"{event['pipeline']}: run {event['run']}{profile}"
        case "finding":
            return f"  {event['text']}"
        case "flow":
            return _of_flow(event)
        case "batch":
            return _of_batch(event)
        case "end" if not event["code"]:
            return f"ended after {event['seconds']} s: {event['text']}"
    return None


def _of_flow(event: Mapping[str, Any]) -> str | None:
    match event["state"]:
        case "waiting":
            return f"  {event['text']}; next attempt in {event['retry_seconds']:g} s"
        case "done":
            return None
        case "failed":
            return None  # The command's own line says it.
        case state:
            return f"  {event['flow']}: {state}"


def _of_batch(event: Mapping[str, Any]) -> str:
    lag = "" if event["lag"] is None else f", lag {event['lag']:,}"
    late = f", {event['late']:,} late" if event.get("late") else ""
    return (
        f"  {event['flow']}: batch {event['batch']}: {event['records']:,} records in"
        f" {event['seconds']:.1f} s{lag}{late}"
    )
