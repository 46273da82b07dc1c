"""A real client's administrator creates, describes and deletes ACLs, and a producer feels them."""

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
)

from headrace.security import acl
from headrace.security.authorizer import CLUSTER_NAME, Operation, Resource
from headrace.security.authorizer import ResourceType as Kind
from headrace.testing import BrokerThread

SETTINGS = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
ANONYMOUS = "User:ANONYMOUS"
SECONDS = 30


def outcome(bootstrap: str) -> KafkaError | None:
    """What a producer is told of one record; it waits for no topic that he may not see."""
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": False})
    producer.produce("orders", b"v", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(SECONDS) == 0
    return told[0]


def test_confluent_kafkas_admin_client_says_who_may_do_what() -> None:
    with BrokerThread(SETTINGS) as broker:
        administrator = AdminClient({"bootstrap.servers": broker.bootstrap})
        made = [
            AclBinding(
                ResourceType.TOPIC, "ord", ResourcePatternType.PREFIXED, ANONYMOUS, "127.0.0.1",
                AclOperation.WRITE, AclPermissionType.ALLOW,
            ),
            AclBinding(
                ResourceType.GROUP, "g", ResourcePatternType.LITERAL, "User:bob", "*",
                AclOperation.READ, AclPermissionType.DENY,
            ),
        ]  # fmt: skip
        (refused,) = administrator.create_acls(made[:1]).values()
        with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
            refused.result(SECONDS)

        everything = acl.AclEntry(ANONYMOUS, "*", Operation.ALL, acl.Permission.ALLOW)
        cluster = acl.AclBinding(Resource(Kind.CLUSTER, CLUSTER_NAME), everything)
        acls = broker.server.controller.settings.acls
        assert broker.run(lambda _: acls.add([cluster])) == [None]

        administrator.create_topics([NewTopic("orders", 1)])["orders"].result(SECONDS)
        denied = outcome(broker.bootstrap)
        assert denied is not None
        assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        for future in administrator.create_acls(made).values():
            assert future.result(SECONDS) is None
        assert outcome(broker.bootstrap) is None

        every = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY,
            AclPermissionType.ANY,
        )  # fmt: skip
        assert set(made) < set(administrator.describe_acls(every).result(SECONDS))
        of_orders = AclBindingFilter(
            ResourceType.TOPIC, "orders", ResourcePatternType.MATCH, None, None, AclOperation.ANY,
            AclPermissionType.ANY,
        )  # fmt: skip
        assert administrator.describe_acls(of_orders).result(SECONDS) == made[:1]
        (deleted,) = administrator.delete_acls([of_orders]).values()
        assert deleted.result(SECONDS) == made[:1]
        denied = outcome(broker.bootstrap)
        assert denied is not None
        assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
