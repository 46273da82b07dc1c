"""What requests about permissions are made of, and who asks."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from headrace.broker.metadata_image import BrokerInfo, ImageDelta
from headrace.frontends.kafka.authentication import authorisation as auth
from headrace.frontends.kafka.authentication.authorisation import Ask
from headrace.model.nouns import BrokerId
from headrace.record.batch import Record, build
from headrace.security.identity import Identity, Principal
from headrace.wire.kafka.api import ApiKey
from tests.support.processes.broker import Room

TOPIC, GROUP, CLUSTER, TRANSACTION, TOKEN = 29, 30, 31, 53, 65
NOT_ATTEMPTED = 55
FEW: dict[str, Any] = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
    "share_coordinator_state_topic_num_partitions": "1",
    "group_initial_rebalance_delay_ms": "0",
    "delegation_token_secret_key": "of all brokers",
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


def followed(here: Room) -> Values:
    """A fetch of another broker of the cluster."""
    brokers = [*here.broker.image.brokers.values(), BrokerInfo(BrokerId(99), ())]
    here.broker.publish(ImageDelta(brokers=brokers))
    return {**fetched(12)(here), "replica_id": 99}


def asked_by_follower(here: Room) -> Values:
    """Another broker's question where a log ends."""
    followed(here)
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    return {"replica_id": 99, "topics": [{"name": "t", "partitions": [part]}]}


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
    "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
}  # fmt: skip
ACL = {
    "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a",
    "host": "*", "operation": 3, "permission_type": 3,
}  # fmt: skip
SHARED = {"group_id": "s", "member_id": "m"}
FURNISHED: tuple[tuple[ApiKey, int, Values], ...] = (
    *((ApiKey.FIND_COORDINATOR, 6, {"key_type": kind, "coordinator_keys": [name]})
      for kind, name in ((0, "g"), (1, "x"))),
    (ApiKey.OFFSET_COMMIT, 9, OFFSETS),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {
        "group_id": "k", "member_id": "AAAAAAAAAAAAAAAAAAAAAQ", "rebalance_timeout": SECOND,
        "subscribed_topic_names": ["t"], "topic_partitions": []}),
    (ApiKey.SHARE_GROUP_HEARTBEAT, 1, {**SHARED, "subscribed_topic_names": ["t"]}),
)  # fmt: skip
"""What makes groups g (offsets), k (consumers) and s (shared), of topic t."""
BEGINS = {
    "transactional_id": "x", "transaction_timeout": 60 * SECOND, "producer_id": -1,
    "producer_epoch": -1,
}  # fmt: skip


def added_by(producer_id: int, producer_epoch: int) -> Values:
    """Topic t in the transaction of the producer that was made by `BEGINS`."""
    own = {"producer_id": producer_id, "producer_epoch": producer_epoch}
    return {**ADDED, **{f"v3_and_below_{name}": value for name, value in own.items()}}


def shared(here: Room) -> Values:
    """Acknowledges a record, too, where there can be one to acknowledge."""
    acks = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]
    part = {"partition_index": 0, "acknowledgement_batches": acks}
    topics = [{"topic_id": uuid(here), "partitions": [part]}]
    return {**SHARED, "share_session_epoch": 1, "topics": topics}


def share_fetched(here: Room) -> Values:
    topics = [{"topic_id": uuid(here), "partitions": [{"partition_index": 0}]}]
    # Nothing is asked of the wait: each role that may read would sit it out.
    wait = timedelta(milliseconds=10)
    limits = {"max_bytes": 1000, "max_records": 10, "min_bytes": 1, "max_wait": wait}
    return {**SHARED, **limits, "share_session_epoch": 0, "topics": topics}


def settings(kind: int, name: str, **more: Any) -> Values:
    return {"resources": [{"resource_type": kind, "resource_name": name, **more}]}


def altered(kind: int, name: str, key: str, value: str) -> Values:
    return settings(kind, name, configs=[{"name": key, "value": value}])


def partitions(name: str = "name", at: str = "partitions") -> Values:
    return {"topics": [{name: "t", at: [0]}]}


NEW_TOPIC = {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}]}
OF_ID = (auth.DELETE_CLUSTER, auth.DELETE_TOPIC, auth.DESCRIBE_TOPIC)
