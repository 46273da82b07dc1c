"""DescribeAcls, CreateAcls, DeleteAcls of a broker with an authorizer."""

import logging
from pathlib import Path
from typing import Any

import pytest

from headrace.frontends.kafka.security import create_acls, delete_acls, describe_acls
from headrace.model.errors import ErrorCode
from headrace.ports.store import Operation as StoreOperation
from headrace.ports.store import SessionLost
from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.security.authorizer import Operation, PatternType, Resource, ResourceType
from headrace.wire.kafka.api import ApiKey
from tests.support.admin import ask, codes, nested, tell, versions
from tests.support.net.served import served
from tests.support.processes.broker import Room
from tests.support.security.authorisation import call, errors, open_session
from tests.support.security.authorisation_values import ALICE

OURS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
CREATE, DELETE, DESCRIBE = served(create_acls), served(delete_acls), served(describe_acls)
ACL = {
    "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a",
    "host": "*", "operation": 3, "permission_type": 3,
}  # fmt: skip
ANY = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
    "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip


async def create(here: Room, *creations: dict[str, Any], version: int = 3) -> list[Any]:
    asked = tuple(nested(CREATE, version, "AclCreation", **(ACL | one)) for one in creations)
    return list((await ask(here, CREATE, version, creations=asked)).results)


async def describe(here: Room, version: int = 3, **wanted: Any) -> list[tuple[str, str]]:
    """Names and principals."""
    answer = await ask(here, DESCRIBE, version, **(ANY | wanted))
    assert codes([answer]) == ["NONE"]
    return [(of.resource_name, acl.principal) for of in answer.resources for acl in of.acls]


async def delete(here: Room, *filters: dict[str, Any], version: int = 3) -> list[Any]:
    asked = tuple(nested(DELETE, version, "DeleteAclsFilter", **(ANY | one)) for one in filters)
    return list((await ask(here, DELETE, version, filters=asked)).filter_results)


@pytest.mark.parametrize("version", versions(CREATE))
def test_acls_are_created_described_and_deleted(tmp_path: Path, version: int) -> None:
    async def story(here: Room) -> None:
        prefixed = {"resource_pattern_type": 4, "resource_name": "p", "principal": "User:b"}
        cluster = {"resource_type": 4, "resource_name": "kafka-cluster", "operation": 8}
        made = await create(here, {}, prefixed, cluster, {}, version=version)
        assert codes(made) == ["NONE"] * 4
        assert {one.error_message for one in made} == {None}
        assert await describe(here, version) == [
            ("p", "User:b"), ("t", "User:a"), ("kafka-cluster", "User:a"),
        ]  # fmt: skip
        answer = await ask(here, DESCRIBE, version, **(ANY | {"pattern_type_filter": 4}))
        (of,) = answer.resources
        (acl,) = of.acls
        assert (of.resource_type, of.pattern_type, acl.host) == (2, 4, "*")
        assert (acl.operation, acl.permission_type) == (3, 3)
        match = {"resource_type_filter": 2, "resource_name_filter": "pt", "pattern_type_filter": 2}
        assert await describe(here, version, **match) == [("p", "User:b")]
        of_t = {"resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 3}
        gone, none = await delete(here, of_t, {"principal_filter": "User:z"}, version=version)
        assert codes([gone, none]) == ["NONE", "NONE"]
        (one,) = gone.matching_acls
        assert (one.resource_name, one.principal, codes([one])) == ("t", "User:a", ["NONE"])
        assert none.matching_acls == ()
        (rest,) = await delete(here, {}, version=version)
        assert len(rest.matching_acls) == 2
        assert await describe(here, version) == []

    tell(tmp_path, story, **OURS)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 1}, "Invalid patternType ANY"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"resource_pattern_type": -7}, "Invalid patternType UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 0}, "Invalid operation UNKNOWN"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"permission_type": 4}, "Invalid permissionType UNKNOWN"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_name": "a/b"}, "has a slash"),
        ({"resource_name": ".."}, "dots alone"),
        ({"resource_name": "a\n"}, "control character"),
        ({"resource_name": "\0"}, "control character"),
        ({"resource_type": 4, "resource_name": "c"}, "The only valid name for the CLUSTER"),
        ({"principal": "alice"}, "principalType:principalName"),
        ({"principal": "User:"}, "principalType:principalName"),
        ({"host": ""}, "Invalid empty host"),
    ],
)
def test_a_wrong_acl_is_refused_and_the_others_are_created(
    tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    async def story(here: Room) -> None:
        before, refused, after = await create(here, {"principal": "User:x"}, wrong, {})
        assert codes([before, refused, after]) == ["NONE", "INVALID_REQUEST", "NONE"]
        assert words in refused.error_message
        assert await describe(here) == [("t", "User:a"), ("t", "User:x")]

    tell(tmp_path, story, **OURS)


@pytest.mark.parametrize(
    "wrong",
    [{"resource_type_filter": 0}, {"pattern_type_filter": 9}, {"operation": 0},
     {"permission_type": -1}],
)  # fmt: skip
def test_a_filter_of_what_nobody_knows_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async def story(here: Room) -> None:
        await create(here, {})
        answer = await ask(here, DESCRIBE, 3, **(ANY | wrong))
        assert (codes([answer]), answer.resources) == (["INVALID_REQUEST"], ())
        refused, deleted = await delete(here, wrong, {})
        assert codes([refused, deleted]) == ["INVALID_REQUEST", "NONE"]
        assert len(deleted.matching_acls) == 1

    tell(tmp_path, story, **OURS)


def test_acls_hold_at_once_and_survive_a_restart(tmp_path: Path) -> None:
    read = (Operation.READ, Resource(ResourceType.TOPIC, "t"))
    who = ALICE._replace(principal=ALICE.principal._replace(name="a"))

    async def first(here: Room) -> None:
        authorizer = here.broker.authorizer
        assert not authorizer.allows(who, *read)
        version = authorizer.version
        await create(here, {})
        assert authorizer.allows(who, *read)
        assert authorizer.version > version
        await create(here, {"permission_type": 2, "resource_name": "*"})
        assert not authorizer.allows(who, *read)
        await delete(here, {"permission_type": 2})

    async def second(here: Room) -> None:
        assert here.broker.authorizer.allows(who, *read)
        assert await describe(here) == [("t", "User:a")]

    tell(tmp_path, first, **OURS)
    tell(tmp_path, second, **OURS)


def test_what_the_store_refuses_is_answered_for_that_acl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: Room) -> None:
        await create(here, {})

        async def lost(operations: list[StoreOperation]) -> None:
            raise SessionLost("gone")

        monkeypatch.setattr(here.store, "multi", lost)
        (failed,) = await create(here, {"principal": "User:b"})
        assert codes([failed]) == ["UNKNOWN_SERVER_ERROR"]
        (failed,) = await delete(here, {})
        assert codes([failed]) == ["UNKNOWN_SERVER_ERROR"]
        assert await describe(here) == [("t", "User:a")], "they still hold"

    tell(tmp_path, story, **OURS)


def test_who_may_not_alter_the_cluster_changes_nothing_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="headrace.security.audit")

    async def story(here: Room) -> None:
        await create(here, {})
        caplog.clear()
        dispatcher, session = open_session(here, ALICE)
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        for key, values, path in (
            (ApiKey.CREATE_ACLS, {"creations": [ACL]}, "results.error_code"),
            (ApiKey.DELETE_ACLS, {"filters": [ANY]}, "filter_results.error_code"),
            (ApiKey.DESCRIBE_ACLS, ANY, "error_code"),
        ):
            answer = await call(here, session, key, 3, values)
            assert errors(answer) == {(path, refused)}
        assert await describe(here) == [("t", "User:a")]
        assert caplog.text.count("refused principal=User:alice") == 2
        assert "operation=ALTER resource=CLUSTER:kafka-cluster" in caplog.text
        assert "changed" not in caplog.text
        await dispatcher.stop()

    tell(tmp_path, story, **OURS)


def test_who_lists_is_not_logged_for_what_he_does_not_see(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="headrace.security.audit")

    async def story(here: Room) -> None:
        dispatcher, session = open_session(here, ALICE)
        for key, version, values in (
            (ApiKey.METADATA, 12, {"topics": None, "allow_auto_topic_creation": False}),
            (ApiKey.LIST_GROUPS, 4, {"states_filter": []}),
            (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [], "response_partition_limit": 9}),
        ):
            assert errors(await call(here, session, key, version, values)) == set()
        assert "refused" not in caplog.text
        asked = {"topics": [{"name": "hidden"}], "allow_auto_topic_creation": False}
        answer = await call(here, session, ApiKey.METADATA, 12, asked)
        assert errors(answer) == {("topics.error_code", ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
        assert "resource=TOPIC:hidden" in caplog.text
        await dispatcher.stop()

    tell(tmp_path, story, **OURS)


def test_a_binding_is_what_the_settings_hold(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await create(here, {"resource_pattern_type": 4, "host": "10.0.0.1"})
        acls = here.controller.settings.acls
        assert acls.matching(AclFilter()) == [
            AclBinding(
                Resource(ResourceType.TOPIC, "t", PatternType.PREFIXED),
                AclEntry("User:a", "10.0.0.1", Operation.READ, Permission.ALLOW),
            )
        ]

    tell(tmp_path, story, **OURS)
