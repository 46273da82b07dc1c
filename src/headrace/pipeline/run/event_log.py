"""The event log of a run: one JSON object a line, in `_pipeline/runs/<run>.jsonl`.

Events are written before they are shown, as the one that is needed most is "no broker answers". A
disk that is full or gone never stops a batch: events that cannot be written are counted, and the
next one that can be reports the count.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

RUNS_KEPT = 200
"""Event logs that are kept; older ones are deleted when a run begins."""
ROLL_BYTES = 16 << 20
"""Size at which a log is renamed to `<run>.jsonl.1` and begun again with the state of its flows."""
Event = dict[str, Any]


def now_text() -> str:
    """Return the time in UTC as ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class EventLog:
    """The event log of one run. Written by one thread."""

    def __init__(
        self, path: Path, show: Callable[[Event], None], now: Callable[[], str] = now_text
    ) -> None:
        """Begin a log; `show` gets each event after it was written."""
        self._path = path
        self._show = show
        self._now = now
        self._lost = 0
        self._state: dict[tuple[str, str], Event] = {}
        """The first event, and the newest of each flow's state and of each check of freshness:
        how a log begins again."""
        self._descriptor: int | None = None
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            _delete_old(path.parent)

    def add(self, event: str, **more: object) -> None:
        """Write and show an event; `more`: its other values, as JSON types."""
        said: Event = {"at": self._now(), "event": event, **more}
        if self._lost:
            said["events_lost"] = self._lost
        if event in ("run", "flow", "stale", "fresh"):
            self._state[str(more.get("flow", "")), str(more.get("check", ""))] = said
        if self._written(said):
            self._lost = 0
        else:
            self._lost += 1
        self._show(said)

    def _written(self, event: Event) -> bool:
        data = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        try:
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o644)
            before = os.fstat(self._descriptor).st_size
            if before >= ROLL_BYTES:
                self._roll()
                return self._written(event)
        except OSError:
            return False
        with suppress(OSError):
            if os.write(self._descriptor, data) == len(data):
                return True
        with suppress(OSError):
            os.ftruncate(self._descriptor, before)  # A line that is cut off would hide the next.
        return False

    def _roll(self) -> None:
        self.close()
        self._path.replace(self._path.with_suffix(".jsonl.1"))
        for event in self._state.values():
            self._written(event)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def _delete_old(directory: Path) -> None:
    """Delete the oldest logs, so that at most RUNS_KEPT remain with the one that begins."""
    logs = sorted(directory.glob("*.jsonl"))
    for log in logs[: max(0, len(logs) - RUNS_KEPT + 1)]:
        log.unlink(missing_ok=True)
        log.with_suffix(".jsonl.1").unlink(missing_ok=True)
        log.with_suffix(".log").unlink(missing_ok=True)


def events_of(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the events of a log, without lines that a crash has cut off. OSError."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            with suppress(ValueError):
                said = json.loads(line)
                if isinstance(said, dict):
                    yield said
