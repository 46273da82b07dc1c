"""What who would administer security, or move replicas, is told by one broker without either."""

from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.admin import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from headrace.frontends.kafka.connection.api import Api
from headrace.frontends.kafka.connection.registry import APIS
from headrace.frontends.kafka.security import (
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import VERSIONS
from tests.support.admin import MINUTE, ask, codes, nested, tell, versions
from tests.support.net.served import served
from tests.support.processes.broker import Room
from tests.support.security.authorisation import call, open_session
from tests.support.security.authorisation_values import ALICE

HERE = [
    served(module)
    for module in (
        alter_partition_reassignments, create_acls,
        create_delegation_token, delete_acls, describe_acls, describe_delegation_token,
        expire_delegation_token, list_partition_reassignments,
        renew_delegation_token, sasl_authenticate, sasl_handshake,
    )
]  # fmt: skip
NO_AUTHORIZER = "No Authorizer is configured on the broker."


def pairs(*modules: Any) -> list[Any]:
    """Each API with each of its versions."""
    return [
        pytest.param(api, version, id=f"{api.key.name}-{version}")
        for api in map(served, modules)
        for version in versions(api)
    ]


@pytest.mark.parametrize("api", HERE, ids=lambda api: api.key.name)
def test_the_versions_are_kafkas(api: Api) -> None:
    assert (api.min_version, api.max_version) == VERSIONS[api.key]
    assert api in APIS


@pytest.mark.parametrize(("api", "version"), pairs(describe_acls, create_acls, delete_acls))
def test_acls_are_refused_as_without_an_authorizer(tmp_path: Path, api: Api, version: int) -> None:
    creation = {
        "resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*",
        "operation": 3, "permission_type": 3,
    }  # fmt: skip
    wanted = {
        "resource_type_filter": 2, "resource_name_filter": "t", "principal_filter": None,
        "host_filter": None, "operation": 1, "permission_type": 1,
    }  # fmt: skip

    async def story(here: Room) -> None:
        if api == served(describe_acls):
            answer = await ask(here, api, version, **wanted)
            assert answer.resources == ()
            refused = [answer]
        elif api == served(create_acls):
            one = nested(api, version, "AclCreation", **creation)
            refused = (await ask(here, api, version, creations=(one, one))).results
            assert len(refused) == 2
        else:
            one = nested(api, version, "DeleteAclsFilter", **wanted)
            refused = (await ask(here, api, version, filters=(one, one))).filter_results
            assert [one.matching_acls for one in refused] == [(), ()]
        assert {*codes(refused)} == {"SECURITY_DISABLED"}
        assert {one.error_message for one in refused} == {NO_AUTHORIZER}

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("api", "version"),
    pairs(
        create_delegation_token, renew_delegation_token, expire_delegation_token,
        describe_delegation_token,
    ),
)  # fmt: skip
def test_nobody_is_given_a_delegation_token(tmp_path: Path, api: Api, version: int) -> None:
    requests: dict[int, dict[str, Any]] = {
        served(create_delegation_token).key: {"renewers": (), "max_lifetime": MINUTE},
        served(renew_delegation_token).key: {"hmac": b"x", "renew_period": MINUTE},
        served(expire_delegation_token).key: {"hmac": b"x", "expiry_time_period": MINUTE},
        served(describe_delegation_token).key: {"owners": None},
    }
    fields = requests[api.key]
    if api == served(create_delegation_token) and version >= 3:
        fields |= {"owner_principal_type": None, "owner_principal_name": None}

    async def story(here: Room) -> None:
        answer = await ask(here, api, version, **fields)
        assert codes([answer]) == ["DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"]
        if api == served(describe_delegation_token):
            assert answer.tokens == ()
        if api == served(create_delegation_token):
            assert (answer.principal_type, answer.principal_name) == ("User", "ANONYMOUS")
            assert (answer.token_id, answer.hmac) == ("", b"")

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("api", "version"),
    pairs(
        create_delegation_token, renew_delegation_token, expire_delegation_token,
        describe_delegation_token,
    ),
)  # fmt: skip
def test_where_there_are_no_tokens_who_has_authenticated_is_told_so(
    tmp_path: Path, api: Api, version: int
) -> None:
    fields: dict[str, Any] = {"hmac": b"x", "owners": None, "renewers": [], "max_lifetime": MINUTE}

    async def story(here: Room) -> None:
        dispatcher, session = open_session(here, ALICE)
        known = {field.name for field in dataclass_fields(kio_codec.request_type(api.key, version))}
        values = {name: value for name, value in fields.items() if name in known}
        answer = await call(here, session, api.key, version, values)
        assert codes([answer]) == ["DELEGATION_TOKEN_AUTH_DISABLED"]
        await dispatcher.stop()

    tell(tmp_path, story)


def test_a_token_for_another_is_refused_in_its_name(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        answer = await ask(
            here, served(create_delegation_token), 3, renewers=(), max_lifetime=MINUTE,
            owner_principal_type="User", owner_principal_name="ann",
        )  # fmt: skip
        assert (answer.principal_name, answer.token_requester_principal_name) == (
            "ann",
            "ANONYMOUS",
        )

    tell(tmp_path, story)


@pytest.mark.parametrize(("api", "version"), pairs(sasl_handshake, sasl_authenticate))
def test_no_listener_authenticates(tmp_path: Path, api: Api, version: int) -> None:
    async def story(here: Room) -> None:
        if api == served(sasl_handshake):
            answer = await ask(here, api, version, mechanism="PLAIN")
            assert answer.mechanisms == ()
        else:
            answer = await ask(here, api, version, auth_bytes=b"\0a\0b")
            assert answer.auth_bytes == b""
        assert codes([answer]) == ["ILLEGAL_SASL_STATE"]

    tell(tmp_path, story)


@pytest.mark.parametrize("version", versions(served(alter_partition_reassignments)))
def test_replicas_stay_where_they_are(tmp_path: Path, version: int) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 1)])
        api = served(alter_partition_reassignments)

        async def move(topic: str, index: int, *replicas: int | None) -> list[str]:
            one = nested(
                api, version, "ReassignablePartition", partition_index=index,
                replicas=None if replicas == (None,) else replicas,
            )  # fmt: skip
            wanted = nested(api, version, "ReassignableTopic", name=topic, partitions=(one,))
            answer = await ask(here, api, version, timeout=MINUTE, topics=(wanted,))
            assert codes([answer]) == ["NONE"]
            return codes(answer.responses[0].partitions)

        assert await move("t", 0, 0) == ["NONE"]
        assert await move("t", 0, None) == ["NO_REASSIGNMENT_IN_PROGRESS"]
        assert await move("t", 0, 1) == ["INVALID_REPLICA_ASSIGNMENT"]
        assert await move("t", 0, 0, 0) == ["INVALID_REPLICA_ASSIGNMENT"]
        assert await move("t", 0) == ["INVALID_REPLICA_ASSIGNMENT"]
        assert await move("t", 1, 0) == ["UNKNOWN_TOPIC_OR_PARTITION"]
        assert await move("t", -1, 0) == ["UNKNOWN_TOPIC_OR_PARTITION"]
        assert await move("nope", 0, 0) == ["UNKNOWN_TOPIC_OR_PARTITION"]
        answer = await ask(
            here, served(list_partition_reassignments), 0, timeout=MINUTE, topics=None
        )
        assert (codes([answer]), answer.topics) == (["NONE"], ())

    tell(tmp_path, story)
