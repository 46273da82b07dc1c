"""The audit log has a line for each thing that an administrator changes, and for no secret."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.authentication.authorisation import ASKED
from headrace.frontends.kafka.connection.changes import CHANGES
from headrace.net.pending import Pending
from headrace.security.authorizer import Operation
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from tests.support.processes.broker import play, room
from tests.support.security.authorisation import Rules, call, frame_of, open_session
from tests.support.security.authorisation_cases import CASES
from tests.support.security.authorisation_values import ALICE, FEW, SECOND

CHANGING = frozenset({Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS})
WHO = "principal=User:alice host=10.0.0.1 listener=PLAINTEXT"
OURS: dict[str, Any] = {
    **FEW,
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS;User:alice",
}
NEW = {
    "name": "new", "num_partitions": 2, "replication_factor": 1, "assignments": [],
    "configs": [{"name": "retention.ms", "value": "5"}],
}  # fmt: skip


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What the audit log tells."""
    caplog.set_level(logging.INFO, logger="headrace.security.audit")
    return caplog


def lines(told: pytest.LogCaptureFixture) -> list[str]:
    """Take what was told of changes, without who it was."""
    found = [
        record.getMessage().replace(f" {WHO}", "")
        for record in told.records
        if record.name == "headrace.security.audit" and "changed" in record.getMessage()
    ]
    told.clear()
    return found


def test_each_api_that_asks_for_a_change_has_an_entry() -> None:
    asking = {key for key, asks in ASKED.items() if {ask.operation for ask in asks} & CHANGING}
    assert asking - {ApiKey.METADATA} <= set(CHANGES)
    assert set(CHANGES) <= set(ASKED)


@pytest.mark.parametrize("key", CHANGES, ids=lambda key: key.name)
def test_what_an_api_changes_is_told_or_why_it_did_not(
    tmp_path: Path, key: ApiKey, told: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), **OURS) as here:
            await here.controller.create_topics([NewTopic("t", 1, 1)])
            dispatcher, session = open_session(here, ALICE)
            case = CASES[key][0]
            values = case.values(here) if callable(case.values) else case.values
            if key is ApiKey.DELETE_ACLS:
                create = CASES[ApiKey.CREATE_ACLS][0]
                assert isinstance(create.values, Mapping)
                await call(here, session, ApiKey.CREATE_ACLS, create.version, dict(create.values))
            await call(here, session, key, case.version, values)
            found = [record.getMessage() for record in told.records]
            assert any(f"changed {WHO} by={key.name} " in line for line in found), found
            await dispatcher.stop()

    play(story())


def asked(told: pytest.LogCaptureFixture, tmp_path: Path, *requests: Any) -> list[list[str]]:
    """Ask each (key, version, values); returns the lines of each."""
    found: list[list[str]] = []

    async def story() -> None:
        async with room(tmp_path, SimDisk(), **OURS) as here:
            dispatcher, session = open_session(here, ALICE)
            for key, version, values in requests:
                await call(here, session, key, version, values)
                found.append(lines(told))
            await dispatcher.stop()

    play(story())
    return found


def test_topics_are_told_with_what_was_asked_of_them(
    tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    create = {"topics": [NEW, {**NEW, "name": "no/name"}], "timeout": SECOND}
    grow = {"topics": [{"name": "new", "count": 5, "assignments": None}], "timeout": SECOND}
    dry = {"topics": [{**NEW, "name": "dry"}], "timeout": SECOND, "validate_only": True}
    delete = {"topics": [{"name": "new", "topic_id": None}], "timeout": SECOND}
    found = asked(
        told,
        tmp_path,
        (ApiKey.CREATE_TOPICS, 7, create),
        (ApiKey.CREATE_TOPICS, 7, dry),
        (ApiKey.CREATE_PARTITIONS, 3, grow),
        (ApiKey.CREATE_PARTITIONS, 3, grow),
        (ApiKey.METADATA, 12, {"topics": [{"name": "auto"}], "allow_auto_topic_creation": True}),
        (ApiKey.DELETE_TOPICS, 6, delete),
        (ApiKey.DELETE_TOPICS, 6, delete),
    )
    not_deleted = found.pop()
    assert not_deleted == [
        "not changed by=DELETE_TOPICS topic=new result=UNKNOWN_TOPIC_OR_PARTITION"
    ]
    deleted = found.pop()
    assert deleted[0].startswith("changed by=DELETE_TOPICS topic=new id=")
    assert found == [
        [
            'changed by=CREATE_TOPICS topic=new partitions=2 configs="retention.ms=5" result=NONE',
            "not changed by=CREATE_TOPICS topic=no/name partitions=2"
            ' configs="retention.ms=5" result=INVALID_TOPIC_EXCEPTION',
        ],
        [],
        ["changed by=CREATE_PARTITIONS topic=new partitions=5 result=NONE"],
        ["not changed by=CREATE_PARTITIONS topic=new partitions=5 result=INVALID_PARTITIONS"],
        ["changed by=METADATA topic=auto result=NONE"],
    ]


def altered(kind: int, name: str, *configs: tuple[str, int, str | None]) -> dict[str, Any]:
    """An IncrementalAlterConfigs request."""
    values = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in configs
    ]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": values}]}


def test_settings_are_told_and_secrets_are_not(
    tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    secret = "planted-secret"
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    jaas = "listener.name.x.plain.sasl.jaas.config"
    found = asked(
        told,
        tmp_path,
        (key, 1, altered(4, "", ("max.connections", 0, "77"), ("log.retention.ms", 1, None))),
        (key, 1, altered(4, "", ("ssl.keystore.password", 0, secret))),
        (key, 1, altered(4, "0", (jaas, 0, secret), ("unheard.of", 0, secret))),
        (key, 1, altered(2, "missing", ("unheard.of", 0, secret))),
        (key, 1, altered(32, "g", ("consumer.session.timeout.ms", 0, "50000"))),
    )
    assert secret not in str(found)
    assert found[0] == [
        "changed by=INCREMENTAL_ALTER_CONFIGS resource=BROKER:"
        ' configs="max.connections=77,log.retention.ms DELETE" result=NONE'
    ]
    assert "ssl.keystore.password=***" in found[1][0]
    assert f"{jaas}=***,unheard.of=***" in found[2][0]
    assert "not changed" in found[3][0]
    assert 'resource=GROUP:g configs="consumer.session.timeout.ms=50000"' in found[4][0]


def test_users_and_quotas_and_acls_are_told_without_credentials(
    tmp_path: Path, told: pytest.LogCaptureFixture
) -> None:
    upsert = {
        "name": "etl", "mechanism": 1, "iterations": 4096, "salt": b"salt-of-etl",
        "salted_password": b"word-of-etl",
    }  # fmt: skip
    quota = {
        "entity": [
            {"entity_type": "user", "entity_name": "etl"},
            {"entity_type": "client-id", "entity_name": None},
        ],
        "ops": [
            {"key": "producer_byte_rate", "value": 1000.0, "remove": False},
            {"key": "request_percentage", "value": 0.0, "remove": True},
        ],
    }
    acl = {
        "resource_type": 2, "resource_name": "t", "resource_pattern_type": 4,
        "principal": "User:etl", "host": "*", "operation": 4, "permission_type": 3,
    }  # fmt: skip
    gone = {"name": "etl", "mechanism": 2}
    found = asked(
        told,
        tmp_path,
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [upsert]}),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [gone], "upsertions": []}),
        (ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [quota]}),
        (ApiKey.CREATE_ACLS, 3, {"creations": [acl]}),
    )
    assert "of-etl" not in str(found)
    assert found == [
        ["changed by=ALTER_USER_SCRAM_CREDENTIALS user=etl"
         ' credentials="SCRAM-SHA-256 iterations=4096" result=NONE'],
        ["not changed by=ALTER_USER_SCRAM_CREDENTIALS user=etl"
         ' credentials="SCRAM-SHA-512 DELETE" result=RESOURCE_NOT_FOUND'],
        ["changed by=ALTER_CLIENT_QUOTAS entity=user:etl,client-id:<default>"
         ' quotas="producer_byte_rate=1000,request_percentage DELETE" result=NONE'],
        ["changed by=CREATE_ACLS"
         ' acl="ALLOW User:etl from * WRITE on PREFIXED TOPIC:t" result=NONE'],
    ]  # fmt: skip


@pytest.mark.parametrize("key", [ApiKey.CREATE_TOPICS, ApiKey.DELETE_GROUPS])
def test_what_is_changed_for_a_client_that_has_gone_is_told(
    tmp_path: Path, told: pytest.LogCaptureFixture, key: ApiKey
) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), **OURS) as here:
            dispatcher, session = open_session(here, ALICE)
            values: dict[str, Any] = {"groups_names": ["g"]}
            if key is ApiKey.CREATE_TOPICS:
                values = {"topics": [NEW], "timeout": SECOND}
            find = {"key_type": 0, "coordinator_keys": ["g"]}
            await call(here, session, ApiKey.FIND_COORDINATOR, 6, find)
            version = 7 if key is ApiKey.CREATE_TOPICS else 2
            answer = session.frame(memoryview(bytearray(frame_of(key, version, values)))[4:])
            session.pass_done()
            if isinstance(answer, Pending):
                answer.abandon()
            clock: Any = here.server.clock
            async with asyncio.timeout(20):
                while not any(f"by={key.name}" in line for line in told.messages):
                    clock.advance(0.001)
                    await asyncio.sleep(0.001)
            await dispatcher.stop()

    play(story())


def test_what_was_refused_is_told_once(tmp_path: Path, told: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), **FEW) as here:
            dispatcher, session = open_session(here, ALICE)
            case = CASES[ApiKey.CREATE_TOPICS][0]
            here.broker.authorizer = Rules(*case.refused)
            assert isinstance(case.values, dict)
            await call(here, session, ApiKey.CREATE_TOPICS, case.version, case.values)
            found = [record.getMessage().partition(" ")[0] for record in told.records]
            assert set(found) == {"refused"}
            await dispatcher.stop()

    play(story())
