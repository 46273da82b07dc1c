"""Decisions about a transaction, as pure functions from state to next state.

A result of None means that nothing changes, as the request was carried out before. ApiError: the
request is refused. `UnderWay`: it must be decided again after the markers of the previous
transaction. `NeedsProducerId`: it must be decided again with a new producer id.
"""

from collections.abc import Iterable

from headrace.coordination.transactions.producers import NO_EPOCH, TV2, ProducerEpoch
from headrace.coordination.transactions.transaction_state import (
    DECIDED,
    EPOCH_LAST,
    NO_TIMEOUT_MS,
    TransactionState,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import NO_PRODUCER_ID, TopicPartition
from headrace.wire.kafka.coordinator_records.transaction_state import TransactionStatus

_S = TransactionStatus


class UnderWay(ApiError):
    """CONCURRENT_TRANSACTIONS: the markers of the previous transaction are being written."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction before is ending")


class NeedsProducerId(Exception):
    """The decision needs a new producer id: call the function again with one."""


def initialize(
    state: TransactionState | None,
    expected: ProducerEpoch | None,
    timeout_ms: int,
    now_ms: int,
    new_id: int | None,
) -> TransactionState:
    """Decide InitProducerId: a higher epoch fences the former producer of the transactional id.

    `expected`: id and epoch of a producer that continues after an error (KIP-360); None: a new one.
    If a transaction is open, the result is its abort, and the request must be decided again after
    it. ApiError PRODUCER_FENCED: `expected` is superseded. Raises UnderWay or NeedsProducerId.
    """
    if state is None:
        producer_id = _given(new_id)
        return TransactionState(producer_id, 0, timeout_ms, updated_ms=now_ms)
    if expected is not None and not _is_known(state, expected):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if state.status in DECIDED:
        raise UnderWay
    if state.status is _S.ONGOING:
        if expected is not None and expected != state.client:
            # Kafka would abort the present producer's transaction, and only then refuse.
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return fence(state, now_ms, new_id)
    producer_id, epoch, last_epoch = _next_epoch(state, expected, new_id)
    return state.to(
        _S.EMPTY,
        now_ms,
        producer_id=producer_id,
        epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        started_ms=-1,
        next_producer_id=NO_PRODUCER_ID,
        next_epoch=NO_EPOCH,
    )


def keep(
    state: TransactionState | None,
    expected: ProducerEpoch | None,
    timeout_ms: int,
    now_ms: int,
    new_id: int | None,
) -> TransactionState:
    """Decide InitProducerId v6 with KeepPreparedTxn (KIP-939): an open transaction stays open.

    The new producer epoch may end it; its writer is fenced. No transaction is open: as
    `initialize`. ApiError INVALID_TXN_STATE: the open one has a timeout, so it is not of two-phase
    commit.
    """
    if state is None or state.status is not _S.ONGOING:
        return initialize(state, expected, timeout_ms, now_ms, new_id)
    if expected is not None and expected != state.client:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if state.timeout_ms != NO_TIMEOUT_MS:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "the open transaction is none of two phases")
    producer_id, epoch = _after(state.client, new_id)
    return state.to(
        _S.ONGOING,
        now_ms,
        last_epoch=state.client.epoch,
        next_producer_id=producer_id,
        next_epoch=epoch,
    )


def _after(client: ProducerEpoch, new_id: int | None) -> ProducerEpoch:
    if client.epoch >= EPOCH_LAST:
        return ProducerEpoch(_given(new_id), 0)
    return ProducerEpoch(client.producer_id, client.epoch + 1)


def _is_known(state: TransactionState, expected: ProducerEpoch) -> bool:
    if expected.producer_id == state.client.producer_id:
        return True
    # The producer was given a new id, and the response was lost.
    return expected.producer_id == state.previous_producer_id and expected.epoch >= EPOCH_LAST


def _next_epoch(
    state: TransactionState, expected: ProducerEpoch | None, new_id: int | None
) -> tuple[int, int, int]:
    """Return producer id, epoch, and the epoch that its holder may still send in a retry."""
    if expected is not None and expected.epoch != state.epoch:
        if expected.epoch != state.last_epoch:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return state.producer_id, state.epoch, state.last_epoch  # asked again: the same answer
    last = NO_EPOCH if expected is None else state.epoch
    if state.exhausted:
        return _given(new_id), 0, last
    return state.producer_id, state.epoch + 1, last


def add(
    state: TransactionState | None,
    who: ProducerEpoch,
    partitions: Iterable[TopicPartition],
    version: int,
    now_ms: int,
) -> TransactionState | None:
    """Decide AddPartitionsToTxn, AddOffsetsToTxn, first batch of version 2; None: known already.

    ApiError INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE (kept). UnderWay: the
    markers of the previous transaction are being written.
    """
    state = _checked(state, who)
    if state.status in DECIDED:
        raise UnderWay
    _refuse_kept(state)
    added = frozenset(partitions)
    ongoing = state.status is _S.ONGOING
    if ongoing and added <= state.partitions:
        return None
    return state.to(
        _S.ONGOING,
        now_ms,
        partitions=state.partitions | added,
        started_ms=state.started_ms if ongoing else now_ms,
        client_version=version,
    )


def verify(state: TransactionState | None, who: ProducerEpoch, partition: TopicPartition) -> None:
    """Raise INVALID_TXN_STATE unless the producer may write to `partition` now (KIP-890, part 1).

    Also `UnderWay`, and the errors of `add`.
    """
    state = _checked(state, who)
    if state.status in DECIDED:
        raise UnderWay
    _refuse_kept(state)
    if state.status is not _S.ONGOING or partition not in state.partitions:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, f"{partition} is in no open transaction")


def _checked(state: TransactionState | None, who: ProducerEpoch) -> TransactionState:
    if state is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    _wait_for_rotation(state, who)
    if state.client.producer_id != who.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if state.client.epoch != who.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    return state


def _refuse_kept(state: TransactionState) -> None:
    if state.kept:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "a transaction that was kept can only be ended")


def _wait_for_rotation(state: TransactionState, who: ProducerEpoch) -> None:
    """Raise `UnderWay` if `who` has its new producer id before the old one's markers exist."""
    if state.status in DECIDED and state.next_producer_id == who.producer_id:
        raise UnderWay


def end(
    state: TransactionState | None,
    who: ProducerEpoch,
    commit: bool,
    version: int,
    now_ms: int,
    new_id: int | None,
) -> TransactionState | None:
    """Decide EndTxn; None: it had ended so before, and `answer_to_end(state)` is the response.

    ApiError INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE. Raises UnderWay.
    """
    if state is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    _wait_for_rotation(state, who)
    if version >= TV2 or state.kept:
        return _end_bumping(state, who, commit, now_ms, new_id)
    if state.producer_id != who.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if state.epoch != who.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if state.status is _S.ONGOING:
        prepared = _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT
        return state.to(prepared, now_ms, client_version=version)
    _check_ended_so(state, commit)
    return None


def _end_bumping(
    state: TransactionState, who: ProducerEpoch, commit: bool, now_ms: int, new_id: int | None
) -> TransactionState | None:
    """Decide EndTxn v5: the next transaction has a higher epoch, so late batches cannot join it."""
    client = state.client
    rotated = who.producer_id == state.previous_producer_id != client.producer_id
    again = (state.bumps and who.epoch + 1 == client.epoch) or (
        rotated and who.epoch == EPOCH_LAST and client.epoch == 0
    )
    if who.producer_id != client.producer_id and not (again and rotated):
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if again and state.status in (*DECIDED, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT):
        _check_ended_so(state, commit)
        return None
    if who.epoch != client.epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if state.status in DECIDED:
        raise UnderWay
    if state.status is not _S.ONGOING and commit:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return _decided(state, _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT, now_ms, new_id)


def _check_ended_so(state: TransactionState, commit: bool) -> None:
    """Raise INVALID_TXN_STATE unless the transaction ended so; UnderWay while it is ending so."""
    committed = state.status in (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT)
    if state.status in (_S.EMPTY, _S.ONGOING) or committed is not commit:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    if state.status in DECIDED:
        raise UnderWay


def fence(state: TransactionState, now_ms: int, new_id: int | None) -> TransactionState:
    """Abort an open transaction under a higher epoch, which fences its producer."""
    return _decided(state, _S.PREPARE_ABORT, now_ms, new_id)


def _decided(
    state: TransactionState, status: TransactionStatus, now_ms: int, new_id: int | None
) -> TransactionState:
    """Return PREPARE_COMMIT or PREPARE_ABORT under the next epoch, which the markers have."""
    next_id, next_epoch = NO_PRODUCER_ID, NO_EPOCH
    if state.kept:
        next_id, next_epoch = _after(state.client, new_id)
    elif state.exhausted:
        next_id = _given(new_id)
    return state.to(
        status,
        now_ms,
        epoch=min(state.epoch + 1, EPOCH_LAST + 1),
        last_epoch=state.client.epoch,
        next_producer_id=next_id,
        next_epoch=next_epoch,
        started_ms=state.started_ms if state.status is _S.ONGOING else now_ms,
        client_version=TV2,
    )


def complete(state: TransactionState, now_ms: int) -> TransactionState:
    """Return the COMPLETE_… state of a transaction whose partitions all have their markers."""
    committed = state.status is _S.PREPARE_COMMIT
    rotated = state.next_producer_id != NO_PRODUCER_ID
    return state.to(
        _S.COMPLETE_COMMIT if committed else _S.COMPLETE_ABORT,
        now_ms,
        producer_id=state.next_producer_id if rotated else state.producer_id,
        epoch=max(state.next_epoch, 0) if rotated else state.epoch,
        next_producer_id=NO_PRODUCER_ID,
        next_epoch=NO_EPOCH,
        partitions=frozenset(),
    )


def answer_to_end(state: TransactionState) -> ProducerEpoch:
    """Return the producer id and epoch that EndTxn v5 returns for the end that led to `state`."""
    if state.next_producer_id != NO_PRODUCER_ID:
        return ProducerEpoch(state.next_producer_id, max(state.next_epoch, 0))
    return ProducerEpoch(state.producer_id, state.epoch)


def has_timed_out(state: TransactionState, now_ms: int) -> bool:
    """Return whether the open transaction has exceeded its producer's timeout."""
    times_out = state.status is _S.ONGOING and state.timeout_ms != NO_TIMEOUT_MS
    return times_out and now_ms >= state.started_ms + state.timeout_ms


def has_expired(state: TransactionState, expiration_ms: int, now_ms: int) -> bool:
    """Return whether the id has no transaction and was not used for `expiration_ms`."""
    idle = state.status not in DECIDED and state.status is not _S.ONGOING
    return idle and now_ms - state.updated_ms >= expiration_ms


def _given(new_id: int | None) -> int:
    if new_id is None:
        raise NeedsProducerId
    return new_id
