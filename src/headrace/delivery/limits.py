"""The delivery limit of records: archived after the last attempt, delivered in smaller sets before.

A record that crashes its consumer fails all records that were acquired with it. So records that
were released often are acquired in smaller sets, and each alone for its last attempt, as in Kafka
4.3.1 (SharePartition.throttleRecordsDeliveryLimit, acquireSubsetBatchRecords). With a limit of 5:

    deliveries so far   1, 2   3      4
    acquired together   all    half   one
"""

from collections.abc import Iterable

from headrace.delivery.offset_runs import Run
from headrace.delivery.record_runs import DEAD_LETTERS, Slot, is_available
from headrace.delivery.record_states import Cause, Outcome, RecordState

_SPARED_FROM_MIN = 2


def state_after(
    slot: Slot, outcome: Outcome, deliveries_max: int | None, *, dead_letters: bool
) -> RecordState | Cause:
    """Return the state of records after `outcome`; a Cause: they become dead letters first."""
    if outcome is Outcome.ACCEPT:
        return RecordState.ACKNOWLEDGED
    is_dead = slot.lease is not None and slot.lease.holder is DEAD_LETTERS
    spent = deliveries_max is not None and slot.tries >= deliveries_max
    if outcome is Outcome.RELEASE and (is_dead or not spent):
        return RecordState.AVAILABLE
    if is_dead or not dead_letters:
        return RecordState.ARCHIVED
    return Cause.REJECTED if outcome is Outcome.REJECT else Cause.TRIES_SPENT


def most_together(records: int, tries: int, deliveries_max: int) -> int | None:
    """Return how many of `records` with `tries` deliveries may be acquired together; None: all."""
    spared_from = max(_SPARED_FROM_MIN, (deliveries_max + 1) // 2)
    if tries < spared_from:
        return None
    if tries == deliveries_max - 1:
        return 1
    return max(1, records >> (tries - spared_from + 1))


def last_together(runs: Iterable[Run[Slot]], deliveries_max: int, *, others: bool) -> int | None:
    """Return the last offset that may be acquired with the first of `runs`; None: all may.

    Records near their limit go alone. `others`: whether some records are acquired already.
    """
    for run in runs:
        if not is_available(run.value) or run.value.ready_at is not None:
            continue
        most = most_together(run.last - run.first + 1, run.value.tries, deliveries_max)
        if most is not None:
            return run.first - 1 if others else run.first + most - 1
        others = True
    return None
