"""The first batches of a transaction in their partitions: may they be there? (KIP-890)

Whoever has a transaction open in a partition goes on writing to it unasked. A batch that would open
one is another matter: a late one, whose transaction has ended, must not begin the next. Up to
Produce v11 the transaction's coordinator must know the partition already (AddPartitionsToTxn); from
v12 on it is taken in by this very batch, and written once that is committed.
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
"""Topic and partition, by their places in the request."""

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
    """What came of them."""

    begins: dict[Place, Begins]
    refused: dict[Place, ApiError]


NONE_BEGUN = Begun({}, {})


class TransactionPartitions(Protocol):
    """What the coordinator of a transaction is asked about its partitions, here or elsewhere."""

    def verify(
        self,
        transactional_id: str,
        who: ProducerEpoch,
        partitions: Collection[TopicPartition],
        done: Done[dict[TopicPartition, ApiError]],
    ) -> None:
        """Tell which of them the producer may not write to in its open transaction, and why."""

    def add(
        self,
        transactional_id: str,
        who: ProducerEpoch,
        partitions: Collection[TopicPartition],
        version: int,
        done: Done[ApiError | None],
    ) -> None:
        """Take them into the transaction, which begins with the first ones."""


def verify(
    coordinator: TransactionPartitions,
    version: int,
    transactional_id: str,
    batches: list[First],
    done: Done[Begun],
) -> None:
    """Ask the coordinator whether the transaction reaches their partitions."""
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
    """Have the coordinator take their partitions into the transaction."""
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
    """Return the error as the client of this version of Produce knows what to do with it."""
    code = error.code
    if code in _COORDINATOR_AWAY or (
        code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE
    ):
        # What all clients try again, without asking for the partition's leader first.
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    elif code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.INVALID_TXN_STATE and version >= _ABORTABLE_SINCE:
        code = ErrorCode.TRANSACTION_ABORTABLE
    return ApiError(code, error.message or error.code.name)
