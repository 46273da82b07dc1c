"""Who asks: before authentication, after it, and what is kept apart by it."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.config.listeners import Listener
from headrace.frontends.kafka.authentication import authentication_stage
from headrace.frontends.kafka.connection.dispatch import Dispatcher, KafkaSession
from headrace.frontends.kafka.connection.registry import APIS
from headrace.model.errors import Malformed
from headrace.record.batch import Record, build
from headrace.security.identity import ANONYMOUS, Identity, Principal
from headrace.testing.disk import SimDisk
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from headrace.wire.kafka.hot import produce
from tests.support.processes.broker import Room, play, room
from tests.support.processes.runs import answered

ALICE = Principal("User", "alice")
FIRST = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


def frame_of(key: int, version: int, body: bytes = b"") -> memoryview:
    """A request without its length."""
    head = request_head(ApiKey(key), version, 7, "test", len(body))
    return memoryview(bytearray(head + body))[4:]


def produced(count: int) -> memoryview:
    """Produce requests alike, as one read brings them."""
    batch = build([Record(0, 1_780_000_000_000, None, b"v", ())])
    topic = produce.TopicData("t", bytes(16), [produce.PartitionData(0, batch)])
    request = produce.ProduceRequest(None, 1, 1000, [topic])
    body = produce.encode_request(9, request)
    frame = request_head(ApiKey.PRODUCE, 9, 7, "test", len(body)) + body
    return memoryview(bytearray(frame * count))


def open_session(here: Room, *, authenticates: bool) -> tuple[KafkaSession, Any]:
    """A connection's session, on a listener where clients must authenticate or need not."""
    dispatcher = Dispatcher(
        here.broker, here.coordinators, here.controller, APIS, here.broker.metrics
    )
    if authenticates:
        dispatcher.authenticating = frozenset({"SECURE"})
    connection = SimpleNamespace(
        address="10.0.0.1",
        listener="SECURE",
        port=1,
        principal=ANONYMOUS,
        waits=False,
        authenticated=True,
    )
    connection.known = lambda: setattr(connection, "authenticated", True)
    peer: Any = connection
    return KafkaSession(dispatcher, peer), connection


def in_room(tmp_path: Path, test: Callable[[Room], Any]) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk()) as here:
            await here.controller.create_topics([NewTopic("t", 1, 1)])
            await test(here)

    play(story())


def test_listeners_that_authenticate_by_requests_are_told_by_their_protocol() -> None:
    protocols = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    listeners = [Listener(protocol[:5] + str(at), "", 1, protocol)
                 for at, protocol in enumerate(protocols)]  # fmt: skip
    assert authentication_stage.listeners_with(listeners) == {"SASL_2", "SASL_3"}


@pytest.mark.parametrize("key", sorted({api.key for api in APIS} - FIRST))
def test_before_authentication_no_other_api_is_answered(tmp_path: Path, key: int) -> None:
    async def test(here: Room) -> None:
        session, connection = open_session(here, authenticates=True)
        assert not connection.authenticated
        api = next(api for api in APIS if api.key == key)
        for version in range(api.min_version, api.max_version + 1):
            with pytest.raises(Malformed, match="before authentication"):
                session.frame(frame_of(key, version))

    in_room(tmp_path, test)


def test_before_authentication_requests_in_a_row_are_no_run(tmp_path: Path) -> None:
    async def test(here: Room) -> None:
        here.write("t")  # a log's first batch goes the ordinary way
        session, _ = open_session(here, authenticates=True)
        sent = produced(5)
        assert session.run(sent, 0, len(sent)) is None
        session.authenticated(Identity("10.0.0.1", "SECURE", ALICE))
        run = session.run(sent, 0, len(sent))
        assert run is not None
        assert run.frames == 5

    in_room(tmp_path, test)


def test_what_leads_to_authentication_is_answered_before_it_and_all_behind_it(
    tmp_path: Path,
) -> None:
    async def test(here: Room) -> None:
        session, connection = open_session(here, authenticates=True)
        assert await answered(session.frame(frame_of(ApiKey.API_VERSIONS, 0)))
        session.authenticated(Identity("10.0.0.1", "SECURE", ALICE))
        assert connection.authenticated
        asks = frame_of(ApiKey.METADATA, 9, b"\x01\x00\x00\x00\x00")
        assert await answered(session.frame(memoryview(bytearray(asks))))

    in_room(tmp_path, test)


def test_without_authentication_whoever_asks_is_anonymous_and_may_ask_all(tmp_path: Path) -> None:
    async def test(here: Room) -> None:
        session, connection = open_session(here, authenticates=False)
        assert connection.authenticated
        assert session._context.identity == Identity("10.0.0.1", "SECURE", ANONYMOUS)
        assert str(ANONYMOUS) == "User:ANONYMOUS"
        asks = frame_of(ApiKey.METADATA, 9, b"\x01\x00\x00\x00\x00")
        assert await answered(session.frame(memoryview(bytearray(asks))))

    in_room(tmp_path, test)


def test_quotas_are_those_of_the_user_who_has_authenticated(tmp_path: Path) -> None:
    async def test(here: Room) -> None:
        asked: list[str] = []
        quotas = here.broker.quotas
        plain = quotas.of

        def of(user: str, client_id: str) -> Any:
            asked.append(user)
            return plain(user, client_id)

        session, _ = open_session(here, authenticates=False)
        mocked: Any = quotas
        mocked.of, mocked.active = of, True
        session.frame(frame_of(ApiKey.API_VERSIONS, 0))
        session.authenticated(Identity("10.0.0.1", "SECURE", ALICE))
        session.frame(frame_of(ApiKey.API_VERSIONS, 0))
        assert asked == ["ANONYMOUS", "alice"]

    in_room(tmp_path, test)


def test_a_metadata_answer_made_for_one_user_is_given_to_no_other(tmp_path: Path) -> None:
    async def test(here: Room) -> None:
        session, _ = open_session(here, authenticates=False)
        asks = frame_of(ApiKey.METADATA, 9, b"\x00\x00\x00\x00\x00")
        kept = session._context.shared.metadata_answers
        await answered(session.frame(memoryview(bytearray(asks))))
        session.authenticated(Identity("10.0.0.2", "SECURE", ALICE))
        await answered(session.frame(memoryview(bytearray(asks))))
        session.authenticated(Identity("10.0.0.3", "SECURE", ALICE))
        await answered(session.frame(memoryview(bytearray(asks))))
        assert [question[2] for question in kept._answers] == [ANONYMOUS, ALICE]

    in_room(tmp_path, test)


def test_who_asks_for_a_delegation_token_is_told_to_be_who_he_is(tmp_path: Path) -> None:
    from headrace.frontends.kafka.security import create_delegation_token

    async def test(here: Room) -> None:
        key = ApiKey.CREATE_DELEGATION_TOKEN
        context = here.context(key, 3)
        context.identity = Identity("10.0.0.1", "SECURE", ALICE)
        asked = SimpleNamespace(
            owner_principal_name="", renewers=(), max_lifetime=timedelta(minutes=1)
        )
        answer = await create_delegation_token.handle(context, asked)
        assert (answer.principal_type, answer.principal_name) == ALICE
        kio_codec.encode_body(answer)

    in_room(tmp_path, test)
