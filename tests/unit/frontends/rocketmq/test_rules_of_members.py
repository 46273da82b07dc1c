"""Rules of groups' members on a simulated broker: one list, locks, subscriptions that differ."""

import asyncio
import logging

import pytest

from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.fastjson import FastJson, decode_body, encode_body
from tests.support.rocketmq.client import messages_in
from tests.support.rocketmq.simulated import Remoting, SimRemotingClient, remoting

REBALANCE_SECONDS = 20
QUEUES = 4


async def listed(client: SimRemotingClient) -> list[str]:
    """Return the members of the group as a client sees them."""
    answer = await client.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "CG"})
    body = decode_body(answer.body) if answer.code == ResponseCode.SUCCESS else {}
    assert isinstance(body, dict)
    ids = body.get("consumerIdList", [])
    assert isinstance(ids, list)
    return [str(each) for each in ids]


async def locked(
    client: SimRemotingClient, client_id: str, queues: set[int], code: int = 41
) -> set[int]:
    """Lock queues (41), or unlock them (42); return those that the client has."""
    asked: list[FastJson] = [
        {"topic": "t", "brokerName": "headrace-0", "queueId": queue} for queue in sorted(queues)
    ]
    body = encode_body({"consumerGroup": "CG", "clientId": client_id, "mqSet": asked})
    answer = await client.call(code, {}, body)
    assert answer.code == ResponseCode.SUCCESS
    found = decode_body(answer.body) if answer.body else {}
    assert isinstance(found, dict)
    held = found.get("lockOKMQSet", [])
    assert isinstance(held, list)
    return {int(str(queue["queueId"])) for queue in held if isinstance(queue, dict)}


def told_of_change(client: SimRemotingClient) -> int:
    """Return how often a client was told that the members changed, and forget it."""
    notified, client.notified = client.notified, []
    return sum(each.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED for each in notified)


# Rule 7


def test_members_share_queues_alike_and_no_queue_has_two_owners() -> None:
    """Each member rebalances every 20 s, as clients do; members join, leave and crash."""

    async def story(room: Remoting) -> None:
        held: dict[str, set[int]] = {}
        live: dict[str, SimRemotingClient] = {}
        ended: set[str] = set()

        async def member(name: str, after: float) -> None:
            await asyncio.sleep(after)
            client = live[name] = await room.client(name)
            await client.heartbeat(name, "CG", {"t": "*"})
            held[name] = set()
            while name not in ended:
                ids = await listed(client)
                assert ids == sorted(ids)
                share = {q for q in range(QUEUES) if ids[q % len(ids)] == name}
                left = held[name] - share
                if left:
                    await locked(client, name, left, 42)
                    held[name] -= left
                held[name] = await locked(client, name, share) if share else set()
                owners = [queue for queues in held.values() for queue in queues]
                assert len(owners) == len(set(owners)), held
                await client.heartbeat(name, "CG", {"t": "*"})
                await asyncio.sleep(REBALANCE_SECONDS)

        tasks = [
            asyncio.ensure_future(member(name, after))
            for name, after in (("b", 0), ("a", 3), ("c", 50))
        ]
        await asyncio.sleep(120)
        assert sorted(map(len, held.values())) == [1, 1, 2]
        # One leaves as it should: its queues have another owner with the next rebalance.
        ended.add("b")
        await locked(live["b"], "b", held.pop("b"), 42)
        gone = {"clientID": "b", "consumerGroup": "CG"}
        await live["b"].call(RequestCode.UNREGISTER_CLIENT, gone)
        await asyncio.sleep(2 * REBALANCE_SECONDS)
        assert sorted(map(len, held.values())) == [2, 2]
        # One crashes with its locks: they end 60 s after it has taken them.
        ended.add("a")
        crashed = held.pop("a")
        live["a"].close()
        await asyncio.sleep(1)
        watcher = await room.client("watcher")
        assert await listed(watcher) == ["c"]
        assert await locked(watcher, "w", crashed) == set()
        await asyncio.sleep(60 + 2 * REBALANCE_SECONDS)
        assert held == {"c": set(range(QUEUES))}
        ended.add("c")
        await asyncio.gather(*tasks)

    remoting(story)


def test_a_lock_ends_with_its_owner_or_60_seconds_after_its_renewal() -> None:
    async def story(room: Remoting) -> None:
        one, two = await room.client("one"), await room.client("two")
        assert await locked(one, "one", {0, 1}) == {0, 1}
        assert await locked(two, "two", {0, 1, 2}) == {2}
        await locked(two, "two", {0}, 42)
        assert await locked(two, "two", {0}) == set(), "another's lock is not released"
        await locked(one, "one", {0}, 42)
        assert await locked(two, "two", {0, 1}) == {0}
        for _ in range(4):  # renewed every 20 s
            await asyncio.sleep(REBALANCE_SECONDS)
            assert await locked(one, "one", {1}) == {1}
        await asyncio.sleep(59)
        assert await locked(two, "two", {1}) == set()
        await asyncio.sleep(1.1)
        assert await locked(two, "two", {1}) == {1}
        room.jump(-3_600_000)
        await asyncio.sleep(REBALANCE_SECONDS)
        assert await locked(one, "one", {1}) == set(), "a clock that is set back moves no lock"

    remoting(story)


def test_all_members_are_told_of_each_change_at_once() -> None:
    async def story(room: Remoting) -> None:
        clients = {name: await room.client(name) for name in "abc"}
        for name, client in clients.items():
            await client.heartbeat(name, "CG", {"t": "*"})
        await asyncio.sleep(0.05)
        assert [told_of_change(client) for client in clients.values()] == [3, 2, 1]
        clients.pop("c").close()
        await asyncio.sleep(0.05)
        assert [told_of_change(client) for client in clients.values()] == [1, 1]
        # One without heartbeats, whose connection stays, leaves after 120 s.
        for _ in range(13):
            await asyncio.sleep(10)
            await clients["a"].heartbeat("a", "CG", {"t": "*"})
        assert await listed(clients["a"]) == ["a"]
        assert told_of_change(clients["a"]) == 1

    remoting(story)


# Rule 18


def test_members_that_subscribe_differently_are_named_and_keep_their_offsets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(room: Remoting) -> None:
        older, newer = await room.client("older"), await room.client("newer")
        for tag in "ABA":
            await older.send("t", tag.encode(), i=f"TAGS\x01{tag}\x02")
        await older.committed("CG", "t")
        await older.heartbeat("older@1", "CG", {"t": "A"}, 1)
        assert caplog.messages == []
        await newer.heartbeat("newer@2", "CG", {"t": "B"}, 2)
        (warning,) = caplog.messages
        for part in ("'CG'", "'older@1'", "'newer@2'", "TAG 'A'", "TAG 'B'"):
            assert part in warning
        await older.heartbeat("older@1", "CG", {"t": "A"}, 1)
        assert len(caplog.messages) == 1, "once, not with each heartbeat"
        await older.commit("CG", "t", 1)
        await newer.commit("CG", "t", 2)
        assert await older.committed("CG", "t") == 2
        pulled = await newer.pull("t", 0, consumerGroup="CG", sysFlag=0, subVersion=2)
        assert [message.body for message in messages_in(pulled)] == [b"B"]
        # The broker has the newest subscription; a still newer pull is behind its heartbeat.
        sql = {"sysFlag": 0, "expressionType": "SQL92", "subVersion": 3}
        late = await newer.pull("t", 0, consumerGroup="CG", **sql)
        assert late.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        assert await older.committed("CG", "t") == 2

    with caplog.at_level(logging.WARNING, "headrace.subscriptions"):
        remoting(story)


def test_members_that_subscribe_alike_cause_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def story(room: Remoting) -> None:
        for name, version in (("a", 1), ("b", 9)):
            client = await room.client(name)
            await client.heartbeat(name, "CG", {"t": "A", "u": "*"}, version)
        other = await room.client("other")
        await other.heartbeat("c", "another", {"t": "B"})

    with caplog.at_level(logging.WARNING, "headrace.subscriptions"):
        remoting(story)
    assert caplog.messages == []
