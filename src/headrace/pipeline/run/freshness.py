"""The checks of freshness of a run: the newest times that its flows have written, and the clock.

The newest times survive the run in `_pipeline/newest.json`, so a run without a record reports a
table that is stale. If the file is lost, a flow without a batch counts from the run's start.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.intervals import interval_ms
from headrace.spark.durable import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from headrace.spark.checks.check import Fresh


@dataclass
class Freshness:
    """The newest times of a run's flows. Used by one thread."""

    file: Path
    flows: Mapping[str, Sequence[Fresh]]
    started: datetime
    """Start of the run."""
    _newest: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """By flow and column."""
    _stale: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        with suppress(OSError, ValueError, AttributeError, TypeError):
            for flow, columns in json.loads(self.file.read_text(encoding="utf-8")).items():
                self.take(flow, columns)

    def take(self, flow: str, newest: Mapping[str, str]) -> None:
        """Take the newest times of a flow's batch into account: ISO 8601 by column."""
        for column, text in newest.items():
            time = datetime.fromisoformat(text)
            self._newest[flow, column] = max(time, self._newest.get((flow, column), time))

    def report(self, add: Callable[..., None], now: datetime) -> None:
        """Report checks that have become stale or fresh: an event and its values to `add`."""
        for flow, checks in self.flows.items():
            for check in checks:
                newest = self._newest.get((flow, check.column))
                within = timedelta(milliseconds=interval_ms(check.within) or 0)
                since = (newest or self.started) + within
                key = (flow, check.name)
                if now > since and key not in self._stale:
                    self._stale.add(key)
                    shown = None if newest is None else _text(newest)
                    add("stale", flow=flow, check=check.name, newest=shown, since=_text(since))
                elif now <= since and key in self._stale:
                    self._stale.remove(key)
                    add("fresh", flow=flow, check=check.name)

    def save(self) -> None:
        """Store the newest times for the next run; a full disk loses them."""
        found: dict[str, dict[str, str]] = {}
        for (flow, column), time in self._newest.items():
            found.setdefault(flow, {})[column] = _text(time)
        if found:
            with suppress(OSError):
                replace_file(self.file.parent, self.file, json.dumps(found).encode())


def _text(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
