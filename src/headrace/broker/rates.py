"""`Rate` and `SimpleRate`: amounts per second over sliding windows, as Kafka's SampledStat."""


class Rate:
    """An amount per second over a sliding span of windows."""

    __slots__ = ("_count", "_samples", "_window_ms")

    def __init__(self, count: int, window_ms: int) -> None:
        """Make a rate over `count` windows of `window_ms` milliseconds."""
        self._count = count
        self._window_ms = window_ms
        self._samples: list[list[float]] = []
        """[window start in ms, amount], oldest first."""

    def add(self, amount: float, now_ms: float) -> None:
        """Count `amount` at time `now_ms`."""
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window_ms:
            samples.append([now_ms, 0.0])
        samples[-1][1] += amount
        self._purge(now_ms)

    def _purge(self, now_ms: float) -> None:
        oldest = now_ms - self._count * self._window_ms
        samples = self._samples
        while samples and (samples[0][0] <= oldest or len(samples) > self._count):
            del samples[0]

    def measure(self, now_ms: float) -> tuple[float, float]:
        """Return (amount per second, milliseconds over which it is the mean)."""
        self._purge(now_ms)
        if not self._samples:
            return 0.0, float(self._window_ms)
        span = self._span_ms(now_ms - self._samples[0][0])
        return sum(amount for _, amount in self._samples) * 1000 / span, span

    def _span_ms(self, elapsed: float) -> float:
        """Return the milliseconds to divide by; the oldest window began `elapsed` ms ago.

        At least all windows but one are counted, even if they have not passed yet.
        """
        missing = self._count - 1 - int(elapsed // self._window_ms)
        if missing > 0:
            elapsed += missing * self._window_ms
        return elapsed or float(self._window_ms)


class SimpleRate(Rate):
    """A rate over the time since the oldest window began, at least one window.

    So it allows no burst at the beginning.
    """

    __slots__ = ()

    def _span_ms(self, elapsed: float) -> float:
        return max(elapsed, float(self._window_ms))
