"""ACLs in the store: Kafka's znodes, changed by several brokers, heard of by all."""

import asyncio
import json
import logging

import pytest

from headrace.cluster.store import acl_znodes
from headrace.cluster.store.acl_store import ENTRIES_MAX
from headrace.cluster.store.notices import NOTICE_SECONDS
from headrace.cluster.store.znodes import BadPayload
from headrace.model.errors import ApiError, ErrorCode
from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.security.authorizer import Operation, PatternType, Resource, ResourceType
from headrace.server.assembly import Server
from headrace.testing.sim.cluster import SimCluster
from tests.support.sim import cluster as sim_cluster
from tests.support.sim.cluster import Story, until

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TOPIC, PREFIXED = ResourceType.TOPIC, PatternType.PREFIXED
READ_T = Resource(TOPIC, "t")
TX = Resource(ResourceType.TRANSACTIONAL_ID, "x", PREFIXED)
ALICE = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
BOB = AclEntry("User:b\u00f6b", "10.0.0.1", Operation.DESCRIBE_CONFIGS, Permission.DENY)


def play(story: Story, seed: int = 1) -> None:
    """Run `story` with brokers 0 and 1."""
    sim_cluster.play(story, 0, 1, seed=seed, settings=SETTINGS)


def held(server: Server) -> list[AclBinding]:
    return server.controller.settings.acls.matching(AclFilter())


async def add(server: Server, *bindings: AclBinding) -> None:
    assert await server.controller.settings.acls.add(bindings) == [None] * len(bindings)


def test_what_is_written_is_what_kafka_writes() -> None:
    async def story(cluster: SimCluster) -> None:
        tree = cluster.ensemble.tree
        await add(cluster.brokers[0], AclBinding(READ_T, ALICE), AclBinding(TX, BOB))
        assert json.loads(tree.get("/kafka-acl/Topic/t").value) == {
            "version": 1,
            "acls": [{"principal": "User:alice", "permissionType": "Allow", "operation": "Read",
                      "host": "*"}],
        }  # fmt: skip
        assert json.loads(tree.get("/kafka-acl-extended/prefixed/TransactionalId/x").value) == {
            "version": 1,
            "acls": [{"principal": "User:b\u00f6b", "permissionType": "Deny",
                      "operation": "DescribeConfigs", "host": "10.0.0.1"}],
        }  # fmt: skip
        notices = "/kafka-acl-changes"
        assert tree.children(notices) == ["acl_changes_0000000000"]
        assert tree.get(f"{notices}/acl_changes_0000000000").value == b"Topic:t"
        notices = "/kafka-acl-extended-changes"
        assert json.loads(tree.get(f"{notices}/acl_changes_0000000000").value) == {
            "version": 1, "resourceType": "TRANSACTIONAL_ID", "name": "x",
            "patternType": "PREFIXED",
        }  # fmt: skip
        for root in ("/kafka-acl", "/kafka-acl-extended/prefixed"):
            assert set(tree.children(root)) == {
                "Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User",
            }  # fmt: skip

    play(story)


def test_acls_changed_on_one_broker_hold_on_every_other() -> None:
    async def story(cluster: SimCluster) -> None:
        first, second = cluster.brokers[0], cluster.brokers[1]
        both = [AclBinding(READ_T, ALICE), AclBinding(TX, BOB)]
        await add(first, *both)
        assert sorted(held(first)) == sorted(both)
        await until(lambda: sorted(held(second)) == sorted(both))
        (removed,) = await second.controller.settings.acls.remove([AclFilter(TOPIC)])
        assert removed == both[:1]
        await until(lambda: held(first) == both[1:])
        assert cluster.ensemble.tree.children("/kafka-acl/Topic") == [], "no node without entries"

    play(story)


@pytest.mark.parametrize("seed", range(6))
def test_of_two_acls_added_on_two_brokers_at_once_neither_is_lost(seed: int) -> None:
    async def story(cluster: SimCluster) -> None:
        entries = [ALICE._replace(principal=f"User:{number}") for number in range(6)]
        await asyncio.gather(
            *(
                add(cluster.brokers[number % 2], AclBinding(READ_T, entry))
                for number, entry in enumerate(entries)
            )
        )
        for server in cluster.brokers.values():
            await until(lambda server=server: len(held(server)) == len(entries))  # type: ignore[misc]

    play(story, seed)


def test_a_broker_has_the_acls_when_it_listens_and_all_again_after_a_lost_session() -> None:
    async def story(cluster: SimCluster) -> None:
        await add(cluster.brokers[0], AclBinding(READ_T, ALICE))
        await cluster.stop(1)
        await add(cluster.brokers[0], AclBinding(TX, BOB))
        server = await cluster.start(1)
        assert len(held(server)) == 2
        await asyncio.sleep(1)  # the notices of both rules are read once more
        store = cluster.ensemble.session("somebody")
        await store.delete("/kafka-acl/Topic/t")  # told to nobody
        await asyncio.sleep(1)
        assert len(held(server)) == 2
        cluster.ensemble.expire(cluster.worlds[1]._sessions[-1])
        await until(lambda: held(server) == [AclBinding(TX, BOB)])

    play(story)


def test_a_node_that_is_no_list_says_nothing_and_is_left_as_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: SimCluster) -> None:
        first = cluster.brokers[0]
        store = cluster.ensemble.session("an old tool")
        await store.create("/kafka-acl/Topic/bad", b'{"version":1,"acls":[{"host":"*"}]}')
        await add(first, AclBinding(READ_T, ALICE))
        await cluster.stop(1)
        caplog.clear()
        server = await cluster.start(1)
        assert held(server) == [AclBinding(READ_T, ALICE)]
        assert caplog.text.count("/kafka-acl/Topic/bad") >= 1
        acls = server.controller.settings.acls
        bad = Resource(TOPIC, "bad")
        (refused,) = await acls.add([AclBinding(bad, ALICE)])
        assert refused is not None
        assert refused.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert "/kafka-acl/Topic/bad" in str(refused)
        (refused_,) = await acls.remove([AclFilter(TOPIC, "bad", PatternType.LITERAL)])
        assert isinstance(refused_, ApiError)
        node = cluster.ensemble.tree.get("/kafka-acl/Topic/bad")
        assert node.version == 0
        notices = "/kafka-acl-changes/acl_changes_"
        for told in (b"\xff", b"Nothing:t", b"Topic:", b"", b"Topic:late"):
            await store.create(notices, told, sequential=True)
        for told in (b"{", b'{"version":1,"resourceType":"ANY","name":"t","patternType":"MATCH"}'):
            path = "/kafka-acl-extended-changes/acl_changes_"
            await store.create(path, told, sequential=True)
        await store.create("/kafka-acl/Topic/late2", acl_znodes.encode_acls([BOB]))
        await store.create(notices, b"Topic:late2", sequential=True)
        await until(lambda: len(held(server)) == 2)

    with caplog.at_level(logging.ERROR):
        play(story)


def test_notices_of_acls_go_like_those_of_settings() -> None:
    async def story(cluster: SimCluster) -> None:
        for number in range(2):
            entry = ALICE._replace(principal=f"User:{number}")
            await add(cluster.brokers[0], AclBinding(READ_T, entry))
            await asyncio.sleep(NOTICE_SECONDS + 10)
        await add(cluster.brokers[0], AclBinding(READ_T, ALICE))
        await asyncio.sleep(1)
        names = cluster.ensemble.tree.children("/kafka-acl-changes")
        assert names == ["acl_changes_0000000002"]

    play(story)


def test_one_pattern_has_a_bounded_number_of_entries() -> None:
    async def story(cluster: SimCluster) -> None:
        server = cluster.brokers[0]
        many = [
            AclBinding(READ_T, ALICE._replace(principal=f"User:{number}"))
            for number in range(ENTRIES_MAX)
        ]
        await add(server, *many)
        (refused,) = await server.controller.settings.acls.add([AclBinding(READ_T, ALICE)])
        assert refused is not None
        assert refused.code is ErrorCode.INVALID_REQUEST
        assert len(held(server)) == ENTRIES_MAX
        assert await server.controller.settings.acls.add(many[:1]) == [None]

    play(story)


@pytest.mark.parametrize(
    "value",
    [b"{", b"[]", b'{"version":2,"acls":[]}', b'{"version":1}',
     b'{"version":1,"acls":[{"principal":"alice","permissionType":"Allow","operation":"Read",'
     b'"host":"*"}]}',
     b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Any","operation":"Read",'
     b'"host":"*"}]}',
     b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Any",'
     b'"host":"*"}]}'],
)  # fmt: skip
def test_no_list_of_acls_is_taken_for_one(value: bytes) -> None:
    with pytest.raises(BadPayload, match="/kafka-acl/Topic/t"):
        acl_znodes.decode_acls("/kafka-acl/Topic/t", value)


def test_every_entry_and_pattern_comes_back_as_it_was_written() -> None:
    entries = frozenset(
        AclEntry("User:a", "*", operation, permission)
        for operation in acl_znodes.OPERATIONS.values()
        for permission in acl_znodes.PERMISSIONS.values()
    )
    assert acl_znodes.decode_acls("/p", acl_znodes.encode_acls(entries)) == entries
    assert acl_znodes.decode_acls("/p", b"") == frozenset()
    for kind in acl_znodes.KINDS.values():
        literal, prefixed = Resource(kind, "a:b"), Resource(kind, "a", PREFIXED)
        assert acl_znodes.decode_literal_change(acl_znodes.encode_change(literal)) == literal
        assert acl_znodes.decode_prefixed_change(acl_znodes.encode_change(prefixed)) == prefixed
