"""Messages between brokers and controller as field tables: API keys 4-7, 56, 67 and our own.

All versions are included, with the field names of Kafka's message definitions; messages are dicts.
Keys 4-7 ended with Kafka 4.0: the newest versions here are those of Kafka 3.9 with ZooKeeper.

ControlledShutdown v0 has a request header without a client id: only its body is supported here.
"""

from typing import NamedTuple

from headrace.wire.kafka import declaration_messages, queue_messages
from headrace.wire.kafka.api import ApiKey
from headrace.wire.schema import (
    Field,
    MessageSchema,
    Type,
    array,
    binary,
    boolean,
    int8,
    int16,
    int32,
    int32s,
    int64,
    nullable_string,
    string,
    struct,
    uuid,
)


class PeerMessages(NamedTuple):
    """The request and response messages of one API."""

    request: MessageSchema
    response: MessageSchema


_ISR_PARTITION = struct(
    Field("topicName", string, until=1),
    Field("partitionIndex", int32),
    Field("controllerEpoch", int32),
    Field("leader", int32),
    Field("leaderEpoch", int32),
    Field("isr", int32s),
    Field("partitionEpoch", int32),
    Field("replicas", int32s),
    Field("addingReplicas", int32s, since=3),
    Field("removingReplicas", int32s, since=3),
    Field("isNew", boolean, since=1),
    Field("leaderRecoveryState", int8, since=6),
)
_ISR_TOPIC = struct(
    Field("topicName", string),
    Field("topicId", uuid, since=5),
    Field("partitionStates", array(_ISR_PARTITION)),
)
_LIVE_LEADER = struct(Field("brokerId", int32), Field("hostName", string), Field("port", int32))
_PARTITION_ERROR = struct(
    Field("topicName", string, until=4),
    Field("partitionIndex", int32),
    Field("errorCode", int16),
)
_LEADER_AND_ISR = PeerMessages(
    MessageSchema(
        [
            Field("controllerId", int32),
            Field("isKRaftController", boolean, since=7),
            Field("controllerEpoch", int32),
            Field("brokerEpoch", int64, since=2),
            Field("type", int8, since=5),
            Field("ungroupedPartitionStates", array(_ISR_PARTITION), until=1),
            Field("topicStates", array(_ISR_TOPIC), since=2),
            Field("liveLeaders", array(_LIVE_LEADER)),
        ],
        latest=7,
        flexible_from=4,
    ),
    MessageSchema(
        [
            Field("errorCode", int16),
            Field("partitionErrors", array(_PARTITION_ERROR), until=4),
            Field(
                "topics",
                array(
                    struct(
                        Field("topicId", uuid), Field("partitionErrors", array(_PARTITION_ERROR))
                    )
                ),
                since=5,
            ),
        ],
        latest=7,
        flexible_from=4,
    ),
)

_STOPPED_PARTITION = struct(
    Field("partitionIndex", int32),
    Field("leaderEpoch", int32),
    Field("deletePartition", boolean),
)
_NAMED_PARTITION = struct(Field("topicName", string), Field("partitionIndex", int32))
_STOP_REPLICA = PeerMessages(
    MessageSchema(
        [
            Field("controllerId", int32),
            Field("isKRaftController", boolean, since=4),
            Field("controllerEpoch", int32),
            Field("brokerEpoch", int64, since=1),
            Field("deletePartitions", boolean, until=2),
            Field("ungroupedPartitions", array(_NAMED_PARTITION), until=0),
            Field(
                "topics",
                array(struct(Field("name", string), Field("partitionIndexes", int32s))),
                since=1,
                until=2,
            ),
            Field(
                "topicStates",
                array(
                    struct(
                        Field("topicName", string),
                        Field("partitionStates", array(_STOPPED_PARTITION)),
                    )
                ),
                since=3,
            ),
        ],
        latest=4,
        flexible_from=2,
    ),
    MessageSchema(
        [
            Field("errorCode", int16),
            Field(
                "partitionErrors",
                array(
                    struct(
                        Field("topicName", string),
                        Field("partitionIndex", int32),
                        Field("errorCode", int16),
                    )
                ),
            ),
        ],
        latest=4,
        flexible_from=2,
    ),
)

_SHOWN_PARTITION = struct(
    Field("topicName", string, until=4),
    Field("partitionIndex", int32),
    Field("controllerEpoch", int32),
    Field("leader", int32),
    Field("leaderEpoch", int32),
    Field("isr", int32s),
    Field("zkVersion", int32),
    Field("replicas", int32s),
    Field("offlineReplicas", int32s, since=4),
)
_SHOWN_TOPIC = struct(
    Field("topicName", string),
    Field("topicId", uuid, since=7),
    Field("partitionStates", array(_SHOWN_PARTITION)),
)
_SHOWN_ENDPOINT = struct(
    Field("port", int32),
    Field("host", string),
    Field("listener", string, since=3),
    Field("securityProtocol", int16),
)
_SHOWN_BROKER = struct(
    Field("id", int32),
    Field("v0Host", string, until=0),
    Field("v0Port", int32, until=0),
    Field("endpoints", array(_SHOWN_ENDPOINT), since=1),
    Field("rack", nullable_string, since=2),
)
_UPDATE_METADATA = PeerMessages(
    MessageSchema(
        [
            Field("controllerId", int32),
            Field("isKRaftController", boolean, since=8),
            Field("type", int8, since=8, tag=0, default=0),
            Field("controllerEpoch", int32),
            Field("brokerEpoch", int64, since=5),
            Field("ungroupedPartitionStates", array(_SHOWN_PARTITION), until=4),
            Field("topicStates", array(_SHOWN_TOPIC), since=5),
            Field("liveBrokers", array(_SHOWN_BROKER)),
        ],
        latest=8,
        flexible_from=6,
    ),
    MessageSchema([Field("errorCode", int16)], latest=8, flexible_from=6),
)

_CONTROLLED_SHUTDOWN = PeerMessages(
    MessageSchema(
        [Field("brokerId", int32), Field("brokerEpoch", int64, since=2)], latest=3, flexible_from=3
    ),
    MessageSchema(
        [Field("errorCode", int16), Field("remainingPartitions", array(_NAMED_PARTITION))],
        latest=3,
        flexible_from=3,
    ),
)

_WANTED_ISR = struct(
    Field("partitionIndex", int32),
    Field("leaderEpoch", int32),
    Field("newIsr", int32s, until=2),
    Field(
        "newIsrWithEpochs",
        array(struct(Field("brokerId", int32), Field("brokerEpoch", int64))),
        since=3,
    ),
    Field("leaderRecoveryState", int8, since=1),
    Field("partitionEpoch", int32),
)
_WRITTEN_ISR = struct(
    Field("partitionIndex", int32),
    Field("errorCode", int16),
    Field("leaderId", int32),
    Field("leaderEpoch", int32),
    Field("isr", int32s),
    Field("leaderRecoveryState", int8, since=1),
    Field("partitionEpoch", int32),
)


def _isrs_of_topic(isr: Type) -> Type:
    return struct(
        Field("topicName", string, until=1),
        Field("topicId", uuid, since=2),
        Field("partitions", array(isr)),
    )


_ALTER_PARTITION = PeerMessages(
    MessageSchema(
        [
            Field("brokerId", int32),
            Field("brokerEpoch", int64),
            Field("topics", array(_isrs_of_topic(_WANTED_ISR))),
        ],
        latest=3,
        flexible_from=0,
    ),
    MessageSchema(
        [
            Field("throttleTimeMs", int32),
            Field("errorCode", int16),
            Field("topics", array(_isrs_of_topic(_WRITTEN_ISR))),
        ],
        latest=3,
        flexible_from=0,
    ),
)

_ALLOCATE_PRODUCER_IDS = PeerMessages(
    MessageSchema(
        [Field("brokerId", int32), Field("brokerEpoch", int64)], latest=0, flexible_from=0
    ),
    MessageSchema(
        [
            Field("throttleTimeMs", int32),
            Field("errorCode", int16),
            Field("producerIdStart", int64),
            Field("producerIdLen", int32),
        ],
        latest=0,
        flexible_from=0,
    ),
)

_COPIED_PARTITION = struct(
    Field("topicName", string),
    Field("topicId", uuid),
    Field("partitionIndex", int32),
    Field("leaderEpoch", int32),
    Field("followsEpoch", int32),
    Field("followsNumber", int64),
    Field("lastEpoch", int32),
    Field("lastNumber", int64),
    Field("wholeBytes", int64),
    Field("position", int64),
    Field("readFrom", int64),
    Field("content", binary),
)
_COPY_ANSWER = struct(
    Field("errorCode", int16),
    Field("lastEpoch", int32),
    Field("lastNumber", int64),
    Field("partEnd", int64),
    Field("fileBytes", int64),
    Field("content", binary),
)
_COPY_SETTLED = PeerMessages(
    MessageSchema([Field("brokerId", int32), Field("partitions", array(_COPIED_PARTITION))]),
    MessageSchema([Field("errorCode", int16), Field("partitions", array(_COPY_ANSWER))]),
)
"""Frames of settled positions, and what a follower has of them (`copies.messages`).

The answers are in the order of the request's partitions.
"""

_LED_EPOCH = struct(
    Field("topicId", uuid), Field("partitionIndex", int32), Field("leaderEpoch", int32)
)
_GIVEN_UP = struct(Field("topicId", uuid), Field("partitionIndex", int32), Field("homes", int32s))
_LEASE_PING = PeerMessages(
    MessageSchema(
        [
            Field("brokerId", int32),
            Field("incarnation", int64),
            Field("number", int64),
            Field("fences", array(_LED_EPOCH)),
        ]
    ),
    MessageSchema(
        [
            Field("errorCode", int16),
            Field("incarnation", int64),
            Field("number", int64),
            Field("epochs", array(_LED_EPOCH)),
            Field("givenUp", array(_GIVEN_UP)),
        ]
    ),
)
"""A leader's ping with its fences, and the leader epochs that it does not know with the rights that
were given up (`broker.replica.leading_right`)."""

PEER_MESSAGES: dict[ApiKey, PeerMessages] = {
    ApiKey.LEADER_AND_ISR: _LEADER_AND_ISR,
    ApiKey.STOP_REPLICA: _STOP_REPLICA,
    ApiKey.UPDATE_METADATA: _UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN: _CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION: _ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS: _ALLOCATE_PRODUCER_IDS,
    ApiKey.DECLARE: PeerMessages(*declaration_messages.COMMANDS),
    ApiKey.FOLLOW_DECLARATIONS: PeerMessages(*declaration_messages.POLLS),
    ApiKey.COPY_SETTLED: _COPY_SETTLED,
    ApiKey.LEASE_PING: _LEASE_PING,
    ApiKey.QUEUE_CALLS: PeerMessages(*queue_messages.CALLS),
    ApiKey.QUEUE_EVENTS: PeerMessages(*queue_messages.EVENTS),
    ApiKey.CHANGE_QUEUE_TOPICS: PeerMessages(*queue_messages.TOPICS),
    ApiKey.NOTE_ALARM: PeerMessages(*queue_messages.ALARM),
}

PEER_VERSIONS: dict[ApiKey, tuple[int, int]] = {
    ApiKey.LEADER_AND_ISR: (5, 7),
    ApiKey.STOP_REPLICA: (3, 4),
    ApiKey.UPDATE_METADATA: (7, 8),
    ApiKey.CONTROLLED_SHUTDOWN: (2, 3),
    ApiKey.ALTER_PARTITION: (2, 3),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
    ApiKey.DECLARE: (0, 1),
    ApiKey.FOLLOW_DECLARATIONS: (0, 0),
    ApiKey.COPY_SETTLED: (0, 0),
    ApiKey.LEASE_PING: (0, 0),
    ApiKey.QUEUE_CALLS: (0, 0),
    ApiKey.QUEUE_EVENTS: (0, 0),
    ApiKey.CHANGE_QUEUE_TOPICS: (0, 0),
    ApiKey.NOTE_ALARM: (0, 0),
}
"""Supported versions: those with topic ids (Kafka 2.8 and later), with the epochs of each
message."""
