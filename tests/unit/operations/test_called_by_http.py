"""Kafka's administration called by another protocol: the same permission, the same audit line."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.settings.user_settings import Deletion
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.acls import AclFilterSpec, AclSpec, create_acls, delete_acls, describe_acls
from headrace.operations.configs import (
    ConfigEdit,
    ConfigResource,
    ResourceEdits,
    alter_configs,
    describe_configs,
)
from headrace.operations.context import OperationContext
from headrace.operations.credentials import alter_credentials
from headrace.operations.permissions import Caller, Surface
from headrace.operations.topics import (
    Growth,
    TopicRef,
    TopicSpec,
    create_partitions,
    create_topics,
    delete_topics,
)
from headrace.security.identity import USER, Identity, Principal
from headrace.testing.disk import SimDisk
from tests.support.processes.broker import play, room
from tests.support.security.authorisation_values import FEW

OURS: dict[str, Any] = {
    **FEW,
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS;User:root",
}
ACL = AclSpec(2, "t", 3, "User:bob", "*", 3, 3)
ANY = AclFilterSpec(1, None, 1, None, None, 1, 1)


def audited(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    user: str,
    work: Callable[[OperationContext], Awaitable[None]],
) -> list[str]:
    """Return the audit lines of what a user does by HTTP, without the caller."""
    caplog.set_level(logging.INFO, logger="headrace.security.audit")
    caller = Caller(Identity("10.0.0.1", "WEB", Principal(USER, user)), Surface.HTTP)

    async def story() -> None:
        async with room(tmp_path, SimDisk(), **OURS) as here:
            await work(OperationContext(here.broker, here.controller, here.coordinators, caller))

    play(story())
    who = f"principal=User:{user} host=10.0.0.1 listener=WEB "
    return [
        record.getMessage().replace(who, "")
        for record in caplog.records
        if record.name == "headrace.security.audit"
    ]


async def administer(context: OperationContext) -> None:
    """Change a thing of each kind."""
    created = await create_topics(context, [TopicSpec("t", 1, 1), TopicSpec("__amqp.queue.q")])
    assert isinstance(created["__amqp.queue.q"], ApiError)
    await create_topics(context, [TopicSpec("dry", 1, 1)], validate_only=True)
    assert await create_partitions(context, [Growth("t", 3)]) == {"t": None}
    edits = ResourceEdits(ConfigResource.TOPIC, "t", [ConfigEdit("retention.ms", "5")])
    assert await alter_configs(context, [edits]) == [None]
    (entry,) = [
        each
        for each in describe_configs(context, ConfigResource.TOPIC, "t")
        if each.name == "retention.ms"
    ]
    assert entry.value == "5"
    assert await create_acls(context, [ACL]) == [None]
    assert len(describe_acls(context, ANY)) == 1
    assert [
        len(found) for found in await delete_acls(context, [ANY]) if isinstance(found, list)
    ] == [1]
    outcome = await alter_credentials(context, [Deletion("bob", 1)], [])
    assert outcome["bob"] is not None
    (deleted,) = await delete_topics(context, [TopicRef("t")])
    assert deleted.error is None


def test_each_change_has_one_audit_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    *lines, last = audited(tmp_path, caplog, "root", administer)
    assert last.startswith("changed by=HTTP topic=t id=")
    assert lines == [
        "not changed by=HTTP topic=__amqp.queue.q partitions=-1 result=POLICY_VIOLATION",
        "changed by=HTTP topic=t partitions=1 result=NONE",
        "changed by=HTTP topic=t partitions=3 result=NONE",
        'changed by=HTTP resource=TOPIC:t configs="retention.ms=5" result=NONE',
        'changed by=HTTP acl="ALLOW User:bob from * READ on LITERAL TOPIC:t" result=NONE',
        'changed by=HTTP acl="ALLOW User:bob from * READ on LITERAL TOPIC:t" result=NONE',
        'not changed by=HTTP user=bob credentials="SCRAM-SHA-256 DELETE" result=RESOURCE_NOT_FOUND',
    ]


async def denied(context: OperationContext) -> None:
    """See that each operation is refused."""
    created = await create_topics(context, [TopicSpec("t", 1, 1)])
    grown = await create_partitions(context, [Growth("t", 3)])
    (deleted,) = await delete_topics(context, [TopicRef("t")])
    edits = [ResourceEdits(kind, "t", []) for kind in ConfigResource]
    altered = await alter_configs(context, edits)
    credentials = await alter_credentials(context, [Deletion("bob", 1)], [])
    acls = [*await create_acls(context, [ACL]), *await delete_acls(context, [ANY])]
    problems = [created["t"], grown["t"], deleted.error, *altered, credentials["bob"], *acls]
    with pytest.raises(ApiError) as error:
        describe_acls(context, ANY)
    problems.append(error.value)
    for kind in ConfigResource:
        with pytest.raises(ApiError) as error:
            describe_configs(context, kind, "t")
        problems.append(error.value)
    assert len(problems) == 17
    codes = {problem.code for problem in problems if isinstance(problem, ApiError)}
    assert codes == {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
    assert all(isinstance(problem, ApiError) for problem in problems)


def test_a_caller_without_permission_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = audited(tmp_path, caplog, "bob", denied)
    assert lines
    assert all(line.startswith("refused ") for line in lines)


def test_settings_of_a_broker_ask_for_the_cluster(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def describe(root: OperationContext) -> None:
        describing = AclSpec(4, "kafka-cluster", 3, "User:ops", "*", 10, 3)
        assert await create_acls(root, [describing]) == [None]
        ops = Caller(Identity("10.0.0.1", "WEB", Principal(USER, "ops")), Surface.HTTP)
        name = str(root.broker.broker_id)
        assert describe_configs(root._replace(caller=ops), ConfigResource.BROKER, name)

    audited(tmp_path, caplog, "root", describe)
