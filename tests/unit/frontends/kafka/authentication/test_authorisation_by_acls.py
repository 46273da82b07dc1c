"""Each API for each role, decided by ACLs: who is allowed all, who is denied one thing, nobody."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.frontends.kafka.authentication.authorisation import ASKED, Ask
from headrace.net.pending import Pending
from headrace.security.acl import ANY_NAME, AclEntry, Permission
from headrace.security.acl_rules import AclRules
from headrace.security.authorizer import CLUSTER_NAME, Operation, Resource, ResourceType
from headrace.security.identity import Principal
from headrace.security.rules import RuleAuthorizer
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot.fetch_response import decode_response
from tests.support.processes.broker import Room
from tests.support.processes.runs import answered
from tests.support.security.authorisation import call, errors, frame_of, open_session, state_of
from tests.support.security.authorisation_cases import CASES
from tests.support.security.authorisation_values import (
    ALICE,
    CLUSTER,
    GROUP,
    NOT_ATTEMPTED,
    SECOND,
    TOKEN,
    TOPIC,
    TRANSACTION,
    fetched,
)
from tests.unit.frontends.kafka.authentication.test_authorisation import (
    in_room,
    open_share_session,
    values_of,
)

FAILED = {TOPIC, GROUP, CLUSTER, TRANSACTION, TOKEN}
NOBODY = ALICE._replace(principal=Principal("User", "nobody"))
KINDS = (
    ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID,
    ResourceType.DELEGATION_TOKEN, ResourceType.USER,
)  # fmt: skip
SILENT = {
    ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.DESCRIBE_DELEGATION_TOKEN,
}  # fmt: skip
"""Where who may not see something is told of nothing, and of no error."""


def allowed_but(*denied: Ask) -> tuple[RuleAuthorizer, AclRules]:
    """Everything is allowed to alice, but this."""
    rules = AclRules()
    for kind in KINDS:
        names = {ANY_NAME, CLUSTER_NAME} if kind is ResourceType.CLUSTER else {ANY_NAME}
        for name in names:
            entries = [AclEntry("User:alice", "*", Operation.ALL, Permission.ALLOW)]
            entries += [
                AclEntry("User:*", ALICE.host, ask.operation, Permission.DENY)
                for ask in denied
                if ask.kind is kind
            ]
            rules.put(Resource(kind, name), entries)
    return RuleAuthorizer([rules]), rules


@pytest.mark.parametrize("key", CASES, ids=lambda key: key.name)
def test_a_denial_is_answered_as_the_table_says_whatever_else_is_allowed(
    tmp_path: Path, key: ApiKey
) -> None:
    async def test(here: Room) -> None:
        everybody = here.broker.authorizer
        for one in CASES[key]:
            dispatcher, session = open_session(here, ALICE)
            values = values_of(here, one)
            await open_share_session(session, here, key)
            before = await state_of(here)
            here.broker.authorizer, _ = allowed_but(*one.refused)
            answer = await call(here, session, key, one.version, values)
            found = {error for error in errors(answer) if error[1] != NOT_ATTEMPTED}
            assert found == one.errors, (one, answer)
            assert one.left_out is None or one.left_out(answer), answer
            assert await state_of(here) == before, one
            here.broker.authorizer = everybody
            await dispatcher.stop()

    in_room(tmp_path, test)


@pytest.mark.parametrize("key", CASES, ids=lambda key: key.name)
def test_who_is_allowed_all_is_served_and_who_is_allowed_nothing_does_nothing(
    tmp_path: Path, key: ApiKey
) -> None:
    async def test(here: Room) -> None:
        everybody = here.broker.authorizer
        one = CASES[key][0]
        dispatcher, session = open_session(here, ALICE)
        values = values_of(here, one)
        await open_share_session(session, here, key)
        here.broker.authorizer, _ = allowed_but()
        session.authenticated(NOBODY)
        before = await state_of(here)
        answer = await call(here, session, key, one.version, values)
        refused = {code for _, code in errors(answer)} - {NOT_ATTEMPTED}
        assert refused <= FAILED, answer
        assert refused or key in SILENT, answer
        assert await state_of(here) == before
        session.authenticated(ALICE)
        answer = await call(here, session, key, one.version, values)
        assert not FAILED & {code for _, code in errors(answer)}, answer
        assert not one.acts or await state_of(here) != before
        here.broker.authorizer = everybody
        await dispatcher.stop()

    in_room(tmp_path, test)


def test_every_api_that_asks_something_is_in_the_table_of_roles() -> None:
    assert set(CASES) == set(ASKED)


def changes(rules: AclRules) -> Callable[[Permission], None]:
    def change(permission: Permission) -> None:
        allowed = AclEntry("User:alice", "*", Operation.ALL, Permission.ALLOW)
        entry = AclEntry("User:alice", "*", Operation.READ, permission)
        rules.put(Resource(ResourceType.TOPIC, ANY_NAME), {allowed, entry})

    return change


def test_a_fetch_session_and_a_fetch_that_waits_feel_an_acl_at_once(tmp_path: Path) -> None:
    async def test(here: Room) -> None:
        everybody = here.broker.authorizer
        here.broker.authorizer, rules = allowed_but()
        change = changes(rules)
        dispatcher, session = open_session(here, ALICE)
        asked: dict[str, Any] = {
            **fetched(12)(here), "session_id": 0, "session_epoch": 0, "max_wait": 0 * SECOND,
        }  # fmt: skip
        opened = await call(here, session, ApiKey.FETCH, 12, asked)
        assert errors(opened) == set()
        assert opened.session_id
        for epoch, (permission, refused) in enumerate(
            [(Permission.ALLOW, False), (Permission.DENY, True), (Permission.ALLOW, False)], start=1
        ):
            change(permission)
            later = {
                **asked, "session_id": opened.session_id, "session_epoch": epoch, "topics": [],
            }  # fmt: skip
            found = {code for _, code in errors(await call(here, session, ApiKey.FETCH, 12, later))}
            assert found == ({TOPIC} if refused else set())
        end = here.broker.partition("t", 0).log.end_offset
        (topic,) = asked["topics"]
        (part,) = topic["partitions"]
        waits = {
            **asked, "max_wait": 60 * SECOND, "session_epoch": -1,
            "topics": [{**topic, "partitions": [{**part, "fetch_offset": end}]}],
        }  # fmt: skip
        frame = memoryview(bytearray(frame_of(ApiKey.FETCH, 12, waits)))
        waiting = session.frame(frame[4:])
        assert isinstance(waiting, Pending)
        assert not waiting.done
        change(Permission.DENY)
        here.write("t")
        answer = decode_response(12, memoryview(await answered(waiting))[9:])
        ((refused_part,),) = [topic.partitions for topic in answer.topics]
        assert (refused_part.error_code, len(refused_part.records or b"")) == (TOPIC, 0)
        here.broker.authorizer = everybody
        await dispatcher.stop()

    in_room(tmp_path, test)
