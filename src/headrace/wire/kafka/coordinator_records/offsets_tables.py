"""Kafka 4.3's records of `__consumer_offsets`, and KRaft's control records, as field tables.

Key type -> (key, value); `state_tables` has those of the other coordinators' topics. The opaque
bytes of classic members are a consumer's own messages (`SUBSCRIPTION`, `ASSIGNMENT`).
"""

from headrace.wire.schema import (
    Field,
    MessageSchema,
    Uuid,
    array,
    binary,
    int8,
    int16,
    int32,
    int32s,
    int64,
    nullable_binary,
    nullable_int32s,
    nullable_string,
    nullable_struct,
    record,
    string,
    struct,
    tagged_nullable_struct,
    uint16,
    uuid,
)

_NO_UUID = Uuid(16)
_ABSENT = object()
"""Default of a field whose null is encoded: a sentinel that no decoded value equals."""

_GROUP = MessageSchema([Field("groupId", string)])
_MEMBER = MessageSchema([Field("groupId", string), Field("memberId", string)])
_OFFSET = MessageSchema([Field("group", string), Field("topic", string), Field("partition", int32)])


_PARTITIONS = array(
    struct(
        Field("topicId", uuid),
        Field("partitions", int32s),
        Field("assignmentEpochs", nullable_int32s, tag=0),
    )
)
_TASKS = array(
    struct(
        Field("subtopologyId", string),
        Field("partitions", int32s),
        Field("assignmentEpochs", nullable_int32s, tag=0),
    )
)
_PAIRS = array(struct(Field("key", string), Field("value", string)))
_STREAMS_TOPICS = array(
    struct(
        Field("name", string),
        Field("partitions", int32),
        Field("replicationFactor", int16),
        Field("topicConfigs", _PAIRS),
    )
)
_STATE = (
    Field("memberEpoch", int32),
    Field("previousMemberEpoch", int32),
    Field("state", int8),
)
_TARGET = record(
    Field("assignmentEpoch", int32),
    Field("assignmentTimestamp", int64, tag=0, default=0),
)
_NAMED_TOPICS = array(
    struct(Field("topicId", uuid), Field("topicName", string), Field("partitions", int32s))
)

_OFFSET_VALUE = MessageSchema(
    [
        Field("offset", int64),
        Field("leaderEpoch", int32, since=3),
        Field("metadata", string),
        Field("commitTimestamp", int64),
        Field("expireTimestamp", int64, since=1, until=1),
        Field("topicId", uuid, tag=0, default=_NO_UUID),
    ],
    latest=4,
    flexible_from=4,
)
_LEGACY_OFFSET_VALUE = MessageSchema(
    [Field("offset", int64), Field("metadata", string), Field("commitTimestamp", int64)]
)
_GROUP_VALUE = MessageSchema(
    [
        Field("protocolType", string),
        Field("generation", int32),
        Field("protocol", nullable_string),
        Field("leader", nullable_string),
        Field("currentStateTimestamp", int64, since=2),
        Field(
            "members",
            array(
                struct(
                    Field("memberId", string),
                    Field("groupInstanceId", nullable_string, since=3),
                    Field("clientId", string),
                    Field("clientHost", string),
                    Field("rebalanceTimeout", int32, since=1),
                    Field("sessionTimeout", int32),
                    Field("subscription", binary),
                    Field("assignment", binary),
                )
            ),
        ),
    ],
    latest=4,
    flexible_from=4,
)
_CONSUMER_MEMBER = record(
    Field("instanceId", nullable_string),
    Field("rackId", nullable_string),
    Field("clientId", string),
    Field("clientHost", string),
    Field("subscribedTopicNames", array(string)),
    Field("subscribedTopicRegex", nullable_string),
    Field("rebalanceTimeoutMs", int32),
    Field("serverAssignor", nullable_string),
    Field(
        "classicMemberMetadata",
        tagged_nullable_struct(
            Field("sessionTimeoutMs", int32),
            Field(
                "supportedProtocols",
                array(struct(Field("name", string), Field("metadata", binary))),
            ),
        ),
        tag=0,
        default=_ABSENT,
    ),
)
_STREAMS_MEMBER = record(
    Field("instanceId", nullable_string),
    Field("rackId", nullable_string),
    Field("clientId", string),
    Field("clientHost", string),
    Field("rebalanceTimeoutMs", int32),
    Field("topologyEpoch", int32),
    Field("processId", string),
    Field("userEndpoint", nullable_struct(Field("host", string), Field("port", uint16))),
    Field("clientTags", _PAIRS),
)
_STREAMS_TOPOLOGY = record(
    Field("epoch", int32),
    Field(
        "subtopologies",
        array(
            struct(
                Field("subtopologyId", string),
                Field("sourceTopics", array(string)),
                Field("sourceTopicRegex", array(string)),
                Field("stateChangelogTopics", _STREAMS_TOPICS),
                Field("repartitionSinkTopics", array(string)),
                Field("repartitionSourceTopics", _STREAMS_TOPICS),
                Field(
                    "copartitionGroups",
                    array(
                        struct(
                            Field("sourceTopics", array(int16)),
                            Field("sourceTopicRegex", array(int16)),
                            Field("repartitionSourceTopics", array(int16)),
                        )
                    ),
                ),
            )
        ),
    ),
)

GROUP_TYPE = 2
"""Key type of a classic group, whose members contain encoded messages of their own."""

CONSUMER_OFFSETS: dict[int, tuple[MessageSchema, MessageSchema]] = {
    0: (_OFFSET, _LEGACY_OFFSET_VALUE),
    1: (_OFFSET, _OFFSET_VALUE),
    GROUP_TYPE: (MessageSchema([Field("group", string)]), _GROUP_VALUE),
    3: (
        _GROUP,
        record(Field("epoch", int32), Field("metadataHash", int64, tag=0, default=0)),
    ),
    4: (
        _GROUP,
        record(
            Field(
                "topics",
                array(
                    struct(
                        Field("topicId", uuid),
                        Field("topicName", string),
                        Field("numPartitions", int32),
                        Field(
                            "partitionMetadata",
                            array(struct(Field("partition", int32), Field("racks", array(string)))),
                        ),
                    )
                ),
            )
        ),
    ),
    5: (_MEMBER, _CONSUMER_MEMBER),
    6: (_GROUP, _TARGET),
    7: (_MEMBER, record(Field("topicPartitions", _PARTITIONS))),
    8: (
        _MEMBER,
        record(
            *_STATE,
            Field("assignedPartitions", _PARTITIONS),
            Field("partitionsPendingRevocation", _PARTITIONS),
        ),
    ),
    10: (
        _MEMBER,
        record(
            Field("rackId", nullable_string),
            Field("clientId", string),
            Field("clientHost", string),
            Field("subscribedTopicNames", array(string)),
        ),
    ),
    11: (_GROUP, record(Field("epoch", int32), Field("metadataHash", int64))),
    12: (_GROUP, _TARGET),
    13: (_MEMBER, record(Field("topicPartitions", _PARTITIONS))),
    14: (_MEMBER, record(*_STATE, Field("assignedPartitions", _PARTITIONS))),
    15: (
        _GROUP,
        record(
            Field("initializingTopics", _NAMED_TOPICS),
            Field("initializedTopics", _NAMED_TOPICS),
            Field(
                "deletingTopics",
                array(struct(Field("topicId", uuid), Field("topicName", string))),
            ),
        ),
    ),
    16: (
        MessageSchema([Field("groupId", string), Field("regularExpression", string)]),
        record(Field("topics", array(string)), Field("version", int64), Field("timestamp", int64)),
    ),
    17: (
        _GROUP,
        record(
            Field("epoch", int32),
            Field("metadataHash", int64),
            Field("validatedTopologyEpoch", int32, tag=0, default=-1),
            Field("lastAssignmentConfigs", _PAIRS, tag=1, default=[]),
        ),
    ),
    19: (_MEMBER, _STREAMS_MEMBER),
    20: (_GROUP, _TARGET),
    21: (
        _MEMBER,
        record(
            Field("activeTasks", _TASKS),
            Field("standbyTasks", _TASKS),
            Field("warmupTasks", _TASKS),
        ),
    ),
    22: (
        _MEMBER,
        record(
            *_STATE,
            Field("activeTasks", _TASKS),
            Field("standbyTasks", _TASKS),
            Field("warmupTasks", _TASKS),
            Field("activeTasksPendingRevocation", _TASKS),
            Field("standbyTasksPendingRevocation", _TASKS),
            Field("warmupTasksPendingRevocation", _TASKS),
        ),
    ),
    23: (_GROUP, _STREAMS_TOPOLOGY),
}

_OWNED = array(struct(Field("topic", string), Field("partitions", int32s)))
_CONSUMER_PROTOCOL_LATEST = 3
SUBSCRIPTION = MessageSchema(
    [
        Field("topics", array(string)),
        Field("userData", nullable_binary),
        Field("ownedPartitions", _OWNED, since=1),
        Field("generationId", int32, since=2),
        Field("rackId", nullable_string, since=3),
    ],
    latest=_CONSUMER_PROTOCOL_LATEST,
)
ASSIGNMENT = MessageSchema(
    [Field("assignedPartitions", _OWNED), Field("userData", nullable_binary)],
    latest=_CONSUMER_PROTOCOL_LATEST,
)

_VOTERS = array(struct(Field("voterId", int32), Field("voterDirectoryId", uuid, since=1)))
KRAFT_CONTROLS: dict[int, tuple[str, MessageSchema]] = {
    2: (
        "LeaderChange:",
        MessageSchema(
            [
                Field("version", int16),
                Field("leaderId", int32),
                Field("voters", _VOTERS),
                Field("grantingVoters", _VOTERS),
            ],
            latest=1,
            flexible_from=0,
        ),
    ),
    3: (
        "SnapshotHeader",
        record(Field("version", int16), Field("lastContainedLogTimestamp", int64)),
    ),
    4: ("SnapshotFooter", record(Field("version", int16))),
    5: ("KRaftVersion", record(Field("version", int16), Field("kRaftVersion", int16))),
    6: (
        "KRaftVoters",
        record(
            Field("version", int16),
            Field(
                "voters",
                array(
                    struct(
                        Field("voterId", int32),
                        Field("voterDirectoryId", uuid),
                        Field(
                            "endpoints",
                            array(
                                struct(
                                    Field("name", string),
                                    Field("host", string),
                                    Field("port", uint16),
                                )
                            ),
                        ),
                        Field(
                            "kRaftVersionFeature",
                            struct(
                                Field("minSupportedVersion", int16),
                                Field("maxSupportedVersion", int16),
                            ),
                        ),
                    )
                ),
            ),
        ),
    ),
}
"""Control record type -> the words that Kafka's tool prints first, and the value's fields."""
