"""Each API asks what the table says before it acts, and answers a refusal as Kafka does."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headrace.cluster.topic_creation import NewTopic
from headrace.frontends.kafka.connection import authorisation as auth
from headrace.frontends.kafka.connection.authorisation import ASKED, NOT_ASKED, Ask
from headrace.frontends.kafka.connection.registry import APIS
from headrace.record.batch import Record, build
from headrace.security.authorizer import AllowsAll
from headrace.security.identity import Identity, Principal
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from tests.support.authorisation import Rules, call, errors, open_session, state_of
from tests.support.broker import Room, play, room

TOPIC, GROUP, CLUSTER, TRANSACTION = 29, 30, 31, 53
NOT_ATTEMPTED = 55
FEW: dict[str, Any] = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "share_coordinator_state_topic_num_partitions": "1",
    "group_initial_rebalance_delay_ms": "0",
}
ALICE = Identity("10.0.0.1", "PLAINTEXT", Principal("User", "alice"))
BOB = Identity("10.0.0.2", "PLAINTEXT", Principal("User", "bob"))
SECOND = timedelta(seconds=1)
Values = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One request, what it may not, and what is to be answered."""

    version: int
    values: Callable[[Room], Values] | Values
    refused: tuple[Ask, ...]
    errors: frozenset[tuple[str, int]] = frozenset()
    left_out: Callable[[Any], bool] | None = None
    """Where a refusal is no error: whether the answer keeps silent as it should."""
    acts: bool = False
    """Whether the same request changes something where it is allowed."""


def case(
    version: int,
    values: Callable[[Room], Values] | Values,
    refused: Ask | tuple[Ask, ...],
    *found: tuple[str, int],
    left_out: Callable[[Any], bool] | None = None,
    acts: bool = False,
) -> Case:
    asks = (refused,) if isinstance(refused, Ask) else refused
    return Case(version, values, asks, frozenset(found), left_out, acts)


def batch(*, transactional: bool = False) -> bytes:
    producer: dict[str, Any] = {
        "producer_id": 7,
        "producer_epoch": 0,
        "base_sequence": 0,
        "transactional": True,
    }
    return build(
        [Record(0, 1_780_000_000_000, None, b"v", ())], **(producer if transactional else {})
    )


def uuid(here: Room) -> UUID:
    return UUID(bytes=here.broker.image.topics["t"].topic_id)


def produced(**more: Any) -> Values:
    data = {"index": 0, "records": batch(transactional="transactional_id" in more)}
    topics = [{"name": "t", "partition_data": [data]}]
    return {"acks": -1, "timeout": SECOND, "topic_data": topics, **more}


def produced_by_id(here: Room) -> Values:
    data = {"index": 0, "records": batch()}
    topics = [{"topic_id": uuid(here), "partition_data": [data]}]
    return {"acks": -1, "timeout": SECOND, "topic_data": topics}


def fetched(version: int) -> Callable[[Room], Values]:
    def values(here: Room) -> Values:
        part = {"partition": 0, "current_leader_epoch": -1, "partition_max_bytes": 1000}
        named = {"topic": "t"} if version < 13 else {"topic_id": uuid(here)}
        common = {"max_bytes": 1000, "session_epoch": -1, "min_bytes": 1}
        replica = {"replica_id": -1} if version < 15 else {}
        return {**common, **replica, "topics": [{**named, "partitions": [part]}]}

    return values


COMMITTED = [{"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}]
OFFSETS = {
    "group_id": "g", "generation_id_or_member_epoch": -1,
    "topics": [{"name": "t", "partitions": COMMITTED}],
}  # fmt: skip
IN_TRANSACTION = {
    "transactional_id": "x", "group_id": "g", "producer_id": 1, "producer_epoch": 0,
    "generation_id": -1, "topics": [{"name": "t", "partitions": COMMITTED}],
}  # fmt: skip
ADDED = {
    "v3_and_below_transactional_id": "x", "v3_and_below_producer_id": 1,
    "v3_and_below_producer_epoch": 0,
    "v3_and_below_topics": [
        {"name": "t", "partitions": [0]}, {"name": "__consumer_offsets", "partitions": [0]},
    ],
}  # fmt: skip
ACL = {
    "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a",
    "host": "*", "operation": 3, "permission_type": 3,
}  # fmt: skip
SHARED = {"group_id": "s", "member_id": "m"}


def shared(here: Room) -> Values:
    """Acknowledges a record, too, where there can be one to acknowledge."""
    acks = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]
    part = {"partition_index": 0, "acknowledgement_batches": acks}
    topics = [{"topic_id": uuid(here), "partitions": [part]}]
    return {**SHARED, "share_session_epoch": 1, "topics": topics}


def share_fetched(here: Room) -> Values:
    topics = [{"topic_id": uuid(here), "partitions": [{"partition_index": 0}]}]
    limits = {"max_bytes": 1000, "max_records": 10, "min_bytes": 1, "max_wait": SECOND}
    return {**SHARED, **limits, "share_session_epoch": 0, "topics": topics}


def settings(kind: int, name: str, **more: Any) -> Values:
    return {"resources": [{"resource_type": kind, "resource_name": name, **more}]}


def altered(kind: int, name: str, key: str, value: str) -> Values:
    return settings(kind, name, configs=[{"name": key, "value": value}])


def partitions(name: str = "name", at: str = "partitions") -> Values:
    return {"topics": [{name: "t", at: [0]}]}


NEW_TOPIC = {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}]}
OF_ID = (auth.DELETE_CLUSTER, auth.DELETE_TOPIC, auth.DESCRIBE_TOPIC)

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
    ],
    ApiKey.LIST_OFFSETS: [
        case(11, {"replica_id": -1, "topics": [{"name": "t", "partitions": [
            {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}]},
            auth.DESCRIBE_TOPIC, ("topics.partitions.error_code", TOPIC)),
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


async def furnish(here: Room) -> None:
    """What requests are about: topic t, groups g (offsets), k (consumers), s (shared), and x."""
    await here.controller.create_topics([NewTopic("t", 1, 1)])
    here.write("t")
    dispatcher, session = open_session(here, ALICE)
    for kind, name in ((0, "g"), (1, "x")):
        values: Values = {"key_type": kind, "coordinator_keys": [name]}
        await call(here, session, ApiKey.FIND_COORDINATOR, 6, values)
    for key, version, values in (
        (ApiKey.OFFSET_COMMIT, 9, OFFSETS),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {
            "group_id": "k", "member_id": "AAAAAAAAAAAAAAAAAAAAAQ", "rebalance_timeout": SECOND,
            "subscribed_topic_names": ["t"], "topic_partitions": []}),
        (ApiKey.SHARE_GROUP_HEARTBEAT, 1, {**SHARED, "subscribed_topic_names": ["t"]}),
    ):  # fmt: skip
        assert errors(await call(here, session, key, version, values)) == set()
    asked = {"transactional_id": "x", "transaction_timeout": 60 * SECOND, "producer_id": -1,
             "producer_epoch": -1}  # fmt: skip
    made = await call(here, session, ApiKey.INIT_PRODUCER_ID, 4, asked)
    opens = {**ADDED, "v3_and_below_producer_id": made.producer_id,
             "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}  # fmt: skip
    assert errors(await call(here, session, ApiKey.ADD_PARTITIONS_TO_TXN, 3, opens)) == set()
    await dispatcher.stop()


def in_room(tmp_path: Path, test: Callable[[Room], Any]) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), **FEW) as here:
            await furnish(here)
            await test(here)

    play(story())


def values_of(here: Room, one: Case) -> Values:
    return one.values(here) if callable(one.values) else one.values


async def open_share_session(session: Any, here: Room, key: ApiKey) -> None:
    """An acknowledgement needs a session, which a ShareFetch opens."""
    if key is ApiKey.SHARE_ACKNOWLEDGE:
        await call(here, session, ApiKey.SHARE_FETCH, 2, share_fetched(here))


def test_every_api_that_is_served_asks_something_or_says_why_not() -> None:
    served = {api.key for api in APIS}
    assert set(ASKED) | set(NOT_ASKED) == served
    assert not set(ASKED) & set(NOT_ASKED)
    assert all(ASKED.values())
    assert all(NOT_ASKED.values())


def test_every_question_of_the_table_has_a_case_that_refuses_it() -> None:
    for key, asks in ASKED.items():
        assert {ask for one in CASES[key] for ask in one.refused} == set(asks), key.name


@pytest.mark.parametrize("key", CASES, ids=lambda key: key.name)
def test_a_refusal_is_answered_as_kafka_does_and_nothing_is_done(
    tmp_path: Path, key: ApiKey
) -> None:
    async def test(here: Room) -> None:
        for one in CASES[key]:
            dispatcher, session = open_session(here, ALICE)
            values = values_of(here, one)
            await open_share_session(session, here, key)
            before = await state_of(here)
            rules = here.broker.authorizer = Rules(*one.refused)
            answer = await call(here, session, key, one.version, values)
            found = {error for error in errors(answer) if error[1] != NOT_ATTEMPTED}
            assert found == one.errors, (one, answer)
            assert one.left_out is None or one.left_out(answer), answer
            assert await state_of(here) == before, one
            assert {ask for _, ask, _ in rules.asked} <= set(ASKED[key])
            assert {who for who, _, _ in rules.asked} <= {"alice"}
            here.broker.authorizer = AllowsAll()
            await dispatcher.stop()

    in_room(tmp_path, test)


@pytest.mark.parametrize("key", CASES, ids=lambda key: key.name)
def test_what_is_allowed_is_done_and_nothing_but_the_table_is_asked(
    tmp_path: Path, key: ApiKey
) -> None:
    async def test(here: Room) -> None:
        for one in CASES[key][:1]:
            dispatcher, session = open_session(here, ALICE)
            values = values_of(here, one)
            await open_share_session(session, here, key)
            before = await state_of(here)
            rules = here.broker.authorizer = Rules()
            answer = await call(here, session, key, one.version, values)
            assert not {TOPIC, GROUP, CLUSTER, TRANSACTION} & {code for _, code in errors(answer)}
            assert one.left_out is None or not one.left_out(answer), answer
            if one.acts:
                assert await state_of(here) != before, one
            assert rules.asked
            assert {ask for _, ask, _ in rules.asked} <= set(ASKED[key])
            await dispatcher.stop()

    in_room(tmp_path, test)
