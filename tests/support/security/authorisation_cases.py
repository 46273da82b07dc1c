"""A request of each API for each question it asks, and how Kafka answers where that is refused."""

from headrace.frontends.kafka.authentication import authorisation as auth
from headrace.wire.kafka.api import ApiKey
from tests.support.security.authorisation_values import (
    ACL,
    ADDED,
    CLUSTER,
    GROUP,
    IN_TRANSACTION,
    NEW_TOPIC,
    OF_ID,
    OFFSETS,
    SECOND,
    SHARED,
    TOKEN,
    TOPIC,
    TRANSACTION,
    Case,
    altered,
    asked_by_follower,
    case,
    fetched,
    followed,
    partitions,
    produced,
    produced_by_id,
    settings,
    share_fetched,
    shared,
    uuid,
)

CASES: dict[ApiKey, list[Case]] = {
    ApiKey.PRODUCE: [
        case(12, produced(), auth.WRITE_TOPIC,
             ("responses.partition_responses.error_code", TOPIC), acts=True),
        case(13, produced_by_id, auth.WRITE_TOPIC,
             ("responses.partition_responses.error_code", TOPIC), acts=True),
        case(12, produced(transactional_id="x"), auth.WRITE_TRANSACTION,
             ("responses.partition_responses.error_code", TRANSACTION)),
        case(12, produced(transactional_id=None), (),
             ("responses.partition_responses.error_code", TRANSACTION)),
    ],
    ApiKey.FETCH: [
        case(version, fetched(version), auth.READ_TOPIC,
             ("responses.partitions.error_code", TOPIC))
        for version in (12, 18)
    ] + [
        case(12, followed, auth.CLUSTER_ACTION, ("responses.partitions.error_code", TOPIC)),
    ],
    ApiKey.LIST_OFFSETS: [
        case(11, {"replica_id": -1, "topics": [{"name": "t", "partitions": [
            {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}]},
            auth.DESCRIBE_TOPIC, ("topics.partitions.error_code", TOPIC)),
        case(11, asked_by_follower, (auth.DESCRIBE_TOPIC, auth.CLUSTER_ACTION),
             ("topics.partitions.error_code", TOPIC)),
    ],
    ApiKey.METADATA: [
        case(12, {"topics": [{"name": "t"}]}, auth.DESCRIBE_TOPIC,
             ("topics.error_code", TOPIC)),
        case(13, lambda here: {"topics": [{"topic_id": uuid(here), "name": None}]},
             auth.DESCRIBE_TOPIC, ("topics.error_code", TOPIC)),
        case(12, {"topics": None}, auth.DESCRIBE_TOPIC, left_out=lambda answer: not answer.topics),
        case(12, {"topics": [{"name": "new"}], "allow_auto_topic_creation": True},
             (auth.CREATE_CLUSTER, auth.CREATE_TOPIC), ("topics.error_code", TOPIC), acts=True),
        case(10, {"topics": [], "include_cluster_authorized_operations": True},
             auth.DESCRIBE_CLUSTER,
             left_out=lambda answer: answer.cluster_authorized_operations == 0),
    ],
    ApiKey.OFFSET_COMMIT: [
        case(9, OFFSETS, auth.READ_GROUP, ("topics.partitions.error_code", GROUP), acts=True),
        case(9, OFFSETS, auth.READ_TOPIC, ("topics.partitions.error_code", TOPIC), acts=True),
    ],
    ApiKey.OFFSET_FETCH: [
        case(9, {"groups": [{"group_id": "g", "member_epoch": -1, "topics": None}]},
             auth.DESCRIBE_GROUP, ("groups.error_code", GROUP)),
        case(9, {"groups": [{"group_id": "g", "member_epoch": -1,
                             "topics": [{"name": "t", "partition_indexes": [0]}]}]},
             auth.DESCRIBE_TOPIC, ("groups.topics.partitions.error_code", TOPIC)),
        case(9, {"groups": [{"group_id": "g", "member_epoch": -1, "topics": None}]},
             auth.DESCRIBE_TOPIC, left_out=lambda answer: not answer.groups[0].topics),
    ],
    ApiKey.FIND_COORDINATOR: [
        case(6, {"key_type": kind, "coordinator_keys": [key]}, ask,
             ("coordinators.error_code", code))
        for kind, key, ask, code in (
            (0, "g", auth.DESCRIBE_GROUP, GROUP),
            (1, "x", auth.DESCRIBE_TRANSACTION, TRANSACTION),
            (2, "s:AAAAAAAAAAAAAAAAAAAAAQ:0", auth.CLUSTER_ACTION, CLUSTER),
        )
    ],
    ApiKey.JOIN_GROUP: [
        case(9, {"group_id": "j", "protocol_type": "consumer", "session_timeout": 10 * SECOND,
                 "rebalance_timeout": SECOND, "protocols": [{"name": "range", "metadata": b""}]},
             auth.READ_GROUP, ("error_code", GROUP)),
    ],
    ApiKey.HEARTBEAT: [case(4, {"group_id": "g"}, auth.READ_GROUP, ("error_code", GROUP))],
    ApiKey.LEAVE_GROUP: [case(5, {"group_id": "g"}, auth.READ_GROUP, ("error_code", GROUP))],
    ApiKey.SYNC_GROUP: [
        case(5, {"group_id": "g", "protocol_type": "consumer", "protocol_name": "range"},
             auth.READ_GROUP, ("error_code", GROUP)),
    ],
    ApiKey.DESCRIBE_GROUPS: [
        case(6, {"groups": ["g"]}, auth.DESCRIBE_GROUP, ("groups.error_code", GROUP)),
    ],
    ApiKey.LIST_GROUPS: [
        case(5, {}, (auth.DESCRIBE_CLUSTER, auth.DESCRIBE_GROUP),
             left_out=lambda answer: not answer.groups),
    ],
    ApiKey.CREATE_TOPICS: [
        case(7, NEW_TOPIC, (auth.CREATE_CLUSTER, auth.CREATE_TOPIC),
             ("topics.error_code", TOPIC), acts=True),
        case(7, {"topics": [{"name": "unseen", "num_partitions": 1, "replication_factor": 1}],
                 "validate_only": True}, auth.DESCRIBE_TOPIC_CONFIGS,
             ("topics.topic_config_error_code", TOPIC)),
    ],
    ApiKey.DELETE_TOPICS: [
        case(6, {"topics": [{"name": "t", "topic_id": None}]},
             (auth.DELETE_CLUSTER, auth.DELETE_TOPIC), ("responses.error_code", TOPIC), acts=True),
        case(6, lambda here: {"topics": [{"name": None, "topic_id": uuid(here)}]}, OF_ID,
             ("responses.error_code", TOPIC),
             left_out=lambda answer: answer.responses[0].name is None, acts=True),
    ],
    ApiKey.DELETE_RECORDS: [
        case(2, {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": -1}]}],
                 "timeout": SECOND},
             auth.DELETE_TOPIC, ("topics.partitions.error_code", TOPIC), acts=True),
    ],
    ApiKey.INIT_PRODUCER_ID: [
        case(5, {"transactional_id": "y", "transaction_timeout": SECOND, "producer_id": -1,
                 "producer_epoch": -1},
             auth.WRITE_TRANSACTION, ("error_code", TRANSACTION), acts=True),
        case(6, {"transactional_id": "y", "transaction_timeout": SECOND, "producer_id": -1,
                 "producer_epoch": -1, "enable2_pc": True},
             auth.TWO_PHASE_TRANSACTION, ("error_code", TRANSACTION)),
        case(6, {"transactional_id": "y", "transaction_timeout": SECOND, "producer_id": -1,
                 "producer_epoch": -1, "keep_prepared_txn": True},
             auth.TWO_PHASE_TRANSACTION, ("error_code", TRANSACTION)),
        case(5, {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
             (auth.IDEMPOTENT_WRITE, auth.WRITE_TOPIC), ("error_code", CLUSTER)),
    ],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [
        case(4, {"replica_id": -1, "topics": [{"topic": "t", "partitions": [
            {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]},
            (auth.CLUSTER_ACTION, auth.DESCRIBE_TOPIC), ("topics.partitions.error_code", TOPIC)),
    ],
    ApiKey.ADD_PARTITIONS_TO_TXN: [
        case(3, ADDED, auth.WRITE_TRANSACTION,
             ("results_by_topic_v3_and_below.results_by_partition.partition_error_code",
              TRANSACTION)),
        case(3, ADDED, auth.WRITE_TOPIC,
             ("results_by_topic_v3_and_below.results_by_partition.partition_error_code", TOPIC)),
        case(5, {"transactions": [{"transactional_id": "x", "topics": [
            {"name": "t", "partitions": [0]}]}]},
            auth.CLUSTER_ACTION, ("error_code", CLUSTER)),
    ],
    ApiKey.ADD_OFFSETS_TO_TXN: [
        case(4, {"transactional_id": "x", "producer_id": 1, "group_id": "g"},
             auth.WRITE_TRANSACTION, ("error_code", TRANSACTION)),
        case(4, {"transactional_id": "x", "producer_id": 1, "group_id": "g"},
             auth.READ_GROUP, ("error_code", GROUP)),
    ],
    ApiKey.END_TXN: [
        case(5, {"transactional_id": "x", "producer_id": 1}, auth.WRITE_TRANSACTION,
             ("error_code", TRANSACTION)),
    ],
    ApiKey.WRITE_TXN_MARKERS: [
        case(1, {"markers": [{"producer_id": 1, "transaction_result": True, "topics": [
            {"name": "t", "partition_indexes": [0]}]}]},
            (auth.ALTER_CLUSTER, auth.CLUSTER_ACTION),
            ("markers.topics.partitions.error_code", CLUSTER), acts=True),
    ],
    ApiKey.TXN_OFFSET_COMMIT: [
        case(5, IN_TRANSACTION, ask, ("topics.partitions.error_code", code))
        for ask, code in ((auth.WRITE_TRANSACTION, TRANSACTION), (auth.READ_GROUP, GROUP),
                          (auth.READ_TOPIC, TOPIC))
    ],
    ApiKey.DESCRIBE_ACLS: [
        case(3, {"resource_type_filter": 1, "pattern_type_filter": 3, "operation": 1,
                 "permission_type": 1}, auth.DESCRIBE_CLUSTER, ("error_code", CLUSTER)),
    ],
    ApiKey.CREATE_ACLS: [
        case(3, {"creations": [ACL]}, auth.ALTER_CLUSTER, ("results.error_code", CLUSTER)),
    ],
    ApiKey.DELETE_ACLS: [
        case(3, {"filters": [{"resource_type_filter": 1, "pattern_type_filter": 3}]},
             auth.ALTER_CLUSTER, ("filter_results.error_code", CLUSTER)),
    ],
    ApiKey.CREATE_DELEGATION_TOKEN: [
        case(3, {"renewers": [], "max_lifetime": SECOND, "owner_principal_type": "User",
                 "owner_principal_name": "bob"}, auth.CREATE_TOKENS, ("error_code", TOKEN)),
    ],
    ApiKey.DESCRIBE_DELEGATION_TOKEN: [
        case(version, {"owners": None}, (auth.DESCRIBE_TOKEN, auth.DESCRIBE_TOKENS),
             left_out=lambda answer: not answer.tokens)
        for version in (1, 3)
    ],
    ApiKey.DESCRIBE_CONFIGS: [
        case(4, settings(kind, name), ask, ("results.error_code", code))
        for kind, name, ask, code in (
            (2, "t", auth.DESCRIBE_TOPIC_CONFIGS, TOPIC),
            (32, "g", auth.DESCRIBE_GROUP_CONFIGS, GROUP),
            (4, "", auth.DESCRIBE_CLUSTER_CONFIGS, CLUSTER),
            (8, "0", auth.DESCRIBE_CLUSTER_CONFIGS, CLUSTER),
            (16, "c", auth.DESCRIBE_CLUSTER_CONFIGS, CLUSTER),
        )
    ],
    **{
        key: [
            case(version, altered(kind, name, setting, value), ask,
                 ("responses.error_code", code), acts=True)
            for kind, name, setting, value, ask, code in (
                (2, "t", "retention.ms", "1000", auth.ALTER_TOPIC_CONFIGS, TOPIC),
                (32, "g", "consumer.session.timeout.ms", "50000", auth.ALTER_GROUP_CONFIGS, GROUP),
                (4, "", "log.retention.ms", "1000", auth.ALTER_CLUSTER_CONFIGS, CLUSTER),
                (16, "c", "interval.ms", "1000", auth.ALTER_CLUSTER_CONFIGS, CLUSTER),
            )
        ]
        for key, version in ((ApiKey.ALTER_CONFIGS, 2), (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1))
    },
    ApiKey.ALTER_REPLICA_LOG_DIRS: [
        case(2, {"dirs": [{"path": "/data", "topics": [{"name": "t", "partitions": [0]}]}]},
             auth.ALTER_CLUSTER, ("results.partitions.error_code", CLUSTER)),
    ],
    ApiKey.DESCRIBE_LOG_DIRS: [
        case(5, {"topics": None}, auth.DESCRIBE_CLUSTER, ("error_code", CLUSTER)),
    ],
    ApiKey.CREATE_PARTITIONS: [
        case(3, {"topics": [{"name": "t", "count": 3, "assignments": None}], "timeout": SECOND},
             auth.ALTER_TOPIC, ("results.error_code", TOPIC), acts=True),
    ],
    ApiKey.DELETE_GROUPS: [
        case(2, {"groups_names": ["g"]}, auth.DELETE_GROUP, ("results.error_code", GROUP),
             acts=True),
    ],
    ApiKey.ELECT_LEADERS: [
        case(2, {"topic_partitions": [{"topic": "t", "partitions": [0]}]}, auth.ALTER_CLUSTER,
             ("error_code", CLUSTER),
             ("replica_election_results.partition_result.error_code", CLUSTER)),
    ],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [
        case(1, {"topics": [{"name": "t", "partitions": [
            {"partition_index": 0, "replicas": [0]}]}]},
            auth.ALTER_CLUSTER, ("error_code", CLUSTER),
            ("responses.partitions.error_code", CLUSTER)),
    ],
    ApiKey.LIST_PARTITION_REASSIGNMENTS: [
        case(0, {"topics": None}, auth.DESCRIBE_CLUSTER, ("error_code", CLUSTER)),
    ],
    ApiKey.OFFSET_DELETE: [
        case(0, {"group_id": "g", "topics": [{"name": "t", "partitions": [
            {"partition_index": 0}]}]}, auth.DELETE_GROUP, ("error_code", GROUP), acts=True),
        case(0, {"group_id": "g", "topics": [{"name": "t", "partitions": [
            {"partition_index": 0}]}]}, auth.READ_TOPIC,
            ("topics.partitions.error_code", TOPIC), acts=True),
    ],
    ApiKey.DESCRIBE_CLIENT_QUOTAS: [
        case(1, {}, auth.DESCRIBE_CLUSTER_CONFIGS, ("error_code", CLUSTER)),
    ],
    ApiKey.ALTER_CLIENT_QUOTAS: [
        case(1, {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}],
                              "ops": [{"key": "producer_byte_rate", "value": 1000.0}]}]},
             auth.ALTER_CLUSTER_CONFIGS, ("entries.error_code", CLUSTER), acts=True),
    ],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [
        case(0, {"users": None}, auth.DESCRIBE_CLUSTER, ("error_code", CLUSTER)),
    ],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [
        case(0, {"deletions": [{"name": "u", "mechanism": 1}]}, auth.ALTER_CLUSTER,
             ("results.error_code", CLUSTER)),
    ],
    ApiKey.DESCRIBE_CLUSTER: [
        case(2, {"endpoint_type": 1, "include_cluster_authorized_operations": True},
             auth.DESCRIBE_CLUSTER,
             left_out=lambda answer: answer.cluster_authorized_operations == 0),
    ],
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: [
        case(0, {"topics": [{"name": "t"}], "response_partition_limit": 10},
             auth.DESCRIBE_TOPIC, ("topics.error_code", TOPIC)),
        case(0, {"topics": [], "response_partition_limit": 10}, auth.DESCRIBE_TOPIC,
             left_out=lambda answer: not answer.topics),
    ],
    ApiKey.DESCRIBE_PRODUCERS: [
        case(0, partitions(at="partition_indexes"), auth.READ_TOPIC,
             ("topics.partitions.error_code", TOPIC)),
    ],
    ApiKey.DESCRIBE_TRANSACTIONS: [
        case(0, {"transactional_ids": ["x"]}, auth.DESCRIBE_TRANSACTION,
             ("transaction_states.error_code", TRANSACTION)),
        case(0, {"transactional_ids": ["x"]}, auth.DESCRIBE_TOPIC,
             left_out=lambda answer: not answer.transaction_states[0].topics),
    ],
    ApiKey.LIST_TRANSACTIONS: [
        case(2, {"duration_filter": -1}, auth.DESCRIBE_TRANSACTION,
             left_out=lambda answer: not answer.transaction_states),
    ],
    ApiKey.CONSUMER_GROUP_HEARTBEAT: [
        case(1, {"group_id": "c", "member_id": "AAAAAAAAAAAAAAAAAAAAAQ", "member_epoch": 0,
                 "rebalance_timeout": SECOND, "subscribed_topic_names": ["t"],
                 "topic_partitions": []},
             ask, ("error_code", code), acts=True)
        for ask, code in ((auth.READ_GROUP, GROUP), (auth.DESCRIBE_TOPIC, TOPIC))
    ],
    ApiKey.CONSUMER_GROUP_DESCRIBE: [
        case(1, {"group_ids": ["k"]}, ask, ("groups.error_code", code))
        for ask, code in ((auth.DESCRIBE_GROUP, GROUP), (auth.DESCRIBE_TOPIC, TOPIC))
    ],
    ApiKey.LIST_CONFIG_RESOURCES: [
        case(1, {}, auth.DESCRIBE_CLUSTER_CONFIGS, ("error_code", CLUSTER)),
    ],
    ApiKey.SHARE_GROUP_HEARTBEAT: [
        case(1, {**SHARED, "member_id": "n", "subscribed_topic_names": ["t"]}, ask,
             ("error_code", code), acts=True)
        for ask, code in ((auth.READ_GROUP, GROUP), (auth.DESCRIBE_TOPIC, TOPIC))
    ],
    ApiKey.SHARE_GROUP_DESCRIBE: [
        case(1, {"group_ids": ["s"]}, ask, ("groups.error_code", code))
        for ask, code in ((auth.DESCRIBE_GROUP, GROUP), (auth.DESCRIBE_TOPIC, TOPIC))
    ],
    ApiKey.SHARE_FETCH: [
        case(2, share_fetched, auth.READ_GROUP, ("error_code", GROUP)),
        case(2, share_fetched, auth.READ_TOPIC, ("responses.partitions.error_code", TOPIC)),
    ],
    ApiKey.SHARE_ACKNOWLEDGE: [
        case(2, shared, auth.READ_GROUP, ("error_code", GROUP)),
        case(2, shared, auth.READ_TOPIC, ("responses.partitions.error_code", TOPIC)),
    ],
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: [
        case(1, {"groups": [{"group_id": "s", "topics": [
            {"topic_name": "t", "partitions": [0]}]}]}, auth.DESCRIBE_GROUP,
            ("groups.error_code", GROUP)),
        case(1, {"groups": [{"group_id": "s", "topics": [
            {"topic_name": "t", "partitions": [0]}]}]}, auth.DESCRIBE_TOPIC,
            ("groups.topics.partitions.error_code", TOPIC)),
        case(1, {"groups": [{"group_id": "s", "topics": None}]}, auth.DESCRIBE_TOPIC,
             left_out=lambda answer: not answer.groups[0].topics),
    ],
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: [
        case(0, {"group_id": "n", "topics": [{"topic_name": "t", "partitions": [
            {"partition_index": 0, "start_offset": 0}]}]}, auth.READ_GROUP, ("error_code", GROUP),
            acts=True),
        case(0, {"group_id": "n", "topics": [{"topic_name": "t", "partitions": [
            {"partition_index": 0, "start_offset": 0}]}]}, auth.READ_TOPIC,
            ("responses.partitions.error_code", TOPIC), acts=True),
    ],
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: [
        case(0, {"group_id": "n", "topics": [{"topic_name": "t"}]}, auth.DELETE_GROUP,
             ("error_code", GROUP)),
        case(0, {"group_id": "n", "topics": [{"topic_name": "t"}]}, auth.READ_TOPIC,
             ("responses.error_code", TOPIC)),
    ],
}  # fmt: skip
