"""The log into the topic, at a chosen speed, as a log shipper would send it.

Each line is a record: keyed by its client, so that a client's lines stay in order; its own event
time as the record's timestamp. A line that cannot be read has no key and the time of its arrival.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.pipeline import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from examples.access_log.pipeline.access_line import AccessLine

    Parse = Callable[[bytes], AccessLine]

STEP_S = 5
"""Seconds of event time that are sent at once."""
LONG_STEP_S = 60
"""The same for a log that is fed as fast as possible; still less than the windows' lateness."""
STEP_RECORDS_MAX = 100_000


class Record(NamedTuple):
    """A record for the producer; the timestamp in milliseconds since 1970."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class Sink(Protocol):
    """The receiver of the records."""

    def send(self, records: list[Record]) -> None:
        """Send them all, and return when all of them are acknowledged."""


def records(lines: Iterable[bytes], parse: Parse) -> Iterator[Record]:
    """Yield one record per line, in the same order."""
    for line in lines:
        try:
            request = parse(line)
        except Unreadable:
            yield Record(None, line, time.time_ns() // 1_000_000)
        else:
            client, event_time_us = request.client or "", request.event_time or 0
            yield Record(client.encode(), line, event_time_us // 1000)


def steps(
    lines: Iterable[bytes], parse: Parse, step_s: int = STEP_S
) -> Iterator[tuple[float, list[Record]]]:
    """Yield records of `step_s` of event time each, and their seconds after the first record.

    Every step is acknowledged before the next is sent, so no partition is ahead of another by more
    than a step of event time: less than the lateness that the windows allow.
    """
    step: list[Record] = []
    first: int | None = None
    begin_ms = 0
    for record in records(lines, parse):
        if record.key is not None:
            first = record.timestamp_ms if first is None else first
            elapsed_ms = record.timestamp_ms - first
            if elapsed_ms >= begin_ms + step_s * 1000:
                yield begin_ms / 1000, step
                step = []
                begin_ms = elapsed_ms - elapsed_ms % (step_s * 1000)
        step.append(record)
        if len(step) == STEP_RECORDS_MAX:
            yield begin_ms / 1000, step
            step = []
    if step:
        yield begin_ms / 1000, step


def feed(
    lines: Iterable[bytes], parse: Parse, sink: Sink, speed: float | None
) -> Iterator[list[Record]]:
    """Send all lines; yield each step's records once they are acknowledged.

    `speed` is seconds of event time per second, None for as fast as they are taken.
    """
    started = time.monotonic()
    for begin_s, step in steps(lines, parse, LONG_STEP_S if speed is None else STEP_S):
        if speed is not None:
            time.sleep(max(0.0, started + begin_s / speed - time.monotonic()))
        sink.send(step)
        yield step


def heartbeat(event_time_ms: int) -> Record:
    """Return a record without key and value: no line from before its timestamp follows."""
    return Record(None, None, event_time_ms)
