"""What `headrace perf` counts: records, bytes, and how long they took, as a line and as JSON."""

import sys
import time
from bisect import bisect_left
from itertools import accumulate

from headrace.cli.shared.output import note

SHOW_SECONDS = 1.0
"""Between two live lines on a terminal."""
SAY_SECONDS = 5.0
"""Between two remarks elsewhere, as Kafka's own tools have it."""
_SIGNIFICANT = 3
_PERCENTILES = ((50.0, "p50"), (95.0, "p95"), (99.0, "p99"), (99.9, "p999"))
_MIB = 1 << 20


class Figures:
    """Counts of one run."""

    def __init__(self, done: str, latency: str) -> None:
        """`done`: what became of the records; `latency`: of what. Both are words for the line."""
        self._done, self._latency = done, latency
        self.records = 0
        self.bytes = 0
        self._times: dict[float, int] = {}
        """How many took so many milliseconds, to three digits: so that they stay few."""
        self._sum_ms = 0.0
        self._began = self._shown = time.monotonic()
        self._ended: float | None = None

    def begin(self) -> None:
        """Count time from now on."""
        self._began = self._shown = time.monotonic()

    def end_at(self, moment: float) -> None:
        """Count time until a moment of the monotonic clock, not until now."""
        self._ended = moment

    def add(self, records: int, size: int, milliseconds: float) -> None:
        """Count records that came to `size` bytes together and took so long, each."""
        if not records:
            return
        self.records += records
        self.bytes += size
        rounded = float(f"{milliseconds:.{_SIGNIFICANT}g}")
        self._times[rounded] = self._times.get(rounded, 0) + records
        self._sum_ms += milliseconds * records

    @property
    def seconds(self) -> float:
        """How long it took so far."""
        return max((self._ended or time.monotonic()) - self._began, 1e-9)

    def percentile(self, percent: float) -> float | None:
        """Return the milliseconds that so many percent did not exceed; None where nothing came."""
        if not self._times:
            return None
        times = sorted(self._times)
        counts = list(accumulate(self._times[each] for each in times))
        return times[bisect_left(counts, counts[-1] * percent / 100)]

    def line(self) -> str:
        """Say how many and how fast."""
        rate, mib = self.records / self.seconds, self.bytes / self.seconds / _MIB
        return (
            f"{self.records} records {self._done} in {self.seconds:.1f} s:"
            f" {rate:,.0f} records/s, {mib:.2f} MiB/s"
        )

    def latencies(self) -> str:
        """Say how long they took."""
        if not self._times:
            return f"{self._latency}: nothing was measured"
        parts = [f"mean {self._sum_ms / self.records:.1f}"]
        parts += [f"p{percent:g} {self.percentile(percent):g}" for percent, _ in _PERCENTILES]
        parts.append(f"max {max(self._times):g}")
        return f"{self._latency} in ms: {', '.join(parts)}"

    def as_json(self) -> dict[str, object]:
        """Return it for scripts; what was not measured is null."""
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
        """Say how it goes, now and then: over itself on a terminal, as remarks elsewhere."""
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
        """Take the live line away."""
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
