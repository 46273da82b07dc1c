"""The first batches of a transaction in their partitions, and their admission (KIP-890).

A producer with an open transaction in a partition writes to it without a check. A batch that would
open one needs a check: a late batch, whose transaction has ended, must not begin the next. Up to
Produce v11 the coordinator must know the partition (AddPartitionsToTxn). From v12 on the batch
itself adds the partition, and is written once that is committed.
"""

from collections.abc import Collection
from functools import partial
from typing import NamedTuple, Protocol

from headrace.coordination.transactions.producers import TV2, ProducerEpoch
from headrace.log.producers.producer_states import Begins
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import Done, when_all

ADDS_SINCE = 12
_ABORTABLE_SINCE = 11
Place = tuple[int, int]
"""A batch's topic and partition, by their places in the request."""

_COORDINATOR_AWAY = frozenset({
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
})  # fmt: skip


class First(NamedTuple):
    """A batch that would open a transaction in its partition."""

    place: Place
    partition: TopicPartition
    producer: ProducerEpoch


class Begun(NamedTuple):
    """The admitted batches, and the errors of the refused ones."""

    begins: dict[Place, Begins]
    refused: dict[Place, ApiError]


NONE_BEGUN = Begun({}, {})


class TransactionPartitions(Protocol):
    """The coordinator of a transaction, on this broker or another one."""

    def verify(
        self,
        transactional_id: str,
        who: ProducerEpoch,
        partitions: Collection[TopicPartition],
        done: Done[dict[TopicPartition, ApiError]],
    ) -> None:
        """Call `done` with the partitions that are not in the producer's open transaction."""

    def add(
        self,
        transactional_id: str,
        who: ProducerEpoch,
        partitions: Collection[TopicPartition],
        version: int,
        done: Done[ApiError | None],
    ) -> None:
        """Add partitions to the transaction, which begins with the first ones."""


def verify(
    coordinator: TransactionPartitions,
    version: int,
    transactional_id: str,
    batches: list[First],
    done: Done[Begun],
) -> None:
    """Ask the coordinator whether the batches' partitions are in the transaction."""
    found = Begun({}, {})
    by_producer: dict[ProducerEpoch, list[First]] = {}
    for batch in batches:
        by_producer.setdefault(batch.producer, []).append(batch)
    answered = when_all(len(by_producer), lambda: done(found))

    def verified(asked: list[First], refused: dict[TopicPartition, ApiError]) -> None:
        for batch in asked:
            error = refused.get(batch.partition)
            if error is None:
                found.begins[batch.place] = Begins.VERIFIED
            else:
                found.refused[batch.place] = _refusal(version, error)
        answered()

    for producer, asked in by_producer.items():
        partitions = [batch.partition for batch in asked]
        coordinator.verify(transactional_id, producer, partitions, partial(verified, asked))


def add(
    coordinator: TransactionPartitions,
    version: int,
    transactional_id: str,
    batches: list[First],
    done: Done[Begun],
) -> None:
    """Have the coordinator add the batches' partitions to the transaction."""
    producer = batches[0].producer
    others = [batch for batch in batches if batch.producer != producer]
    mine = [batch for batch in batches if batch.producer == producer]
    found = Begun({}, {})
    for batch in others:
        found.refused[batch.place] = ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "one transaction has one producer"
        )

    def added(error: ApiError | None) -> None:
        for batch in mine:
            if error is None:
                found.begins[batch.place] = Begins.FRESH
            else:
                found.refused[batch.place] = _refusal(version, error)
        done(found)

    partitions = [batch.partition for batch in mine]
    coordinator.add(transactional_id, producer, partitions, TV2, added)


def _refusal(version: int, error: ApiError) -> ApiError:
    """Return the error as a client of this Produce version can handle it."""
    code = error.code
    if code in _COORDINATOR_AWAY or (
        code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE
    ):
        # Clients retry this code without a metadata request.
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    elif code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.INVALID_TXN_STATE and version >= _ABORTABLE_SINCE:
        code = ErrorCode.TRANSACTION_ABORTABLE
    return ApiError(code, error.message or error.code.name)
