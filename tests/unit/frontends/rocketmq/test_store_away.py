"""The metadata store is away at a step of an administrative change: an error, no half change.

Each call that a change makes to the store fails once, before it is done or with its answer lost.
The change is then answered with an error; the settings in force are the former ones or the new
ones, also after a restart; the same change asked again succeeds.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from headrace.ports.store import SessionLost, StoreError
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.fastjson import decode_body
from tests.support.rocketmq.simulated import Remoting, SimRemotingClient, remoting

STEPS_MAX = 20


class FailingStore:
    """The store of a broker's own settings; one of its calls fails."""

    def __init__(self, store: Any, at: int, *, done: bool) -> None:
        """`at`: which call fails, from 0; `done`: it was done, and its answer is lost."""
        self._store = store
        self._left = at
        self._done = done

    @property
    def has_failed(self) -> bool:
        """Whether the call was made."""
        return self._left < 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        async def call(*args: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left != -1:
                return await found(*args, **more)
            if self._done:
                with suppress(StoreError):
                    await found(*args, **more)
            raise SessionLost("away")

        return call


class Change(NamedTuple):
    """An administrative change."""

    code: int
    fields: dict[str, object]
    body: bytes
    state: Callable[[SimRemotingClient], Coroutine[Any, Any, object]]
    """Reads the settings in force."""
    before: object
    after: object
    first: tuple[int, dict[str, object], bytes] | None = None
    """A request that is made before."""


async def queues(client: SimRemotingClient) -> object:
    """Return the numbers of read and write queues of topic t."""
    answer = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"})
    body = decode_body(answer.body) if answer.code == ResponseCode.SUCCESS else None
    if not isinstance(body, dict):
        return None
    listed = body["queueDatas"]
    assert isinstance(listed, list)
    (queue,) = listed
    assert isinstance(queue, dict)
    return queue["readQueueNums"], queue["writeQueueNums"]


async def may_pull(client: SimRemotingClient) -> object:
    """Return whether the group may pull."""
    answer = await client.pull("t", 0, consumerGroup="CG")
    return answer.code != ResponseCode.NO_PERMISSION


async def value(client: SimRemotingClient) -> object:
    """Return the stored value of the name server."""
    answer = await client.call(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
    return (answer.fields or {}).get("value")


def sized(read: int, write: int) -> tuple[int, dict[str, object], bytes]:
    """Return a request that sets the numbers of queues."""
    named: dict[str, object] = {
        "topic": "t", "readQueueNums": read, "writeQueueNums": write, "perm": 6
    }  # fmt: skip
    return RequestCode.UPDATE_AND_CREATE_TOPIC, named, b""


def switched(on: bool) -> tuple[int, dict[str, object], bytes]:
    """Return a request that switches a group."""
    body = json.dumps({"groupName": "CG", "consumeEnable": on}).encode()
    return RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body


KEY: dict[str, object] = {"namespace": "n", "key": "k"}
PUT = (RequestCode.PUT_KV_CONFIG, KEY | {"value": "1"}, b"")
CHANGES = {
    "topic shrinks": Change(*sized(4, 2), queues, (4, 4), (4, 2), sized(4, 4)),
    "group switched off": Change(*switched(False), may_pull, True, False),
    "group switched on": Change(*switched(True), may_pull, False, True, switched(False)),
    "group deleted": Change(
        RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "CG"}, b"", may_pull, False, True,
        switched(False),
    ),
    "value stored": Change(*PUT, value, None, "1"),
    "value deleted": Change(RequestCode.DELETE_KV_CONFIG, KEY, b"", value, "1", None, PUT),
}  # fmt: skip


async def fail_once(room: Remoting, change: Change, at: int, *, done: bool) -> bool:
    """Make a change while one call of the store fails; return whether there was such a call."""
    client = await room.client()
    if change.first is not None:
        answer = await client.call(*change.first)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert await change.state(client) == change.before
    configs = room.served.configs
    kinds = (configs.groups, configs.topics, configs.values)
    store = FailingStore(configs.groups._store, at, done=done)
    whole = configs.groups._store
    for kind in kinds:
        kind._store = store
    answer = await client.call(change.code, change.fields, change.body)
    for kind in kinds:
        kind._store = whole
    if not store.has_failed:
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert await change.state(client) == change.after
        return False
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert await change.state(client) == change.before, "what failed is not in force"
    await room.kill()
    client = await room.client()
    await asyncio.sleep(1)
    assert await change.state(client) in (
        {change.before, change.after} if done else {change.before}
    )
    answer = await client.call(change.code, change.fields, change.body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert await change.state(client) == change.after
    return True


@pytest.mark.parametrize("done", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_without_its_store_is_an_error_and_can_be_repeated(name: str, done: bool) -> None:
    failed = 0
    for at in range(STEPS_MAX):
        found: list[bool] = []

        async def story(room: Remoting, at: int = at, found: list[bool] = found) -> None:
            client = await room.client()
            await client.call(*sized(4, 4))
            client.close()
            found.append(await fail_once(room, CHANGES[name], at, done=done))

        remoting(story)
        if not found[0]:
            break
        failed += 1
    assert 1 <= failed < STEPS_MAX


@pytest.mark.parametrize("done", [False, True], ids=["refused", "answer lost"])
def test_partition_numbers_are_given_once_although_the_store_fails(done: bool) -> None:
    """Each call of the assignment fails in turn; messages get ids, and no number is given twice."""

    async def story(room: Remoting) -> None:
        client = await room.client()
        numbers = room.served.numbers
        whole = numbers._store
        given: list[int] = []
        for at in range(STEPS_MAX):
            topic = f"t{at}"
            await client.call(
                RequestCode.UPDATE_AND_CREATE_TOPIC,
                {"topic": topic, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6},
            )
            store = FailingStore(whole, at, done=done)
            numbers._store = store
            answer = await client.send(topic, b"x")
            numbers._store = whole
            if store.has_failed:
                assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert (await client.send(topic, b"y")).code == ResponseCode.SUCCESS
            info = room.served.broker.image.topics[topic]
            given += numbers.known(info) or ()
            if not store.has_failed:
                break
        assert len(set(given)) == len(given) > 2 * 4
        await room.kill()
        again = [
            number
            for at in range(len(given) // 2)
            for number in await room.served.numbers.assigned(
                room.served.broker.image.topics[f"t{at}"]
            )
        ]
        assert again == given

    remoting(story)
