"""Brokers that encrypt what they say to each other and say who they are, under stock clients."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kazoo.client import KazooClient

from headrace.security.sasl.sasl import Mechanism
from tests.support.client.load import Load, kept
from tests.support.cluster.broker_cluster import until
from tests.support.processes.process import HEADRACE
from tests.support.security.secured_cluster import (
    ALICE,
    ALICES_PASSWORD,
    BROKER,
    BROKERS_PASSWORD,
    JAAS,
    MECHANISM,
    SecuredCluster,
    add_user,
    jaas,
)
from tests.support.zookeeper import ZooKeeper

PROGRESS = 300


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> Iterator[SecuredCluster]:
    """Three brokers that authenticate to each other by TLS and SCRAM, and let sessions end."""
    found = SecuredCluster(
        tmp_path_factory.mktemp("secured"), zookeeper.hosts, min_insync_replicas=2,
        connections_max_reauth_ms=3000,
    )  # fmt: skip
    with found.brokers:
        make_alice(found)
        yield found


@pytest.fixture
def secured(running: SecuredCluster) -> Iterator[SecuredCluster]:
    """The same, all of them there."""
    yield running
    running.brokers.mend()


def make_alice(secured: SecuredCluster, number: int = 0) -> None:
    """Make a user at one broker, and let her do all to topics and groups."""
    admin = secured.brokers._admin_of(secured.brokers.brokers[number])
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    new = UserScramCredentialUpsertion(ALICE, info, ALICES_PASSWORD.encode())
    for outcome in admin.alter_user_scram_credentials([new]).values():
        outcome.result(30)
    for kind in (ResourceType.TOPIC, ResourceType.GROUP):
        grant(admin, kind, "*", f"User:{ALICE}", AclOperation.ALL)


def grant(
    admin: AdminClient, kind: ResourceType, name: str, principal: str, operation: AclOperation
) -> None:
    """Add one ACL."""
    binding = AclBinding(
        kind, name, ResourcePatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW
    )
    for outcome in admin.create_acls([binding]).values():
        outcome.result(30)


def may(secured: SecuredCluster, number: int, **who: str) -> bool:
    """Whether a client of one broker is let in and may describe topics there."""
    admin = AdminClient({**secured.client(number, **who), "log_level": 0})
    try:
        return bool(admin.list_topics(timeout=5).topics)
    except KafkaException:
        return False


def test_nothing_is_lost_when_leaders_are_killed_and_sessions_between_brokers_end(
    secured: SecuredCluster,
) -> None:
    brokers = secured.brokers
    brokers.create("orders", partitions=2, replicas=3)
    until(lambda: may(secured, 0), "alice is let in")
    client = secured.client()
    load = Load(client["bootstrap.servers"], "orders", 2, client, burst=5, pause_seconds=0.01)
    try:
        for _ in range(2):
            assert load.goes_on(PROGRESS), brokers.output[-8000:]
            leader = brokers.leader("orders")
            brokers.brokers[leader].kill()
            brokers.until_led("orders", by_others_than=[leader])
            assert load.goes_on(PROGRESS), brokers.output[-8000:]
            brokers.mend()
            brokers.until_in_sync("orders")
    finally:
        load.finish()
    found = kept(load, brokers.bootstrap)
    assert found.holds(), found
    assert load.failed == []
    assert "mend username and password" not in brokers.output
    assert BROKERS_PASSWORD not in brokers.output


def test_users_and_acls_that_one_broker_writes_hold_on_all(secured: SecuredCluster) -> None:
    secured.brokers.create("read", replicas=3)
    for number in range(3):
        until(lambda number=number: may(secured, number), f"alice at broker {number}")  # type: ignore[misc]
        assert not may(secured, number, password="wrong")
    admin = secured.brokers._admin_of(secured.brokers.brokers[1])
    every = AclBindingFilter(
        ResourceType.TOPIC, None, ResourcePatternType.ANY, f"User:{ALICE}", None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    ((_, outcome),) = admin.delete_acls([every]).items()
    assert len(outcome.result(30)) == 1
    for number in range(3):
        until(lambda number=number: not may(secured, number), f"refused by {number}")  # type: ignore[misc]
    make_alice(secured, 2)
    for number in range(3):
        until(lambda number=number: may(secured, number), f"allowed by {number}")  # type: ignore[misc]


def test_acls_and_credentials_lie_in_zookeeper_as_kafka_keeps_them(
    secured: SecuredCluster,
) -> None:
    client = KazooClient(secured.brokers.connect)
    client.start(30)
    try:
        value, _ = client.get("/kafka-acl/Topic/*")
        assert json.loads(value) == {
            "version": 1,
            "acls": [{"principal": f"User:{ALICE}", "permissionType": "Allow",
                      "operation": "All", "host": "*"}],
        }  # fmt: skip
        user = json.loads(client.get(f"/config/users/{ALICE}")[0])["config"]["SCRAM-SHA-512"]
        assert [part.split("=")[0] for part in user.split(",")] == [
            "salt", "stored_key", "server_key", "iterations",
        ]  # fmt: skip
        broker = json.loads(client.get("/brokers/ids/0")[0])
        assert broker["listener_security_protocol_map"] == {
            "PLAINTEXT": "PLAINTEXT", "BROKERS": "SASL_SSL", "CLIENTS": "SASL_SSL",
        }  # fmt: skip
    finally:
        client.stop()
        client.close()


def test_a_broker_with_a_wrong_password_is_told_and_harms_nobody(
    tmp_path: Path, zookeeper: ZooKeeper
) -> None:
    wrong = "not-the-password-913"
    secured = SecuredCluster(
        tmp_path / "wrong", zookeeper.hosts, protocol="SASL_PLAINTEXT",
        each=lambda number: {JAAS: jaas(wrong)} if number == 2 else {},
        replica_lag_time_max_ms=3000,
    )  # fmt: skip
    good, bad = secured.brokers.brokers[:2], secured.brokers.brokers[2]
    try:
        for broker in good:
            broker.start()
        secured.brokers.until_all_are_here()
        secured.brokers.create("two", replicas=2)
        bad.start()
        secured.brokers.until_all_are_here()
        admin = secured.brokers.admin()
        three = NewTopic("three", 1, replica_assignment=[[0, 1, 2]])
        admin.create_topics([three])["three"].result(30)
        until(lambda: "mend username and password in" in bad.output, "the line of the bad one")
        producer = Producer({"bootstrap.servers": good[0].bootstrap, "acks": "all"})
        failed: list[KafkaError | None] = []
        for topic in ("two", "three") * 50:
            producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(30) == 0
        assert set(failed) == {None}
        said = [line for line in bad.output.splitlines() if "mend username and password" in line]
        assert 1 <= len(said) <= 6, said
        assert "user broker" in said[0]
        assert wrong not in secured.brokers.output
    finally:
        secured.brokers.kill()


def test_brokers_know_each_other_by_their_certificates_and_may_act_by_one_acl(
    tmp_path: Path, zookeeper: ZooKeeper
) -> None:
    secured = SecuredCluster(
        tmp_path / "mutual", zookeeper.hosts, 2, protocol="SSL",
        each=lambda number: {"listener.name.brokers.ssl.client.auth": "required"},
        offsets_topic_replication_factor=1,
    )  # fmt: skip
    brokers = secured.brokers
    for broker in brokers.brokers:
        broker.settings["super.users"] = "User:ANONYMOUS"  # not themselves
    try:
        brokers.brokers[0].start()
        brokers.until_all_are_here()
        grant(brokers.admin(), ResourceType.BROKER, "kafka-cluster", "User:CN=broker",
              AclOperation.CLUSTER_ACTION)  # fmt: skip
        brokers.brokers[1].start()
        brokers.until_all_are_here()
        brokers.create("mutual", replicas=2)
    finally:
        brokers.kill()


@pytest.mark.parametrize("mechanism", [Mechanism.PLAIN, Mechanism.SCRAM_SHA_256])
def test_brokers_know_each_other_by_the_mechanism_that_is_set(
    tmp_path: Path, zookeeper: ZooKeeper, mechanism: Mechanism
) -> None:
    secured = SecuredCluster(
        tmp_path / "two", zookeeper.hosts, 2, between_brokers=mechanism,
        offsets_topic_replication_factor=1,
    )  # fmt: skip
    with secured.brokers as brokers:
        brokers.create("two", replicas=2)  # returns when both are in sync
        producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all"})
        failed: list[KafkaError | None] = []
        producer.produce("two", b"x", on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(30) == 0
        assert failed == [None]
        assert BROKERS_PASSWORD not in brokers.output


def test_a_token_that_one_broker_made_lets_in_at_the_others_until_it_is_expired(
    tmp_path: Path, zookeeper: ZooKeeper
) -> None:
    secured = SecuredCluster(
        tmp_path / "tokens", zookeeper.hosts, 2, delegation_token_secret_key="planted-4711",
        offsets_topic_replication_factor=1,
    )  # fmt: skip
    alice, bearer = tmp_path / "alice.properties", tmp_path / "bearer.properties"
    common = (
        f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={secured.authority.certificate}\n"
    )
    alice.write_text(
        f"{common}sasl.mechanism={MECHANISM}\nsasl.jaas.config={jaas(ALICES_PASSWORD, ALICE)}\n"
    )
    with secured.brokers:
        secured.brokers.create("any")
        make_alice(secured)
        until(lambda: may(secured, 0), "alice is let in")
        made = headrace(secured, 0, alice, "token", "create", str(bearer), "--json")
        token = json.loads(made.stdout)["token"]
        bearer.write_text(bearer.read_text() + common)
        for number in range(2):
            until(
                lambda number=number: (  # type: ignore[misc]
                    headrace(secured, number, bearer, "topic", "list").returncode == 0
                ),
                f"let in by a token at broker {number}",
            )
        assert headrace(secured, 1, alice, "token", "expire", token).returncode == 0
        for number in range(2):
            until(
                lambda number=number: (  # type: ignore[misc]
                    headrace(secured, number, bearer, "topic", "list").returncode != 0
                ),
                f"refused with an expired token at broker {number}",
            )
        assert "planted-4711" not in secured.brokers.output


def headrace(
    secured: SecuredCluster, number: int, settings: Path, *words: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command at one broker, as who `settings` says."""
    broker = str(secured.client(number)["bootstrap.servers"])
    return subprocess.run(
        [str(HEADRACE), *words, "--command-config", str(settings), "--broker", broker],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_brokers_user_is_made_once(running: SecuredCluster) -> None:
    with pytest.raises(AssertionError, match="there is a user broker already"):
        add_user(running.brokers.connect, BROKER, "another")
