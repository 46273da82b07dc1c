"""Delegation tokens by their APIs, in every version, and who comes with one by SCRAM."""

import base64
import logging
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.frontends.kafka.security import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from headrace.model.errors import ErrorCode
from headrace.model.secret import Secret
from headrace.security.identity import Identity, Principal
from headrace.security.sasl.sasl import Mechanism
from headrace.security.sasl.scram import HASHES
from headrace.security.sasl.scram_exchange import ScramClient
from headrace.testing.broker import BrokerThread
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import VERSIONS, ApiKey
from tests.support.admin import versions
from tests.support.net.served import served
from tests.support.processes.broker import Room, play, room
from tests.support.security.authorisation import Rules, call, open_session
from tests.support.security.sasl_kit import USER, Knocking, add_scram_users, guarded

CREATE, RENEW = served(create_delegation_token), served(renew_delegation_token)
EXPIRE, DESCRIBE = served(expire_delegation_token), served(describe_delegation_token)
SECRET = "planted-secret-of-brokers"
MS = timedelta(milliseconds=1)
DAY_MS = 86_400_000
ALICE, BOB, EVE = (
    Identity("10.0.0.1", "SASL", Principal("User", name)) for name in ("alice", "bob", "eve")
)
AS_BOB = {"principal_type": "User", "principal_name": "bob"}


def tell(place: Path, story: Any, **settings: str) -> None:
    async def run() -> None:
        given: dict[str, Any] = {"delegation_token_secret_key": SECRET, **settings}
        async with room(place, SimDisk(), **given) as here:
            await story(here)

    play(run())


async def ask(here: Room, who: Identity, key: ApiKey, version: int, **values: Any) -> Any:
    dispatcher, session = open_session(here, who)
    try:
        return await call(here, session, key, version, values)
    finally:
        await dispatcher.stop()


async def created(here: Room, who: Identity = ALICE, version: int = 3, **values: Any) -> Any:
    given = {"renewers": [AS_BOB], "max_lifetime": -MS, **values}
    answer = await ask(here, who, CREATE.key, version, **given)
    assert code(answer) == "NONE"
    return answer


async def listed(here: Room, who: Identity = ALICE, version: int = 3, owners: Any = None) -> Any:
    answer = await ask(here, who, DESCRIBE.key, version, owners=owners)
    assert code(answer) == "NONE"
    return [token.token_id for token in answer.tokens]


def code(answer: Any) -> str:
    return ErrorCode(int(answer.error_code)).name


def test_the_versions_are_kafkas() -> None:
    for api in (CREATE, RENEW, EXPIRE, DESCRIBE):
        assert (api.min_version, api.max_version) == VERSIONS[api.key]


@pytest.mark.parametrize("version", versions(CREATE))
def test_a_token_is_made_described_renewed_and_ended(tmp_path: Path, version: int) -> None:
    earlier = min(version, 2)

    async def story(here: Room) -> None:
        made = await created(here, version=version)
        now = made.issue_timestamp
        assert (made.principal_type, made.principal_name) == ("User", "alice")
        assert made.max_timestamp - now == 7 * DAY_MS * MS
        assert made.expiry_timestamp - now == DAY_MS * MS
        assert len(made.hmac) == 64
        answer = await ask(here, ALICE, DESCRIBE.key, version, owners=None)
        (token,) = answer.tokens
        assert (token.token_id, token.hmac) == (made.token_id, made.hmac)
        assert (token.principal_name, token.max_timestamp) == (
            "alice", round(made.max_timestamp.timestamp() * 1000),
        )  # fmt: skip
        assert [renewer.principal_name for renewer in token.renewers] == ["bob"]
        if version >= 3:
            assert token.token_requester_principal_name == "alice"
        renewed = await ask(here, BOB, RENEW.key, earlier, hmac=made.hmac, renew_period=1000 * MS)
        assert code(renewed) == "NONE"
        assert 0 < (renewed.expiry_timestamp - now) / MS < 60_000
        ended = await ask(
            here, BOB, EXPIRE.key, earlier, hmac=made.hmac, expiry_time_period=500 * MS
        )
        assert code(ended) == "NONE"
        assert ended.expiry_timestamp < renewed.expiry_timestamp
        ended = await ask(here, ALICE, EXPIRE.key, earlier, hmac=made.hmac, expiry_time_period=-MS)
        assert code(ended) == "NONE"
        assert await listed(here, version=version) == []

    tell(tmp_path, story)


def test_tokens_are_there_after_a_restart(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        given: dict[str, Any] = {"delegation_token_secret_key": SECRET}
        async with room(tmp_path, disk, **given) as here:
            made = await created(here)
        async with room(tmp_path, disk, **given) as here:
            assert await listed(here) == [made.token_id]
            tokens = here.broker.users.delegation_tokens
            assert tokens is not None
            assert tokens.hmac(made.token_id) == made.hmac

    play(story())


def test_what_is_wrong_is_answered_as_by_kafka(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        made = await created(here)

        async def refused(who: Identity, key: ApiKey, version: int, **values: Any) -> str:
            return code(await ask(here, who, key, version, **values))

        group = {"principal_type": "Group", "principal_name": "bob"}
        values: dict[str, Any]
        for values in (
            {"renewers": [group]},
            {"renewers": [], "owner_principal_type": "Group", "owner_principal_name": "x"},
            {"renewers": [], "owner_principal_type": None, "owner_principal_name": "x"},
        ):
            given = {"max_lifetime": MS, **values}
            assert await refused(ALICE, CREATE.key, 3, **given) == "INVALID_PRINCIPAL_TYPE"
        many = {"renewers": [AS_BOB] * 101, "max_lifetime": MS}
        assert await refused(ALICE, CREATE.key, 3, **many) == "INVALID_REQUEST"
        for key, period in ((RENEW.key, "renew_period"), (EXPIRE.key, "expiry_time_period")):
            assert await refused(EVE, key, 2, hmac=made.hmac, **{period: MS}) == (
                "DELEGATION_TOKEN_OWNER_MISMATCH"
            )
            assert await refused(ALICE, key, 2, hmac=b"other", **{period: MS}) == (
                "DELEGATION_TOKEN_NOT_FOUND"
            )
        clock: Any = here.server.clock
        clock.advance(DAY_MS / 1000 + 1)
        for key, period in ((RENEW.key, "renew_period"), (EXPIRE.key, "expiry_time_period")):
            assert await refused(ALICE, key, 2, hmac=made.hmac, **{period: -MS}) == (
                "DELEGATION_TOKEN_EXPIRED"
            )

    tell(tmp_path, story, delegation_token_expiry_check_interval_ms=str(1 << 40))


@pytest.mark.parametrize("api", [CREATE, RENEW, EXPIRE, DESCRIBE], ids=lambda api: api.key.name)
def test_who_came_with_a_token_may_not_ask_about_tokens(tmp_path: Path, api: Any) -> None:
    values: dict[ApiKey, dict[str, Any]] = {
        CREATE.key: {"renewers": [], "max_lifetime": MS},
        RENEW.key: {"renew_period": MS},
        EXPIRE.key: {"expiry_time_period": -MS},
        DESCRIBE.key: {"owners": None},
    }

    async def story(here: Room) -> None:
        made = await created(here)
        given = values[api.key]
        if api in (RENEW, EXPIRE):
            given = {**given, "hmac": made.hmac}
        answer = await ask(
            here, ALICE._replace(by_delegation_token=True), api.key, api.max_version, **given
        )
        assert code(answer) == "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
        assert await listed(here) == [made.token_id]

    tell(tmp_path, story)


def test_who_sees_which_tokens(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        own = await created(here, renewers=[])
        for_bob = await created(
            here, owner_principal_type="User", owner_principal_name="bob", renewers=[]
        )
        both, here.broker.authorizer = [own.token_id, for_bob.token_id], Rules()
        assert sorted(await listed(here, EVE)) == sorted(both)
        from headrace.frontends.kafka.authentication import authorisation as auth

        here.broker.authorizer = Rules(auth.DESCRIBE_TOKEN, auth.DESCRIBE_TOKENS)
        assert sorted(await listed(here)) == sorted(both)  # she had both made
        assert await listed(here, BOB) == [for_bob.token_id]
        assert await listed(here, EVE) == []
        assert await listed(here, owners=[]) == []
        assert await listed(here, owners=[AS_BOB]) == [for_bob.token_id]
        for one in (auth.DESCRIBE_TOKEN, auth.DESCRIBE_TOKENS):  # either is enough
            rules = here.broker.authorizer = Rules(one)
            assert sorted(await listed(here, EVE)) == sorted(both)
        assert {name for _, ask, name in rules.asked if ask == auth.DESCRIBE_TOKEN} == set(both)
        here.broker.authorizer = Rules(auth.CREATE_TOKENS)
        await created(here, renewers=[])  # one's own needs no permission
        await created(here, owner_principal_type="User", owner_principal_name="alice", renewers=[])

    tell(tmp_path, story)


def test_for_whom_a_token_may_be_made_is_asked_by_the_principals_name(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        rules = here.broker.authorizer = Rules()
        await created(here, owner_principal_type="User", owner_principal_name="bob")
        assert {name for _, _, name in rules.asked} == {"User:bob"}

    tell(tmp_path, story)


def test_one_token_too_many_is_refused_and_changes_are_in_the_audit_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(here: Room) -> None:
        made = await created(here)
        values = {"renewers": [], "max_lifetime": MS}
        assert code(await ask(here, ALICE, CREATE.key, 3, **values)) == "POLICY_VIOLATION"
        await ask(here, ALICE, RENEW.key, 2, hmac=made.hmac, renew_period=MS * 50_000)
        await ask(here, ALICE, EXPIRE.key, 2, hmac=made.hmac, expiry_time_period=-MS)
        for by in ("CREATE", "RENEW", "EXPIRE"):
            told = [line for line in caplog.messages if f"by={by}_DELEGATION_TOKEN" in line]
            (line,) = [line for line in told if line.startswith("changed ")]
            assert "User:alice" in line
            assert made.token_id in line
            refused = by == "CREATE"
            assert any("result=POLICY_VIOLATION" in line for line in told) == refused
        for secret in (SECRET, base64.b64encode(made.hmac).decode(), made.hmac.hex()):
            assert secret not in caplog.text

    with caplog.at_level(logging.DEBUG):
        tell(tmp_path, story, delegation_token_max_count_per_owner="1")


# who comes with one


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with guarded(**{"delegation.token.secret.key": SECRET}) as running:
        add_scram_users(running)
        yield running


def token_of(broker: BrokerThread, **values: Any) -> Any:
    with Knocking(broker) as client:
        client.log_in()
        given = {"renewers": (), "max_lifetime": -MS, **values}
        answer = client.ask(ApiKey.CREATE_DELEGATION_TOKEN, 2, **given)
        assert code(answer) == "NONE"
        return answer


def log_in(client: Knocking, name: str, hmac: bytes, mechanism: str = "SCRAM-SHA-256") -> Any:
    client.handshake(mechanism)
    password = Secret(base64.b64encode(hmac).decode())
    side = ScramClient(Mechanism(mechanism), name, password, "nonce", delegated=True)
    token: bytes | None = side.first()
    while token is not None:
        answer = client.token(token)
        if answer.error_code:
            return answer
        token = side.respond(bytes(answer.auth_bytes))
    return answer


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_token_lets_in_as_its_owner_until_it_ends(broker: BrokerThread, mechanism: str) -> None:
    made = token_of(broker)
    with Knocking(broker) as client:
        answer = log_in(client, made.token_id, bytes(made.hmac), mechanism)
        assert code(answer) == "NONE"
        lasts = answer.session_lifetime.total_seconds()
        assert DAY_MS / 1000 - 60 < lasts <= DAY_MS / 1000
        assert client.topics() is not None
        told = client.ask(ApiKey.CREATE_DELEGATION_TOKEN, 1, renewers=(), max_lifetime=MS)
        assert code(told) == "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
        assert (told.principal_type, told.principal_name) == ("User", USER)


def test_a_session_ends_with_its_token_and_a_renewed_one_prolongs_it(broker: BrokerThread) -> None:
    made = token_of(broker, max_lifetime=1500 * MS)
    hmac = bytes(made.hmac)
    with Knocking(broker) as client, Knocking(broker) as owner:
        owner.log_in()
        short = {"hmac": hmac, "expiry_time_period": 700 * MS}
        assert code(owner.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, **short)) == "NONE"
        assert log_in(client, made.token_id, hmac).session_lifetime.total_seconds() <= 0.7
        renewed = owner.ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=hmac, renew_period=-MS)
        assert code(renewed) == "NONE"
        assert code(log_in(client, made.token_id, hmac)) == "NONE"
        time.sleep(0.75)
        assert client.topics() is not None
        time.sleep(0.9)
        assert client.topics() is None
    with Knocking(broker) as client:
        answer = log_in(client, made.token_id, hmac)
        assert code(answer) == "SASL_AUTHENTICATION_FAILED"


@pytest.mark.parametrize("what", ["hmac", "id", "as a user", "user as a token", "ended"])
def test_what_is_no_token_is_refused_and_nothing_of_it_is_shown(
    broker: BrokerThread, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = token_of(broker)
    name, hmac = made.token_id, bytes(made.hmac)
    if what == "ended":
        with Knocking(broker) as owner:
            owner.log_in()
            owner.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=hmac, expiry_time_period=-MS)
    with Knocking(broker) as client, caplog.at_level(logging.DEBUG):
        if what == "as a user":
            password = base64.b64encode(hmac).decode()
            answer = client.log_in("SCRAM-SHA-256", name, password)
        elif what == "user as a token":
            answer = log_in(client, USER, b"x")
        elif what == "hmac":
            answer = log_in(client, name, hmac[:-1] + bytes([hmac[-1] ^ 1]))
        else:
            answer = log_in(client, name if what == "ended" else "A" * 22, hmac)
        assert code(answer) == "SASL_AUTHENTICATION_FAILED"
        assert "invalid credentials" in answer.error_message
        assert client.topics() is None
    why = {"hmac": "wrong HMAC", "as a user": "unknown user"}
    expected = why.get(what, "unknown or expired delegation token")
    assert f"authentication by SCRAM-SHA-256 failed: {expected}" in caplog.text
    assert base64.b64encode(hmac).decode() not in caplog.text


def test_without_a_secret_no_token_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    with guarded() as running, Knocking(running) as client:
        answer = log_in(client, "A" * 22, b"x")
        assert code(answer) == "SASL_AUTHENTICATION_FAILED"
    assert "there are no delegation tokens here" in caplog.text
