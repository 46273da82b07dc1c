"""Kafka's znodes: the path of each fact in the store, and its JSON.

Paths and payloads are those of Kafka 3.9 in ZooKeeper mode, so that its tools can read them.
Unknown fields of a payload are ignored.
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from headrace.broker.metadata_image import BrokerInfo, Endpoint
from headrace.cluster.store import stored_doubts as doubts
from headrace.cluster.store.stored_doubts import Doubts
from headrace.log.text_files import decode_uuid, encode_uuid
from headrace.model.errors import HeadraceError
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
GROUP_CONFIGS = "/config/groups"
CLIENT_METRICS_CONFIGS = "/config/client-metrics"
CLIENT_CONFIGS = "/config/clients"
USER_CONFIGS = "/config/users"
IP_CONFIGS = "/config/ips"
CONFIG_CHANGES = "/config/changes"
DELETE_TOPICS = "/admin/delete_topics"
ELECTIONS = "/admin/preferred_replica_election"
REASSIGNMENTS = "/admin/reassign_partitions"
DIRECTORY_FAILURES = "/log_dir_event_notification"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURE = "/feature"
MIGRATION = "/headrace-migration"
"""Exists while a single broker's metadata are copied into the store. Not Kafka's."""
DELETED_REPLICAS = "/headrace-deleted-replicas"
"""Parent of `BROKER/TOPIC_ID`: a topic that was deleted while a broker with replicas of it was
down. The value is the topic's name. Not Kafka's."""
NO_FEATURES = b'{"features":{},"version":2,"status":1}'
"""Value of `/feature`: feature versioning is enabled, and no feature is finalized."""
CLUSTER_DEFAULT = "<default>"
"""Name of the node of settings for all brokers (empty entity name in the protocol)."""
NONSENSE = (ValueError, OverflowError, KeyError, TypeError, AttributeError, IndexError)
"""Exceptions of decoding a payload that is not JSON or has another form; 1e999 overflows."""

ROOTS = (
    "/consumers",
    BROKER_IDS,
    BROKER_SEQUENCE,
    TOPICS,
    CONFIG_CHANGES,
    TOPIC_CONFIGS,
    CLIENT_CONFIGS,
    USER_CONFIGS,
    IP_CONFIGS,
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    DELETE_TOPICS,
    "/isr_change_notification",
    DIRECTORY_FAILURES,
    PRODUCER_ID_BLOCK,
)
"""Persistent paths that are created, if missing, at every start, as by Kafka."""


class BadPayload(HeadraceError):
    """A malformed node, with its path."""


class TopicNode(NamedTuple):
    """The content of `/brokers/topics/NAME`."""

    partitions: Mapping[int, tuple[BrokerId, ...]]
    """Replicas of each partition, preferred leader first."""
    topic_id: bytes | None
    """None: an old tool wrote the node."""
    adding: Mapping[int, tuple[BrokerId, ...]] = MappingProxyType({})
    """By partition: the replicas that a running reassignment adds."""
    removing: Mapping[int, tuple[BrokerId, ...]] = MappingProxyType({})
    """By partition: the replicas that a running reassignment removes at its end."""


class PartitionState(NamedTuple):
    """The content of `/brokers/topics/NAME/partitions/N/state`."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: int = 0
    recovering: bool = False
    """Whether the leader was elected uncleanly and not all replicas have followed since."""


class ProducerIdBlock(NamedTuple):
    """The content of `/latest_producer_id_block`; both ends inclusive."""

    broker: BrokerId
    first: int
    last: int


class Registration(NamedTuple):
    """The content of `/brokers/ids/N`."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    timestamp_ms: int = 0
    features: Mapping[str, Any] = MappingProxyType({})
    doubts: Doubts = MappingProxyType({})
    """Replicas that may lack committed records. A field of ours (`doubtful_replicas`), which
    Kafka's tools ignore."""


def topic_path(name: str) -> str:
    """Return the path of the topic's node. Names need no quoting: they hold no slash."""
    return f"{TOPICS}/{name}"


def partitions_path(name: str) -> str:
    """Return the path of the parent of the partitions' nodes."""
    return f"{TOPICS}/{name}/partitions"


def partition_path(name: str, index: int) -> str:
    """Return the path of the parent of one partition's state."""
    return f"{TOPICS}/{name}/partitions/{index}"


def state_path(name: str, index: int) -> str:
    """Return the path of the leader, epoch and ISR of one partition."""
    return f"{TOPICS}/{name}/partitions/{index}/state"


def topic_config_path(name: str) -> str:
    """Return the path of the topic's own settings."""
    return f"{TOPIC_CONFIGS}/{name}"


def broker_config_path(broker: str) -> str:
    """Return the path of settings changed at run time: a broker's, or all's (`CLUSTER_DEFAULT`)."""
    return f"{BROKER_CONFIGS}/{broker}"


def broker_path(broker: BrokerId) -> str:
    """Return the path of the ephemeral node of a live broker."""
    return f"{BROKER_IDS}/{broker}"


def quote_entity(name: str) -> str:
    """Encode a user's or client's name as a node's name (Kafka's Sanitizer: URL encoding)."""
    return quote(name, safe="-_.")


def unquote_entity(name: str) -> str:
    """Return the entity's name from its node's name."""
    return unquote(name)


def encode_topic(topic: TopicNode) -> bytes:
    """Encode a topic's node in version 3, the last that Kafka wrote."""
    payload: dict[str, Any] = {"partitions": _by_index(topic.partitions)}
    if topic.topic_id is not None:
        payload["topic_id"] = encode_uuid(topic.topic_id)
    payload["adding_replicas"] = _by_index(topic.adding)
    payload["removing_replicas"] = _by_index(topic.removing)
    return _encode({**payload, "version": 3})


def _by_index(replicas: Mapping[int, tuple[BrokerId, ...]]) -> dict[str, list[BrokerId]]:
    return {str(index): list(found) for index, found in replicas.items()}


def decode_topic(path: str, value: bytes) -> TopicNode:
    """Decode a topic's node of versions 1 to 3. Raises BadPayload."""
    try:
        payload = json.loads(value)
        text = payload.get("topic_id")
        return TopicNode(
            _replicas(payload["partitions"]),
            None if text is None else decode_uuid(text),
            _replicas(payload.get("adding_replicas", {})),
            _replicas(payload.get("removing_replicas", {})),
        )
    except NONSENSE as error:
        raise BadPayload(f"{path}: {error!r} in {value[:200]!r}") from error


def _replicas(read: Mapping[str, Sequence[int]]) -> dict[int, tuple[BrokerId, ...]]:
    return {
        int(index): tuple(BrokerId(int(broker)) for broker in found)
        for index, found in sorted(read.items(), key=lambda item: int(item[0]))
    }


def encode_state(state: PartitionState) -> bytes:
    """Encode leader and ISR."""
    return _encode(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            **({"leader_recovery_state": 1} if state.recovering else {}),
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
        }
    )


def decode_state(path: str, value: bytes) -> PartitionState:
    """Decode leader and ISR. Raises BadPayload."""
    try:
        payload = json.loads(value)
        return PartitionState(
            leader=BrokerId(int(payload["leader"])),
            leader_epoch=LeaderEpoch(int(payload["leader_epoch"])),
            isr=tuple(BrokerId(int(broker)) for broker in payload["isr"]),
            controller_epoch=int(payload.get("controller_epoch", 0)),
            recovering=payload.get("leader_recovery_state", 0) == 1,
        )
    except NONSENSE as error:
        raise BadPayload(f"{path}: {error!r} in {value[:200]!r}") from error


def encode_config(config: Mapping[str, str]) -> bytes:
    """Encode the settings of one entity."""
    return _encode({"version": 1, "config": dict(config)})


def decode_config(path: str, value: bytes) -> dict[str, str]:
    """Decode the settings of one entity; an empty node holds none. Raises BadPayload."""
    if not value:
        return {}
    try:
        return {str(name): str(setting) for name, setting in json.loads(value)["config"].items()}
    except NONSENSE as error:
        raise BadPayload(f"{path}: {error!r} in {value[:200]!r}") from error


def encode_config_change(entity_path: str) -> bytes:
    """Encode the notification that `entity_path` ("topics/T", "brokers/0") has new settings."""
    return _encode({"version": 2, "entity_path": entity_path})


def decode_config_change(value: bytes) -> str | None:
    """Return the entity that a config notification names ("topics/T"); None: it is unknown.

    Version 1 has the type and the entity, version 2 the path below `/config`.
    """
    try:
        payload = json.loads(value)
        if payload["version"] == 1:
            return f"{payload['entity_type']}/{payload['entity_name']}"
        return str(payload["entity_path"])
    except NONSENSE:
        return None


def decode_partitions(path: str, value: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Decode a tool's request: partitions, with replicas if it names them. Raises BadPayload."""
    try:
        return {
            TopicPartition(str(found["topic"]), int(found["partition"])): tuple(
                BrokerId(int(broker)) for broker in found.get("replicas", ())
            )
            for found in json.loads(value)["partitions"]
        }
    except NONSENSE as error:
        raise BadPayload(f"{path}: {error!r} in {value[:200]!r}") from error


def encode_registration(registration: Registration) -> bytes:
    """Encode version 5. `host` and `port` repeat the first PLAINTEXT endpoint, as Kafka's do."""
    plain = next(
        (endpoint for endpoint in registration.endpoints if endpoint.protocol == "PLAINTEXT"), None
    )
    payload: dict[str, Any] = {
        "features": dict(registration.features),
        "listener_security_protocol_map": {
            endpoint.listener: endpoint.protocol for endpoint in registration.endpoints
        },
        "endpoints": [_endpoint_text(endpoint) for endpoint in registration.endpoints],
        **({} if registration.rack is None else {"rack": registration.rack}),
        "jmx_port": -1,
        "port": plain.port if plain else -1,
        "host": plain.host if plain else None,
        "version": 5,
        "timestamp": str(registration.timestamp_ms),
        **(
            {"doubtful_replicas": doubts.encode(registration.doubts)} if registration.doubts else {}
        ),
    }
    return _encode(payload)


def decode_registration(broker: BrokerId, path: str, value: bytes, epoch: int) -> BrokerInfo:
    """Decode a registration node (`/brokers/ids/N`) to a live broker. Raises BadPayload."""
    try:
        payload = json.loads(value)
        protocols = payload.get("listener_security_protocol_map", {})
        endpoints = tuple(_parse_endpoint(text, protocols) for text in payload["endpoints"])
        features = frozenset(payload.get("features", ()))
        return BrokerInfo(broker, endpoints, payload.get("rack"), epoch, features)
    except NONSENSE as error:
        raise BadPayload(f"{path}: {error!r} in {value[:200]!r}") from error


def decode_doubts(path: str, value: bytes) -> dict[TopicPartition, doubts.Doubt]:
    """Decode the doubts of a live broker's registration. Raises BadPayload."""
    try:
        return doubts.decode(json.loads(value).get("doubtful_replicas", {}))
    except NONSENSE as error:
        raise BadPayload(f"{path}: {error!r} in {value[:200]!r}") from error


def encode_controller(broker: BrokerId, timestamp_ms: int) -> bytes:
    """Encode the content of `/controller`."""
    return _encode(
        {
            "version": 2,
            "brokerid": broker,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(value: bytes) -> BrokerId:
    """Decode the controller's broker id. Raises BadPayload."""
    try:
        return BrokerId(int(json.loads(value)["brokerid"]))
    except NONSENSE as error:
        raise BadPayload(f"{CONTROLLER}: {error!r} in {value[:200]!r}") from error


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encode the cluster's id."""
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(value: bytes) -> str:
    """Decode the cluster's id. Raises BadPayload."""
    try:
        return str(json.loads(value)["id"])
    except NONSENSE as error:
        raise BadPayload(f"{CLUSTER_ID}: {error!r} in {value[:200]!r}") from error


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    """Encode the block of producer ids reserved last."""
    return _encode(
        {
            "version": 1,
            "broker": block.broker,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_ids(value: bytes) -> ProducerIdBlock:
    """Decode the block of producer ids reserved last. Raises BadPayload."""
    try:
        payload = json.loads(value)
        return ProducerIdBlock(
            BrokerId(int(payload["broker"])),
            int(payload["block_start"]),
            int(payload["block_end"]),
        )
    except NONSENSE as error:
        raise BadPayload(f"{PRODUCER_ID_BLOCK}: {error!r} in {value[:200]!r}") from error


def _endpoint_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def _parse_endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon:
        raise ValueError(f"{text!r} is no NAME://host:port")
    return Endpoint(listener, host.strip("[]"), int(port), protocols.get(listener, listener))


def _encode(payload: Mapping[str, Any] | Sequence[Any]) -> bytes:
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()
