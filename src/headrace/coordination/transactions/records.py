"""Records of `__transaction_state`: a transaction's state encoded for the log, and decoded."""

from headrace.coordination.transactions.transaction_state import TransactionState
from headrace.model.nouns import TopicPartition, by_topic
from headrace.wire.kafka.coordinator_records.transaction_state import (
    TopicPartitions,
    TransactionKey,
    TransactionStatus,
    TransactionValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

VALUE_VERSION = 1
"""Version of the record's value: the flexible one with previous and next producer id (KIP-890)."""


def key(transactional_id: str) -> bytes:
    """Encode the key of all records about a transactional id."""
    return encode_key(TransactionKey(transactional_id))


def value(state: TransactionState) -> bytes:
    """Encode a transaction's state as a record value."""
    topics = by_topic(sorted(state.partitions))
    listed = [TopicPartitions(topic, partitions) for topic, partitions in topics.items()]
    return encode_value(
        TransactionValue(
            state.producer_id,
            state.epoch,
            state.timeout_ms,
            state.status,
            None if state.status is TransactionStatus.EMPTY else listed,
            state.updated_ms,
            state.started_ms,
            state.previous_producer_id,
            state.next_producer_id,
            state.client_version,
            VALUE_VERSION,
            next_producer_epoch=state.next_epoch,
        )
    )


def parse_key(data: bytes) -> str | None:
    """Return the transactional id of a record's key; None: a record of another kind.

    Raises CorruptBatch.
    """
    found = decode_key(data)
    return found.transactional_id if isinstance(found, TransactionKey) else None


def parse_value(data: bytes) -> TransactionState:
    """Decode a record value into a transaction's state. Raises CorruptBatch."""
    read = decode_value(data)
    return TransactionState(
        read.producer_id,
        read.producer_epoch,
        read.timeout_ms,
        read.status,
        frozenset(
            TopicPartition(topic.topic, index)
            for topic in read.partitions or ()
            for index in topic.partitions
        ),
        read.start_timestamp,
        read.last_update_timestamp,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        next_epoch=read.next_producer_epoch,
        client_version=read.client_transaction_version,
    )
