"""`FlushIntervals`: log.flush.interval.ms and flush.ms, the longest wait of a record for a flush.

Used only with `log.flush.on.ack=false`; otherwise every append requests a flush. As in Kafka,
`log.flush.scheduler.interval.ms` limits the precision; unlike in Kafka it need not be set as well.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.config.broker import BrokerConfig
    from headrace.log.directory.log_directory import LogDirectory
    from headrace.log.log import Log
    from headrace.ports.clock import Clock, Timer

ROUND_MS_MIN = 50
ROUND_MS_MAX = 86_400_000


class FlushIntervals:
    """The timer that flushes logs whose flush interval is over; none if no log has an interval."""

    def __init__(
        self,
        clock: "Clock",
        directories: "Sequence[LogDirectory]",
        config: "Callable[[], BrokerConfig]",
    ) -> None:
        """Make the flush intervals without a timer; `config` returns the current settings."""
        self._clock = clock
        self._directories = directories
        self._config = config
        self._timer: Timer | None = None
        self._armed = False

    def arm(self) -> None:
        """Start, restart or stop the timer after a change of settings."""
        if self._config().log_flush_on_ack and self._timer is None:
            return
        self.stop()
        self._armed = True
        # At the end of the turn: many topics may change in this one.
        self._timer = self._clock.call_later(0, self._schedule)

    def stop(self) -> None:
        """Stop the timer, so that it requests no further flushes."""
        self._armed = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _logs(self) -> "Iterator[Log]":
        for directory in self._directories:
            yield from directory.logs.values()

    def _schedule(self) -> None:
        config = self._config()
        self._timer = None
        if config.log_flush_on_ack or not self._armed:
            return
        shortest = min((log.config.flush_ms for log in self._logs()), default=ROUND_MS_MAX)
        period = min(shortest, config.log_flush_scheduler_interval_ms)
        if period < ROUND_MS_MAX:
            seconds = max(period, ROUND_MS_MIN) / 1000
            self._timer = self._clock.call_later(seconds, self._round)

    def _round(self) -> None:
        now_ms = self._clock.wall_ms()
        for directory in self._directories:
            for log in directory.logs.values():
                waits = log.end_offset > log.flushed_offset
                if waits and now_ms - log.last_flush_ms >= log.config.flush_ms:
                    directory.flusher.flush_soon(log)
        self._schedule()
