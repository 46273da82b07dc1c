"""Kafka 4.3's records of `__transaction_state` and `__share_group_state`, as field tables.

Key type -> (key, value); `offsets_tables` has those of `__consumer_offsets`.
"""

from headrace.wire.schema import (
    Field,
    MessageSchema,
    array,
    int8,
    int16,
    int32,
    int32s,
    int64,
    nullable_array,
    record,
    string,
    struct,
    uuid,
)

TRANSACTION_STATE: dict[int, tuple[MessageSchema, MessageSchema]] = {
    0: (
        MessageSchema([Field("transactionalId", string)]),
        MessageSchema(
            [
                Field("producerId", int64),
                Field("previousProducerId", int64, tag=0, default=-1),
                Field("nextProducerId", int64, tag=1, default=-1),
                Field("producerEpoch", int16),
                Field("nextProducerEpoch", int16, tag=3, default=-1),
                Field("transactionTimeoutMs", int32),
                Field("transactionStatus", int8),
                Field(
                    "transactionPartitions",
                    nullable_array(struct(Field("topic", string), Field("partitionIds", int32s))),
                ),
                Field("transactionLastUpdateTimestampMs", int64),
                Field("transactionStartTimestampMs", int64),
                Field("clientTransactionVersion", int16, tag=2, default=0),
            ],
            latest=1,
            flexible_from=1,
        ),
    )
}

_SHARE = MessageSchema(
    [Field("groupId", string), Field("topicId", uuid), Field("partition", int32)]
)
_SHARE_COMPLETE = Field("deliveryCompleteCount", int32, tag=0, default=-1)
_SHARE_BATCHES = Field(
    "stateBatches",
    array(
        struct(
            Field("firstOffset", int64),
            Field("lastOffset", int64),
            Field("deliveryState", int8),
            Field("deliveryCount", int16),
        )
    ),
)
SHARE_STATE: dict[int, tuple[MessageSchema, MessageSchema]] = {
    0: (
        _SHARE,
        record(
            Field("snapshotEpoch", int32),
            Field("stateEpoch", int32),
            Field("leaderEpoch", int32),
            Field("startOffset", int64),
            _SHARE_COMPLETE,
            Field("createTimestamp", int64),
            Field("writeTimestamp", int64),
            _SHARE_BATCHES,
        ),
    ),
    1: (
        _SHARE,
        record(
            Field("snapshotEpoch", int32),
            Field("leaderEpoch", int32),
            Field("startOffset", int64),
            _SHARE_COMPLETE,
            _SHARE_BATCHES,
        ),
    ),
}
