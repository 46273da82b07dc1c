"""The figures of `headrace perf`: records, bytes and latencies, as text and as JSON."""

import sys
import time
from bisect import bisect_left
from itertools import accumulate

from headrace.terminal.output import note

SHOW_SECONDS = 1.0
"""Seconds between two updates of the line on a terminal."""
SAY_SECONDS = 5.0
"""Seconds between two notes elsewhere, as in Kafka's tools."""
_SIGNIFICANT = 3
"""Significant digits of stored latencies."""
_PERCENTILES = ((50.0, "p50"), (95.0, "p95"), (99.0, "p99"), (99.9, "p999"))
_MIB = 1 << 20


class Figures:
    """Counts and latencies of one run of `headrace perf`."""

    def __init__(self, done: str, latency: str) -> None:
        """Create the counters of a run.

        `done` and `latency` are words of the printed text: "acknowledged", "latency".
        """
        self._done, self._latency = done, latency
        self.records = 0
        self.bytes = 0
        self._times: dict[float, int] = {}
        """Number of records by latency in milliseconds, rounded to three digits: few entries."""
        self._sum_ms = 0.0
        self._began = self._shown = time.monotonic()
        self._ended: float | None = None

    def begin(self) -> None:
        """Start the clock that rates are computed with."""
        self._began = self._shown = time.monotonic()

    def end_at(self, moment: float) -> None:
        """Stop the clock at `moment` of the monotonic clock."""
        self._ended = moment

    def add(self, records: int, size: int, milliseconds: float) -> None:
        """Count records of `size` bytes together, each with this latency."""
        if not records:
            return
        self.records += records
        self.bytes += size
        rounded = float(f"{milliseconds:.{_SIGNIFICANT}g}")
        self._times[rounded] = self._times.get(rounded, 0) + records
        self._sum_ms += milliseconds * records

    @property
    def seconds(self) -> float:
        """Seconds that the run has taken so far."""
        return max((self._ended or time.monotonic()) - self._began, 1e-9)

    def percentile(self, percent: float) -> float | None:
        """Return the latency in ms that `percent` of the records did not exceed, or None."""
        if not self._times:
            return None
        times = sorted(self._times)
        counts = list(accumulate(self._times[each] for each in times))
        return times[bisect_left(counts, counts[-1] * percent / 100)]

    def line(self) -> str:
        """Return the count and the rates as text."""
        rate, mib = self.records / self.seconds, self.bytes / self.seconds / _MIB
        return (
            f"{self.records} records {self._done} in {self.seconds:.1f} s:"
            f" {rate:,.0f} records/s, {mib:.2f} MiB/s"
        )

    def latencies(self) -> str:
        """Return the latencies as text."""
        if not self._times:
            return f"{self._latency}: nothing was measured"
        parts = [f"mean {self._sum_ms / self.records:.1f}"]
        parts += [f"p{percent:g} {self.percentile(percent):g}" for percent, _ in _PERCENTILES]
        parts.append(f"max {max(self._times):g}")
        return f"{self._latency} in ms: {', '.join(parts)}"

    def as_json(self) -> dict[str, object]:
        """Return the figures for JSON output; null: not measured."""
        there = bool(self._times)
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.records / self.seconds, 1),
            "bytes_per_second": round(self.bytes / self.seconds, 1),
            "latency_ms": {
                "mean": round(self._sum_ms / self.records, 3) if there else None,
                **{name: self.percentile(percent) for percent, name in _PERCENTILES},
                "max": max(self._times) if there else None,
            },
        }

    def show(self) -> None:
        """Print the figures if it is time: over the same line on a terminal, as notes elsewhere."""
        live = sys.stderr.isatty()
        now = time.monotonic()
        if now - self._shown < (SHOW_SECONDS if live else SAY_SECONDS):
            return
        self._shown = now
        if live:
            self.clear()
            print(f"{self.line()}; {self.latencies()}", end="", file=sys.stderr, flush=True)
        else:
            note(f"{self.line()}; {self.latencies()}")

    @staticmethod
    def clear() -> None:
        """Erase the line with live figures on the terminal."""
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
