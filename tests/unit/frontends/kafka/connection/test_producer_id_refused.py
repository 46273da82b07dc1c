"""InitProducerId without permission: the audit log names the permission that is missing."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.transactions import init_producer_id
from headrace.model.errors import ErrorCode
from headrace.security.acl import AclEntry, Permission
from headrace.security.acl_rules import AclRules
from headrace.security.audit import Audit
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.security.identity import USER, Identity, Principal
from headrace.security.rules import RuleAuthorizer
from headrace.wire.kafka.api import ApiKey
from tests.support.coordination.groups_kit import HandClock

DENIED = "operation=IDEMPOTENT_WRITE resource=CLUSTER:kafka-cluster"


def code_of(*allowed: tuple[Resource, Operation]) -> ErrorCode | None:
    """Return why alice gets no producer id, None where she may have one."""
    rules = AclRules()
    for resource, operation in allowed:
        rules.put(resource, [AclEntry("User:alice", "*", operation, Permission.ALLOW)])
    authorizer = RuleAuthorizer([rules], super_users=[])
    broker: Any = SimpleNamespace(authorizer=authorizer, audit=Audit(HandClock()))
    nobody: Any = None
    context = RequestContext(
        broker, nobody, nobody, ApiKey.INIT_PRODUCER_ID, 5, "c",
        Identity("127.0.0.1", "SASL", Principal(USER, "alice")), nobody,
    )  # fmt: skip
    request: Any = SimpleNamespace(transactional_id=None)
    return init_producer_id._forbidden(context, request)


def test_audit_names_the_cluster_where_no_topic_may_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert code_of() is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [record.getMessage() for record in caplog.records if DENIED in record.getMessage()]
    assert "TOPIC:*" not in caplog.text
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "allowed",
    [
        (Resource(ResourceType.CLUSTER, "kafka-cluster"), Operation.IDEMPOTENT_WRITE),
        (Resource(ResourceType.TOPIC, "orders"), Operation.WRITE),
    ],
)
def test_either_permission_gives_a_producer_id_and_no_line(
    caplog: pytest.LogCaptureFixture, allowed: tuple[Resource, Operation]
) -> None:
    caplog.set_level(logging.INFO)
    assert code_of(allowed) is None
    assert not caplog.records
