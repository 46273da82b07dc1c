"""Znodes: byte for byte what Kafka 3.9 wrote, and what may be read of others' writing."""

import json
from pathlib import Path

import pytest

from headrace.broker.metadata_image import Endpoint
from headrace.cluster.store import znodes
from headrace.cluster.store.znodes import (
    BadPayload,
    PartitionState,
    ProducerIdBlock,
    Registration,
    TopicNode,
)
from headrace.model.nouns import BrokerId, LeaderEpoch
from headrace.server.cluster import store_migration

TREE = Path(__file__).parents[3] / "golden" / "zk-tree-kafka-3.9.0.txt"
ME = BrokerId(0)


def golden() -> dict[str, bytes]:
    """Path and content of each node of a real broker's tree."""
    nodes = {}
    for line in TREE.read_text().splitlines():
        path, _, rest = line.partition(" v")
        nodes[path] = rest.partition(" ")[2].encode()
    return nodes


@pytest.mark.parametrize("path", [path for path in golden() if path.count("/") == 3
                                  and path.startswith(znodes.TOPICS)])  # fmt: skip
def test_topics_are_written_as_kafka_wrote_them(path: str) -> None:
    value = golden()[path]
    topic = znodes.decode_topic(path, value)
    assert topic.partitions[0] == (ME,)
    assert len(topic.topic_id or b"") == 16
    assert znodes.encode_topic(topic) == value


@pytest.mark.parametrize("path", [path for path in golden() if path.endswith("/state")])
def test_partition_states_are_written_as_kafka_wrote_them(path: str) -> None:
    value = golden()[path]
    state = znodes.decode_state(path, value)
    assert state == PartitionState(ME, LeaderEpoch(0), (ME,), controller_epoch=2)
    assert znodes.encode_state(state) == value


@pytest.mark.parametrize("path", [path for path in golden()
                                  if path.startswith(f"{znodes.TOPIC_CONFIGS}/")])  # fmt: skip
def test_topic_settings_are_written_as_kafka_wrote_them(path: str) -> None:
    value = golden()[path]
    assert znodes.encode_config(znodes.decode_config(path, value)) == value


def test_cluster_id_and_producer_ids_are_written_as_kafka_wrote_them() -> None:
    nodes = golden()
    cluster = nodes[znodes.CLUSTER_ID]
    assert znodes.encode_cluster_id(znodes.decode_cluster_id(cluster)) == cluster
    block = nodes[znodes.PRODUCER_ID_BLOCK]
    assert znodes.decode_producer_ids(block) == ProducerIdBlock(ME, 0, 999)
    assert znodes.encode_producer_ids(ProducerIdBlock(ME, 0, 999)) == block
    change = nodes["/config/changes/config_change_0000000001"]
    assert znodes.encode_config_change("topics/t1") == change


def test_every_persistent_path_of_kafka_is_made() -> None:
    made = set(znodes.ROOTS)
    for path in ("/brokers/ids", "/brokers/topics", "/config/changes", "/config/users",
                 "/admin/delete_topics", "/isr_change_notification", "/consumers"):  # fmt: skip
        assert path in made
        assert path in golden()


def test_a_registration_keeps_every_listener() -> None:
    endpoints = (
        Endpoint("PLAINTEXT", "127.0.0.1", 9092),
        Endpoint("INSIDE", "::1", 9093, "SASL_SSL"),
    )
    value = znodes.encode_registration(Registration(endpoints, "rack-1", 1795151212096))
    broker = znodes.decode_registration(ME, "/brokers/ids/0", value, epoch=7)
    assert (broker.endpoints, broker.rack, broker.epoch) == (endpoints, "rack-1", 7)
    assert b'"endpoints":["PLAINTEXT://127.0.0.1:9092","INSIDE://[::1]:9093"]' in value
    assert b'"timestamp":"1795151212096"' in value
    assert broker.endpoint("INSIDE") == endpoints[1]
    assert broker.endpoint("OTHER") is None


def test_a_topic_that_an_old_tool_made_has_no_id() -> None:
    old = b'{"version":1,"partitions":{"10":[1],"2":[0,1]}}'
    topic = znodes.decode_topic("/brokers/topics/t", old)
    assert topic == TopicNode({2: (ME, BrokerId(1)), 10: (BrokerId(1),)}, None)
    assert list(topic.partitions) == [2, 10]


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"partitions":[]}', b"\xff", b"null"])
def test_a_payload_that_is_none_is_named_with_its_path(value: bytes) -> None:
    with pytest.raises(BadPayload, match="/brokers/topics/t"):
        znodes.decode_topic("/brokers/topics/t", value)
    with pytest.raises(BadPayload, match="/state"):
        znodes.decode_state("/state", value)


def test_a_number_beyond_all_bounds_makes_no_sense_and_is_named_with_its_path() -> None:
    state = b'{"leader":1e999,"leader_epoch":1,"isr":[1],"controller_epoch":1,"version":1}'
    with pytest.raises(BadPayload, match="/state"):
        znodes.decode_state("/state", state)
    with pytest.raises(BadPayload, match=znodes.CONTROLLER):
        znodes.decode_controller(b'{"version":2,"brokerid":1e999,"timestamp":"1"}')


def test_names_of_users_are_quoted_as_kafka_quotes_them() -> None:
    assert znodes.quote_entity("CN=a b,O=ü/x") == "CN%3Da%20b%2CO%3D%C3%BC%2Fx"
    assert znodes.unquote_entity(znodes.quote_entity("CN=a b,O=ü/x")) == "CN=a b,O=ü/x"


def test_the_controller_is_written_as_a_kafka_that_never_had_another_kind_writes_it() -> None:
    assert znodes.encode_controller(ME, 1700) == (
        b'{"version":2,"brokerid":0,"timestamp":"1700","kraftControllerEpoch":-1}'
    )


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"\xff", b"null", b"7"])
def test_a_node_of_the_cluster_that_makes_no_sense_is_named_with_its_path(value: bytes) -> None:
    for decode, path in (
        (znodes.decode_controller, znodes.CONTROLLER),
        (znodes.decode_cluster_id, znodes.CLUSTER_ID),
        (znodes.decode_producer_ids, znodes.PRODUCER_ID_BLOCK),
        (store_migration.decode_migrant, znodes.MIGRATION),
    ):
        with pytest.raises(BadPayload, match=path):
            decode(value)
    with pytest.raises(BadPayload, match="/brokers/ids/0"):
        znodes.decode_registration(ME, "/brokers/ids/0", value, 1)


@pytest.mark.parametrize("text", ["PLAINTEXT", "PLAINTEXT://host", "host:9092", "P://host:port"])
def test_a_registration_whose_listener_has_no_address_is_refused(text: str) -> None:
    value = json.dumps({"endpoints": [text]}).encode()
    with pytest.raises(BadPayload, match="/brokers/ids/0"):
        znodes.decode_registration(ME, "/brokers/ids/0", value, 1)
