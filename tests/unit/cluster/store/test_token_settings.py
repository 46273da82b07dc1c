"""Delegation tokens in the store: Kafka's znodes, changed by several brokers, gone when expired."""

import asyncio
import json
from typing import Any

import pytest

from headrace.cluster.store import token_store
from headrace.cluster.store.znodes import BadPayload
from headrace.model.errors import ApiError, ErrorCode
from headrace.security.identity import Principal
from headrace.security.sasl.delegation_tokens import DelegationToken
from headrace.server.assembly import Server
from headrace.testing.sim.cluster import SimCluster
from tests.support.sim import cluster as sim_cluster
from tests.support.sim.cluster import Story, dotted, until

ALICE, BOB = Principal("User", "alice"), Principal("User", "b\u00f6 b,:")
TOKEN = DelegationToken("AZ-_09", BOB, ALICE, (ALICE, BOB), 1, 2, 3)
AS_KAFKA = {
    "version": 3,
    "owner": "User%3Ab%C3%B6%20b%2C%3A",
    "tokenRequester": "User%3Aalice",
    "renewers": ["User%3Aalice", "User%3Ab%C3%B6%20b%2C%3A"],
    "issueTimestamp": 1,
    "maxTimestamp": 3,
    "expiryTimestamp": 2,
    "tokenId": "AZ-_09",
}
PATH = "/delegation_token/tokens/AZ-_09"


def play(story: Story, **settings: str) -> None:
    """Run `story` with brokers 0 and 1."""
    given = {"delegation.token.secret.key": "planted-4711", **dotted(settings)}
    sim_cluster.play(story, 0, 1, settings=given)


def settings_of(server: Server) -> Any:
    return server.controller.settings.tokens


def held(server: Server) -> list[DelegationToken]:
    return list(settings_of(server).tokens)


def test_a_token_is_written_as_kafka_writes_it() -> None:
    assert json.loads(token_store.encode_token(TOKEN)) == AS_KAFKA
    assert token_store.decode_token(PATH, json.dumps(AS_KAFKA).encode()) == TOKEN
    before = {name: value for name, value in AS_KAFKA.items() if name != "tokenRequester"}
    for version in (1, 2):
        found = token_store.decode_token(PATH, json.dumps({**before, "version": version}).encode())
        assert found == TOKEN._replace(requester=BOB)


@pytest.mark.parametrize(
    "changed",
    [{"version": 0}, {"version": 4}, {"version": "3"}, {"owner": "alice"}, {"owner": ":a"},
     {"owner": "User%3A"}, {"owner": None}, {"tokenId": "other"}, {"renewers": 7},
     {"renewers": ["x"]}, {"issueTimestamp": None}, {"expiryTimestamp": "x"},
     {"tokenRequester": None}],
    ids=str,
)  # fmt: skip
def test_a_node_that_is_no_token_is_none(changed: dict[str, Any]) -> None:
    with pytest.raises(BadPayload):
        token_store.decode_token(PATH, json.dumps({**AS_KAFKA, **changed}).encode())
    for value in (b"", b"[]", b"\xff", b"null"):
        with pytest.raises(BadPayload):
            token_store.decode_token(PATH, value)


@pytest.mark.parametrize("value", [b"", b"a/b", b"..", b"\xff", b"a" * 101, b"a b"])
def test_a_notice_of_nothing_is_none(value: bytes) -> None:
    assert token_store.decode_notice(value) is None
    assert token_store.decode_notice(b"AZ-_09") == "AZ-_09"


def test_what_one_broker_changes_the_other_takes_up() -> None:
    async def story(cluster: SimCluster) -> None:
        one, two = cluster.brokers[0], cluster.brokers[1]
        made = await settings_of(one).create(ALICE, ALICE, (BOB,), -1)
        assert held(one) == [made]
        await until(lambda: held(two) == [made])
        hmac = settings_of(one).tokens.hmac(made.token_id)
        assert settings_of(two).tokens.of_hmac(hmac) == made
        later = await settings_of(two).renew(BOB, hmac, 60_000)
        assert later.expires_ms < made.expires_ms
        await until(lambda: held(one) == [later])
        node = cluster.ensemble.tree.get(token_store.path_of(made.token_id))
        assert b"planted" not in node.value
        assert hmac not in node.value
        await settings_of(one).expire(ALICE, hmac, -1)
        assert held(one) == []
        await until(lambda: held(two) == [])
        with pytest.raises(ApiError) as refused:
            await settings_of(two).renew(ALICE, hmac, 5)
        assert refused.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    play(story)


def test_a_broker_that_starts_knows_the_tokens_and_one_that_heard_nothing_asks_the_store() -> None:
    async def story(cluster: SimCluster) -> None:
        one = cluster.brokers[0]
        await cluster.stop(1)
        made = await settings_of(one).create(ALICE, ALICE, (), -1)
        await cluster.start(1)
        two = cluster.brokers[1]
        assert held(two) == [made]
        hmac = settings_of(one).tokens.hmac(made.token_id)
        settings_of(two).tokens.put(made)
        await settings_of(one).expire(ALICE, hmac, -1)
        settings_of(two).tokens.put(made)  # as if the notice were still on its way
        with pytest.raises(ApiError) as refused:
            await settings_of(two).expire(ALICE, hmac, 5)
        assert refused.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND

    play(story)


def test_a_token_that_holds_no_more_is_removed_in_time_and_no_other() -> None:
    async def story(cluster: SimCluster) -> None:
        one, two = cluster.brokers[0], cluster.brokers[1]
        short = await settings_of(one).create(ALICE, ALICE, (), 3_000)
        long = await settings_of(one).create(ALICE, ALICE, (), 60_000)
        await until(lambda: len(held(two)) == 2)
        await asyncio.sleep(2.5)
        assert held(one) == held(two) == sorted([short, long])
        await asyncio.sleep(2.6)
        assert held(one) == held(two) == [long]
        assert cluster.ensemble.tree.children(token_store.TOKENS) == [long.token_id]
        # The other broker renewed one that this one thinks has expired.
        settings_of(one).tokens.put(long._replace(expires_ms=1))
        await asyncio.sleep(2.5)
        assert held(one) == [long]

    play(story, delegation_token_expiry_check_interval_ms="1000")


def test_there_are_no_more_tokens_than_there_may_be() -> None:
    async def story(cluster: SimCluster) -> None:
        one = cluster.brokers[0]

        async def refused(owner: Principal) -> str:
            with pytest.raises(ApiError) as error:
                await settings_of(one).create(owner, ALICE, (), -1)
            assert error.value.code is ErrorCode.POLICY_VIOLATION
            return error.value.message or ""

        for _ in range(2):
            await settings_of(one).create(ALICE, ALICE, (), -1)
        assert "max.count.per.owner" in await refused(ALICE)
        await settings_of(one).create(BOB, ALICE, (), -1)
        assert "max.count)" in await refused(BOB)
        assert len(held(one)) == 3

    play(story, delegation_token_max_count="3", delegation_token_max_count_per_owner="2")


def test_a_node_that_somebody_broke_lets_nobody_in_and_is_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        one = cluster.brokers[0]
        made = await settings_of(one).create(ALICE, ALICE, (), -1)
        hmac = settings_of(one).tokens.hmac(made.token_id)
        path = token_store.path_of(made.token_id)
        await cluster.ensemble.session("somebody").set(path, b"broken")
        with pytest.raises(ApiError) as refused:
            await settings_of(one).renew(ALICE, hmac, 5)
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        await settings_of(one).load()
        assert held(one) == []
        assert "nobody is let in by it" in caplog.text
        assert cluster.ensemble.tree.get(path).value == b"broken"

    play(story)


def test_without_a_secret_there_are_no_tokens_and_no_nodes() -> None:
    async def story(cluster: SimCluster) -> None:
        one = cluster.brokers[0]
        assert settings_of(one) is None
        assert one.broker.users.delegation_tokens is None
        assert "delegation_token" not in cluster.ensemble.tree.children("/")

    play(story, delegation_token_secret_key="")


def test_the_former_name_of_the_secret_is_taken() -> None:
    async def story(cluster: SimCluster) -> None:
        one = cluster.brokers[0]
        assert len(settings_of(one).tokens.hmac("x")) == 64

    play(story, delegation_token_secret_key="", delegation_token_master_key="planted-4711")
