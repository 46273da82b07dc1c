"""Access keys: each request of a RocketMQ client is signed, and the key is the user."""

import logging
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headrace.frontends.rocketmq.dispatch import HANDLERS
from headrace.frontends.rocketmq.signed_requests import (
    _NO_SUCH_KEY,
    ACCESS_KEY,
    SIGNATURE,
    signature_of,
)
from headrace.model.secret import Secret
from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.frames import Serialization
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, SETTINGS, code, made, port_of
from tests.support.security.certificates import Authority

KEYS = {"orders": "12345678", "audit": "s/+=ecret:with"}
WITH_KEYS = SETTINGS | {
    "rocketmq.access.keys": ", ".join(f"{key}:{secret}" for key, secret in KEYS.items())
}
TOPIC, GROUP = Resource(ResourceType.TOPIC, "t"), Resource(ResourceType.GROUP, "CG")


class SigningClient(RemotingClient):
    """A client that signs its requests; `change` alters a request after it was signed."""

    def __init__(
        self,
        port: int,
        key: str,
        secret: str = "",
        *,
        changed: Mapping[str, str] | None = None,
        cut: str = "",
        appended: bytes = b"",
        serialization: Serialization = Serialization.JSON,
        version: int = 513,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(port, serialization, version, tls)
        self._key, self._secret = key, Secret(secret or KEYS.get(key, "unknown!"))
        self._changed, self._cut, self._appended = changed or {}, cut, appended

    def ask(
        self,
        code: int,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        flag: int = 0,
    ) -> int:
        texts = {name: str(value) for name, value in (fields or {}).items()}
        texts[ACCESS_KEY] = self._key
        command = RemotingCommand(code, 0, flag, texts, body, version=self._version)
        texts[SIGNATURE] = signature_of(command, self._secret).decode()
        texts.update(self._changed)
        texts.pop(self._cut, None)
        return super().ask(code, texts, body + self._appended, flag)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """A broker with two access keys, on which all who are known may do everything."""
    with BrokerThread(WITH_KEYS) as started:
        started.create_topics("t")
        yield started


@pytest.fixture(scope="module")
def guarded() -> Iterator[BrokerThread]:
    """The same with ACLs."""
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with BrokerThread(WITH_KEYS | {"authorizer.class.name": name}) as started:
        started.create_topics("t")
        yield started


def allow(broker: BrokerThread, *rights: tuple[str, Operation, Resource]) -> None:
    """Allow users these operations, and nothing else."""
    bindings = [
        AclBinding(resource, AclEntry(f"User:{user}", "*", operation, Permission.ALLOW))
        for user, operation, resource in rights
    ]

    async def put(server: object) -> None:
        acls = broker.server.controller.settings.acls
        await acls.remove([AclFilter()])
        assert await acls.add(bindings) == [None] * len(bindings)

    broker.run(put)


def end_of_queue(broker: BrokerThread) -> str:
    """Return the offset behind the last message of the topic t."""
    with SigningClient(port_of(broker), "audit") as client:
        answer = client.call(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": 0})
    return dict(answer.fields or {})["offset"]


@pytest.mark.parametrize("serialization", Serialization)
def test_signed_requests_are_served(broker: BrokerThread, serialization: Serialization) -> None:
    for key in KEYS:
        with SigningClient(port_of(broker), key, serialization=serialization) as client:
            topic = made(client, f"signed-{key}-{serialization.name}")
            assert code(client.send(topic, b"\x00\xff" * 5000)) is ResponseCode.SUCCESS
            parked = client.ask_pull(topic, 1, **PARKED)
            client.send(topic, b"second", i="KEYS\x01ключ\x02")
            (message,) = messages_in(client.answer(parked))
            assert bytes(message.body) == b"second"
            assert code(client.heartbeat("c", "CG", {topic: "*"})) is ResponseCode.SUCCESS


def test_every_request_without_a_signature_is_refused(broker: BrokerThread) -> None:
    with RemotingClient(port_of(broker)) as client:
        for number in HANDLERS:
            answer = client.call(number, {"topic": "t", "consumerGroup": "CG"})
            assert code(answer) is ResponseCode.NO_PERMISSION, number
            assert answer.remark == "the request has no AccessKey"
        for _ in range(2):
            sent = client.send("t", i="UNIQ_KEY\x01u\x02")
            assert code(sent) is ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("key", "secret", "wrong"),
    [
        ("orders", "12345679", {}),
        ("orders", KEYS["audit"], {}),
        ("nobody", "12345678", {}),
        ("nobody", _NO_SUCH_KEY.reveal(), {}),
        ("", "12345678", {}),
        ("orders", "", {"changed": {"topic": "other"}}),
        ("orders", "", {"changed": {"added": "1"}}),
        ("orders", "", {"changed": {ACCESS_KEY: "audit"}}),
        ("orders", "", {"changed": {SIGNATURE: ""}}),
        ("orders", "", {"changed": {SIGNATURE: "ключ"}}),
        ("orders", "", {"cut": SIGNATURE}),
        ("orders", "", {"cut": "b"}),
        ("orders", "", {"appended": b"x"}),
    ],
)
def test_wrong_signatures_and_unknown_keys_are_refused_alike(
    broker: BrokerThread, key: str, secret: str, wrong: Mapping[str, object]
) -> None:
    before = end_of_queue(broker)
    with SigningClient(port_of(broker), key, secret, **wrong) as client:  # type: ignore[arg-type]
        for _ in range(2):
            answer = client.send("t", b"forged")
            assert code(answer) is ResponseCode.NO_PERMISSION
            assert answer.remark == "check signature failed"
    assert end_of_queue(broker) == before


def test_a_refused_request_leaves_its_connection_and_the_next_one_is_served(
    broker: BrokerThread,
) -> None:
    with SigningClient(port_of(broker), "orders") as client:
        client._changed = {SIGNATURE: "AAAA"}
        refused = [client.ask_send("t") for _ in range(3)]
        client._changed = {}
        served = client.ask_send("t")
        assert code(client.answer(served)) is ResponseCode.SUCCESS
        assert {code(client.answer(one)) for one in refused} == {ResponseCode.NO_PERMISSION}


def test_oneway_requests_with_a_wrong_signature_do_nothing(broker: BrokerThread) -> None:
    group = {"consumerGroup": "OW", "topic": "t", "queueId": 0, "commitOffset": 5}
    query = {"consumerGroup": "OW", "topic": "t", "queueId": 0, "setZeroIfNotFound": "false"}
    with SigningClient(port_of(broker), "orders") as client:
        client.call(RequestCode.UPDATE_CONSUMER_OFFSET, group | {"commitOffset": 3})
        client._secret = Secret("12345679")
        client.one_way(RequestCode.UPDATE_CONSUMER_OFFSET, group)
        client._secret = Secret(KEYS["orders"])
        answer = client.call(RequestCode.QUERY_CONSUMER_OFFSET, query)
        assert dict(answer.fields or {})["offset"] == "3"


def test_old_clients_add_one_field_behind_their_signature(broker: BrokerThread) -> None:
    asked = {"topic": "t", "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 9}
    added = {"_UNIQUE_KEY_QUERY": "false"}
    for version, expected in ((399, True), (400, False), (513, False)):
        with SigningClient(port_of(broker), "orders", changed=added, version=version) as client:
            refused = client.call(RequestCode.QUERY_MESSAGE, asked).code == 16
            assert refused is not expected
    with SigningClient(port_of(broker), "orders", version=513) as client:
        answer = client.call(RequestCode.QUERY_MESSAGE, asked | added)
        assert code(answer) is not ResponseCode.NO_PERMISSION


def test_the_access_key_is_the_user_whose_rules_apply(guarded: BrokerThread) -> None:
    allow(
        guarded,
        ("orders", Operation.WRITE, TOPIC),
        ("audit", Operation.READ, TOPIC),
        ("audit", Operation.READ, GROUP),
        ("ANONYMOUS", Operation.ALL, TOPIC),
    )
    port = port_of(guarded)
    with SigningClient(port, "orders") as client:
        assert code(client.send("t")) is ResponseCode.SUCCESS
        assert code(client.pull("t")) is ResponseCode.NO_PERMISSION
        client._key, client._secret = "audit", Secret(KEYS["audit"])  # the same connection
        assert code(client.send("t")) is ResponseCode.NO_PERMISSION
        assert code(client.pull("t")) is ResponseCode.SUCCESS
        client._key, client._secret = "orders", Secret(KEYS["orders"])
        assert code(client.pull("t")) is ResponseCode.NO_PERMISSION
    with RemotingClient(port) as unsigned:
        assert code(unsigned.send("t")) is ResponseCode.NO_PERMISSION


def test_a_producer_without_the_right_to_the_topic_is_not_asked() -> None:
    """Any client may name a producer group; the question has the message in it."""
    quick = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "rocketmq.transaction.timeout.ms": "200",
        "rocketmq.transaction.check.interval.ms": "200",
    }
    with BrokerThread(WITH_KEYS | quick) as broker:
        broker.create_topics("t")
        allow(broker, ("orders", Operation.WRITE, TOPIC), ("audit", Operation.READ, TOPIC))
        port = port_of(broker)
        with SigningClient(port, "audit") as curious, SigningClient(port, "orders") as client:
            curious.produces("c", "PG")
            client.produces("p", "PG")
            half = "UNIQ_KEY\x01u\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02"
            assert code(client.send("t", b"secret", i=half)) is ResponseCode.SUCCESS
            for _ in range(3):
                client.wait_notified(RequestCode.CHECK_TRANSACTION_STATE)
            assert code(curious.produces("c", "PG")) is ResponseCode.SUCCESS
            assert curious.notified == []


def test_refusals_are_audited_without_secrets(
    guarded: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    allow(guarded)
    caplog.set_level(logging.INFO)
    with SigningClient(port_of(guarded), "orders", "planted-secret") as client:
        for _ in range(20):
            client.send("t")
    with SigningClient(port_of(guarded), "x" * 5000, "planted-secret") as client:
        client.send("t")
    with SigningClient(port_of(guarded), "orders") as client:
        client.send("t")
    lines = [one.getMessage() for one in caplog.records if "audit" in one.name]
    wrong = [line for line in lines if 'reason="wrong signature"' in line]
    assert len(wrong) == 1, "the same refusal once"
    for part in ("listener=ROCKETMQ", "by=SEND_MESSAGE_V2", "access_key=orders"):
        assert part in wrong[0]
    (unknown,) = [line for line in lines if 'reason="unknown access key"' in line]
    assert len(unknown) < 400
    assert any("principal=User:orders" in line and "operation=WRITE" in line for line in lines)
    assert not any(word in caplog.text for word in ("planted", *KEYS.values()))


def test_a_certificate_serves_for_unsigned_requests_and_not_for_wrong_ones(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = WITH_KEYS | {
        "ssl.keystore.location": str(authority.sign().both),
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "requested",
    }
    bare = ssl.create_default_context(cafile=str(authority.certificate))
    shown = ssl.create_default_context(cafile=str(authority.certificate))
    shown.load_cert_chain(authority.sign("duke", "/CN=duke").both)
    with BrokerThread(settings) as broker:
        broker.create_topics("t")
        port = port_of(broker)
        for tls, expected in ((shown, ResponseCode.SUCCESS), (bare, ResponseCode.NO_PERMISSION)):
            with RemotingClient(port, tls=tls) as client:
                assert code(client.send("t")) is expected
            with SigningClient(port, "orders", tls=tls) as client:
                assert code(client.send("t")) is ResponseCode.SUCCESS
                client._secret = Secret("12345679")
                assert code(client.send("t")) is ResponseCode.NO_PERMISSION


def test_without_access_keys_signatures_are_ignored() -> None:
    with BrokerThread(SETTINGS) as broker, SigningClient(port_of(broker), "any") as client:
        assert code(client.call(RequestCode.GET_BROKER_CLUSTER_INFO)) is ResponseCode.SUCCESS
