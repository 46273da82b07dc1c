"""Each API asks what the table says before it acts, and answers a refusal as Kafka does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.authentication.authorisation import (
    ASKED,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    NOT_ASKED,
    Ask,
)
from headrace.frontends.kafka.connection.registry import APIS
from headrace.security.authorizer import OPERATIONS_OF, AllowsAll, ResourceType
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from tests.support.processes.broker import Room, play, room
from tests.support.security.authorisation import Rules, call, errors, open_session, state_of
from tests.support.security.authorisation_cases import CASES
from tests.support.security.authorisation_values import (
    ALICE,
    BEGINS,
    BOB,
    CLUSTER,
    FEW,
    FURNISHED,
    GROUP,
    NEW_TOPIC,
    NOT_ATTEMPTED,
    TOPIC,
    TRANSACTION,
    Case,
    Values,
    added_by,
    share_fetched,
)

TOLD = {
    ApiKey.DESCRIBE_CLUSTER: {
        Ask(operation, ResourceType.CLUSTER) for operation in OPERATIONS_OF[ResourceType.CLUSTER]
    },
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {
        Ask(operation, ResourceType.TOPIC) for operation in OPERATIONS_OF[ResourceType.TOPIC]
    },
}
"""What is asked only to be told of: nothing is refused for it."""


async def furnish(here: Room) -> None:
    """What requests are about: topic t, groups g (offsets), k (consumers), s (shared), and x."""
    await here.controller.create_topics([NewTopic("t", 1, 1)])
    here.write("t")
    dispatcher, session = open_session(here, ALICE)
    for key, version, values in FURNISHED:
        assert errors(await call(here, session, key, version, values)) == set()
    made = await call(here, session, ApiKey.INIT_PRODUCER_ID, 4, BEGINS)
    opens = added_by(made.producer_id, made.producer_epoch)
    assert errors(await call(here, session, ApiKey.ADD_PARTITIONS_TO_TXN, 3, opens)) == set()
    await dispatcher.stop()
    tokens = here.controller.settings.tokens
    assert tokens is not None
    await tokens.create(BOB.principal, BOB.principal, (), -1)


def in_room(tmp_path: Path, test: Callable[[Room], Any]) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), **FEW) as here:
            await furnish(here)
            await test(here)

    play(story())


def values_of(here: Room, one: Case) -> Values:
    return one.values(here) if callable(one.values) else one.values


async def open_share_session(session: Any, here: Room, key: ApiKey) -> None:
    """An acknowledgement needs a session, which a ShareFetch opens."""
    if key is ApiKey.SHARE_ACKNOWLEDGE:
        await call(here, session, ApiKey.SHARE_FETCH, 2, share_fetched(here))


def test_every_api_that_is_served_asks_something_or_says_why_not() -> None:
    served = {api.key for api in APIS}
    assert set(ASKED) | set(NOT_ASKED) == served
    assert not set(ASKED) & set(NOT_ASKED)
    assert all(ASKED.values())
    assert all(NOT_ASKED.values())


def test_every_question_of_the_table_has_a_case_that_refuses_it() -> None:
    for key, asks in ASKED.items():
        assert {ask for one in CASES[key] for ask in one.refused} == set(asks), key.name


@pytest.mark.parametrize("key", CASES, ids=lambda key: key.name)
def test_a_refusal_is_answered_as_kafka_does_and_nothing_is_done(
    tmp_path: Path, key: ApiKey
) -> None:
    async def test(here: Room) -> None:
        for one in CASES[key]:
            dispatcher, session = open_session(here, ALICE)
            values = values_of(here, one)
            await open_share_session(session, here, key)
            before = await state_of(here)
            rules = here.broker.authorizer = Rules(*one.refused)
            answer = await call(here, session, key, one.version, values)
            found = {error for error in errors(answer) if error[1] != NOT_ATTEMPTED}
            assert found == one.errors, (one, answer)
            assert one.left_out is None or one.left_out(answer), answer
            assert await state_of(here) == before, one
            assert {ask for _, ask, _ in rules.asked} <= set(ASKED[key])
            assert {who for who, _, _ in rules.asked} <= {"alice"}
            here.broker.authorizer = AllowsAll()
            await dispatcher.stop()

    in_room(tmp_path, test)


@pytest.mark.parametrize("key", CASES, ids=lambda key: key.name)
def test_what_is_allowed_is_done_and_nothing_but_the_table_is_asked(
    tmp_path: Path, key: ApiKey
) -> None:
    async def test(here: Room) -> None:
        for one in CASES[key][:1]:
            dispatcher, session = open_session(here, ALICE)
            values = values_of(here, one)
            await open_share_session(session, here, key)
            before = await state_of(here)
            rules = here.broker.authorizer = Rules()
            answer = await call(here, session, key, one.version, values)
            assert not {TOPIC, GROUP, CLUSTER, TRANSACTION} & {code for _, code in errors(answer)}
            assert one.left_out is None or not one.left_out(answer), answer
            if one.acts:
                assert await state_of(here) != before, one
            assert rules.asked
            assert {ask for _, ask, _ in rules.asked} <= set(ASKED[key]) | TOLD.get(key, set())
            await dispatcher.stop()

    in_room(tmp_path, test)


class Unasked(AllowsAll):
    """Allows all, and must not be asked."""

    def allows(self, *question: Any) -> bool:
        raise AssertionError(question)

    def allows_any(self, *question: Any) -> bool:
        raise AssertionError(question)


def test_an_authorizer_that_allows_all_is_asked_nothing(tmp_path: Path) -> None:
    async def test(here: Room) -> None:
        here.broker.authorizer = Unasked()
        dispatcher, session = open_session(here, ALICE)
        for key in (
            ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA,
            ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.HEARTBEAT, ApiKey.SHARE_FETCH,
            ApiKey.INIT_PRODUCER_ID, ApiKey.DELETE_GROUPS, ApiKey.DELETE_TOPICS,
        ):  # fmt: skip
            one = CASES[key][0]
            await call(here, session, key, one.version, values_of(here, one))
        await dispatcher.stop()

    in_room(tmp_path, test)


def test_a_broker_asks_the_authorizer_that_it_is_made_with(tmp_path: Path) -> None:
    async def story() -> None:
        refusing = Rules(CREATE_CLUSTER, CREATE_TOPIC)
        async with room(tmp_path, SimDisk(), authorizer=refusing, **FEW) as here:
            dispatcher, session = open_session(here, ALICE)
            answer = await call(here, session, ApiKey.CREATE_TOPICS, 7, NEW_TOPIC)
            assert errors(answer) == {("topics.error_code", TOPIC)}
            await dispatcher.stop()

    play(story())
