"""Steps that fail midway or come twice at once: nothing is left half done, and a repeat works."""

import asyncio
import base64
import json
from typing import Any

import pytest

from headrace.frontends.rocketmq.administration.settings_imports import ImportTopics, import_topics
from headrace.frontends.rocketmq.held.held_imports import ImportHeld, import_held
from headrace.frontends.rocketmq.held.held_topics import OpenedOnce
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.store import SessionLost
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.stored_messages import PulledMessage, encode_message
from tests.support.rocketmq.simulated import Remoting, place_in, remoting

REFUSED = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)


class Opens:
    """Opens a value after some failures."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.begun = 0

    async def __call__(self) -> str:
        self.begun += 1
        await asyncio.sleep(0)
        if self.begun <= self.failures:
            raise REFUSED
        return "opened"


def test_a_value_that_cannot_be_opened_is_opened_by_a_later_use() -> None:
    async def story() -> None:
        opens = Opens(failures=1)
        once = OpenedOnce(opens)
        failed = await asyncio.gather(once.get(), once.get(), return_exceptions=True)
        assert [*failed] == [REFUSED, REFUSED]
        assert opens.begun == 1, "one attempt serves all that wait for it"
        assert await once.get() == await once.get() == "opened"
        assert opens.begun == 2

    asyncio.run(story())


def test_a_use_that_ends_early_leaves_the_attempt_to_the_others() -> None:
    async def story() -> None:
        once = OpenedOnce(Opens())
        first, second = (asyncio.ensure_future(once.get()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == "opened"
        assert first.cancelled()

    asyncio.run(story())


def test_held_messages_that_cannot_be_opened_at_the_start_are_opened_later() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        assert (await client.send("t", b"late", i="DELAY\x011\x02")).code == ResponseCode.SUCCESS
        held = room.served.held
        held.close()
        opens, failures = held._open_delays, [REFUSED, REFUSED]

        async def failing() -> Any:
            if failures:
                raise failures.pop()
            return await opens()

        held.delays = OpenedOnce(failing)
        held.start()
        await asyncio.sleep(9)
        assert held.delays.value is None
        await asyncio.sleep(2)
        assert await client.bodies("t") == ["late"]

    remoting(story)


def test_a_topic_is_created_by_a_send_although_its_settings_cannot_be_stored() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        topics = room.served.configs.topics
        set_, create = topics._store.set, topics._store.create

        async def away(*_: object, **__: object) -> None:
            raise SessionLost("away")

        store: Any = topics._store
        real_put = topics._put

        async def put(key: str, config: object) -> None:
            store.set = store.create = away
            try:
                await real_put(key, config)  # type: ignore[arg-type]
            finally:
                store.set, store.create = set_, create

        topics._put = put  # type: ignore[method-assign]
        assert (await client.send("t", b"a")).code == ResponseCode.SUCCESS
        assert await client.bodies("t") == ["a"]

    remoting(story)


def test_topics_that_two_imports_create_at_once_are_created_once() -> None:
    async def story(room: Remoting) -> None:
        rows = {
            name: {"readQueueNums": 2, "writeQueueNums": 2, "perm": 6} for name in ("a", "b", "c")
        }
        asked = ImportTopics(json.dumps({"topicConfigTable": rows}))
        await asyncio.gather(*(import_topics(room.served, asked) for _ in range(3)))
        names = room.served.topic_names()
        assert [len(names[name].partitions) for name in rows] == [2, 2, 2]

    remoting(story)


@pytest.mark.parametrize("at", [0, 1])
def test_a_clone_whose_offsets_are_not_all_stored_is_an_error(at: int) -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        named = {"topic": "t", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
        await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, named)
        await client.heartbeat("m", "from", {"t": "*"})
        for queue in range(2):
            stores = {"consumerGroup": "from", "topic": "t", "queueId": queue, "commitOffset": 1}
            await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, stores)
        offsets: Any = room.served.offsets
        store, calls = offsets.store, []

        def failing(*given: Any) -> None:
            calls.append(given)
            if len(calls) == at + 1:
                given[-1](ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                store(*given)

        offsets.store = failing
        asked = {"srcGroup": "from", "destGroup": "to", "topic": "t"}
        clone = RequestCode.CLONE_GROUP_OFFSET
        answer = await client.call(clone, asked)
        assert answer.code != ResponseCode.SUCCESS
        assert "repeat the request" in (answer.remark or "")
        assert (await client.call(clone, asked)).code == ResponseCode.SUCCESS
        assert await client.committed("to", "t") == 1

    remoting(story)


@pytest.mark.parametrize("times", ["5000000000000,5000000000000", ""])
def test_an_import_of_held_messages_that_are_not_all_stored_is_an_error(times: str) -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        await client.send("t", b"a")
        message = PulledMessage(
            b"t", 0, 0, 0, b"held", b"UNIQ_KEY\x01u\x02", 1, bytes(8), 1, bytes(8), 0, 0, 0, 0
        )
        messages = base64.b64encode(encode_message(message) * 2).decode()
        held: Any = room.served.held
        hold, calls = held._hold, []

        def failing(topic: Any, waiting: Any, time_ms: int, done: Any, appended: Any) -> None:
            calls.append(waiting)
            if len(calls) == 2:
                done(REFUSED)
            else:
                hold(topic, waiting, time_ms, done, appended)

        held._hold = failing
        with pytest.raises(ApiError) as refused:
            await import_held(room.served, ImportHeld(messages, times))
        assert refused.value is REFUSED
        assert (await import_held(room.served, ImportHeld(messages, times))).messages == 2

    remoting(story)


def test_a_pull_that_fails_or_ends_is_parked_no_longer() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        await client.send("t", b"a")
        await client.heartbeat("m", "CG", {"t": "*"})
        parked = {"sysFlag": 6, "suspendTimeoutMillis": 2000, "consumerGroup": "CG"}
        waits = [client.ask_pull(topic, 1, **parked) for topic in ("t", "%RETRY%CG")]
        await asyncio.sleep(0.5)
        assert len(room.served.parked) == 2
        for wait in waits:
            assert (await wait).code == ResponseCode.PULL_NOT_FOUND
        assert len(room.served.parked) == 0
        waits = [client.ask_pull(topic, 1, **parked) for topic in ("t", "t", "%RETRY%CG")]
        await asyncio.sleep(0.5)
        body = json.dumps({"groupName": "CG", "consumeEnable": False}).encode()
        await client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
        for wait in waits:
            assert (await wait).code == ResponseCode.NO_PERMISSION
        assert len(room.served.parked) == 0

    remoting(story)


def test_a_pull_offset_that_waits_is_not_stored_for_the_next_topic_of_the_name() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        place = place_in(await client.send("t", b"a"))
        assert place is not None
        await client.pull("t", 1, consumerGroup="CG", sysFlag=5, commitOffset=1)
        deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        assert deleted.code == ResponseCode.SUCCESS
        await client.send("t", b"b")
        await asyncio.sleep(1)
        assert await client.committed("CG", "t") is None

    remoting(story)
