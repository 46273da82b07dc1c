"""`TransactionTimers`: abort transactions that timed out, and remove expired transactional ids."""

import logging
from collections.abc import Callable
from functools import partial

from headrace.coordination.transactions import decide
from headrace.coordination.transactions.counts import TransactionCounts
from headrace.coordination.transactions.limits import TransactionLimits
from headrace.coordination.transactions.transaction_shard import TransactionShard
from headrace.coordination.transactions.transaction_state import TransactionState
from headrace.model.errors import ApiError
from headrace.ports.clock import Clock, Timer
from headrace.shards.led_shards import LedShards
from headrace.shards.shard import ShardState
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus

_logger = logging.getLogger(__name__)


class TransactionTimers:
    """Two periodic checks: of all open transactions, and more rarely of all transactional ids."""

    def __init__(
        self,
        led: LedShards[TransactionShard],
        clock: Clock,
        limits: Callable[[], TransactionLimits],
        counts: TransactionCounts,
    ) -> None:
        self._led = led
        self._counts = counts
        self._clock = clock
        self._limits = limits
        self._timers: dict[str, Timer] = {}

    def start(self) -> None:
        """Start both timers."""
        self._later("abort", self._limits().timeout_check_ms, self._abort)
        self._later("expire", self._limits().expiration_check_ms, self._expire)

    def close(self) -> None:
        """Cancel both timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _later(self, name: str, wait_ms: int, look: Callable[[], None]) -> None:
        self._timers[name] = self._clock.call_later(wait_ms / 1000, look)

    def _abort(self) -> None:
        now_ms = self._clock.wall_ms()
        for shard in self._led:
            if shard.state is not ShardState.ACTIVE:
                continue
            for transactional_id, transaction in list(shard.ongoing.items()):
                if decide.has_timed_out(transaction.state, now_ms):
                    shard.change(transactional_id, _time_out, partial(self._said, transactional_id))
        self._later("abort", self._limits().timeout_check_ms, self._abort)

    def _said(self, transactional_id: str, result: TransactionState | ApiError) -> None:
        if isinstance(result, ApiError):
            _logger.warning(
                "transactional id %s: the transaction timed out, but its abort failed: %s; retrying"
                " at the next check", transactional_id, result,
            )  # fmt: skip
        elif result.status is TransactionStatus.PREPARE_ABORT:
            self._counts.timed_out += 1
            _logger.info("%s: took longer than %d ms, aborted", transactional_id, result.timeout_ms)

    def _expire(self) -> None:
        now_ms, limits = self._clock.wall_ms(), self._limits()
        for shard in self._led:
            if shard.state is not ShardState.ACTIVE:
                continue
            for transactional_id, transaction in list(shard.transactions.items()):
                settled = transaction.committed is transaction.state
                if settled and decide.has_expired(
                    transaction.state, limits.id_expiration_ms, now_ms
                ):
                    shard.forget(transactional_id)
        self._later("expire", limits.expiration_check_ms, self._expire)


def _time_out(
    state: TransactionState | None, now_ms: int, new_id: int | None
) -> TransactionState | None:
    """Decide the abort of a transaction that timed out; None: it ended in the meantime."""
    if state is None or not decide.has_timed_out(state, now_ms):
        return None
    return decide.fence(state, now_ms, new_id)
