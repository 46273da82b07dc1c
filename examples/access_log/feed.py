"""The log into the topic, at a chosen speed, as a log shipper would send it.

Each line is a record: keyed by its client, so that a client's lines stay in order; its own event
time as the record's timestamp. A line that cannot be read has no key and the time of its arrival.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from examples.access_log.line import parse
from headrace.pipeline import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STEP_S = 5  # of event time


class Record(NamedTuple):
    """What is handed to the producer; the timestamp in milliseconds since 1970."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class Sink(Protocol):
    """Where records go."""

    def send(self, records: list[Record]) -> None:
        """Send them all, and return when all of them are acknowledged."""


def records(lines: Iterable[bytes]) -> Iterator[Record]:
    """One record per line, in the same order."""
    for line in lines:
        try:
            request = parse(line)
        except Unreadable:
            yield Record(None, line, time.time_ns() // 1_000_000)
        else:
            yield Record(request.client.encode(), line, request.event_time_us // 1000)


def steps(lines: Iterable[bytes]) -> Iterator[tuple[float, list[Record]]]:
    """Records of `STEP_S` of event time each, and how many seconds after the first they begin.

    Every step is acknowledged before the next is sent, so no partition is ahead of another by more
    than a step of event time: far less than the lateness the windows allow.
    """
    step: list[Record] = []
    first: int | None = None
    begin_ms = 0
    for record in records(lines):
        if record.key is not None:
            first = record.timestamp_ms if first is None else first
            elapsed_ms = record.timestamp_ms - first
            if elapsed_ms >= begin_ms + STEP_S * 1000:
                yield begin_ms / 1000, step
                step = []
                begin_ms = elapsed_ms - elapsed_ms % (STEP_S * 1000)
        step.append(record)
    if step:
        yield begin_ms / 1000, step


def feed(lines: Iterable[bytes], sink: Sink, speed: float | None) -> Iterator[int]:
    """Send all lines; yields how many records each step had, once they are acknowledged.

    `speed` is seconds of event time per second, None for as fast as they are taken.
    """
    started = time.monotonic()
    for begin_s, step in steps(lines):
        if speed is not None:
            time.sleep(max(0.0, started + begin_s / speed - time.monotonic()))
        sink.send(step)
        yield len(step)


def heartbeat(event_time_ms: int) -> Record:
    """A record without key and value: nothing more comes from before its timestamp."""
    return Record(None, None, event_time_ms)
