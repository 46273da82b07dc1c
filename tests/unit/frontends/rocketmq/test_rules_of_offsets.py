"""Rules of offsets and queues on a simulated broker: stores, resets, groups off, new queues."""

import asyncio
import json
import random

import pytest

from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.message_ids import place_of
from tests.support.rocketmq.client import messages_in
from tests.support.rocketmq.simulated import Remoting, SimRemotingClient, place_in, remoting

PARKED = {"sysFlag": 6, "suspendTimeoutMillis": 20_000}
IGNORED = "Offset has been previously reset"
SEEDS = range(1, 9)


async def filled(room: Remoting, messages: int = 6) -> SimRemotingClient:
    """Return a client, and a topic with messages whose group's offsets are loaded."""
    client = await room.client()
    for number in range(messages):
        await client.send("t", b"%d" % number)
    await client.committed("CG", "t")
    return client


async def switched(client: SimRemotingClient, on: bool) -> None:
    """Switch a group's consumption off or on."""
    body = json.dumps({"groupName": "CG", "consumeEnable": on}).encode()
    answer = await client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
    assert answer.code == ResponseCode.SUCCESS


# Rule 3


@pytest.mark.parametrize("seed", SEEDS)
def test_no_offset_is_older_after_a_power_cut_than_the_last_one_answered(seed: int) -> None:
    async def story(room: Remoting) -> None:
        client = await filled(room)
        chance = random.Random(seed)
        answered = -1
        for _ in range(4):
            for offset in [chance.randrange(6) for _ in range(5)]:
                assert (await client.commit("CG", "t", offset)).code == ResponseCode.SUCCESS
                answered = offset
            await room.cut_power()
            client = await room.client()
            assert await client.committed("CG", "t") == answered

    remoting(story, seed=seed)


def test_offsets_of_a_deleted_topic_are_not_those_of_the_next_one() -> None:
    async def story(room: Remoting) -> None:
        client = await filled(room)
        await client.commit("CG", "t", 5)
        late = [
            client.ask(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {"consumerGroup": "CG", "topic": "t", "queueId": 0, "commitOffset": 4},
            )
            for _ in range(3)
        ]
        deleted = client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        await asyncio.gather(deleted, *late)
        assert (await deleted).code == ResponseCode.SUCCESS
        assert (await client.send("t", b"of the next")).code == ResponseCode.SUCCESS
        assert await client.committed("CG", "t") is None
        (message,) = await client.pulled("t", "CG")
        assert message.body == b"of the next"
        await room.kill()
        client = await room.client()
        assert await client.committed("CG", "t") is None

    for seed in SEEDS:
        remoting(story, seed=seed)


def test_ids_of_a_deleted_topic_name_nothing_of_the_next_one() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        place = place_in(await client.send("t", b"of the first"))

        async def viewed() -> int:
            return (await client.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": place})).code

        assert await viewed() == ResponseCode.SUCCESS
        deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        assert deleted.code == ResponseCode.SUCCESS
        again = place_in(await client.send("t", b"of the second"))
        for _ in range(2):
            assert place_of(again).partition_number != place_of(place).partition_number
            assert await viewed() == ResponseCode.SYSTEM_ERROR
            refused = await client.send_back(place, "CG", -1)
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert await client.bodies("t") == ["of the second"]
            await room.kill()
            client = await room.client()
        assert (await client.send_back(again, "CG", -1)).code == ResponseCode.SUCCESS
        assert await client.bodies("%DLQ%CG") == ["of the second"]

    remoting(story)


def test_settings_of_a_deleted_topic_end_with_it() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        for topic in ("t", "kept"):
            named = {"topic": topic, "readQueueNums": 4, "writeQueueNums": 2, "perm": 6}
            answer = await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, named)
            assert answer.code == ResponseCode.SUCCESS
        await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        await asyncio.sleep(1)
        kept = room.served.broker.image.topics["kept"].topic_id.hex()
        assert list(room.served.configs.topics) == [kept]
        await room.kill()
        assert list(room.served.configs.topics) == [kept]

    remoting(story)


# Rule 4


@pytest.mark.parametrize("seed", SEEDS)
def test_a_commit_that_races_a_reset_does_not_undo_it(seed: int) -> None:
    async def story(room: Remoting) -> None:
        client, operator = await filled(room), await room.client("operator")
        await client.commit("CG", "t", 5)
        parked = client.ask_pull("t", 6, consumerGroup="CG", **PARKED)
        await asyncio.sleep(0.01)
        racing = [asyncio.ensure_future(client.commit("CG", "t", 6)) for _ in range(3)]
        reset = await operator.reset("CG", "t", 2)
        assert reset.code == ResponseCode.SUCCESS
        racing += [asyncio.ensure_future(client.commit("CG", "t", 6)) for _ in range(3)]
        moved = await parked
        assert (moved.remark, (moved.fields or {})["nextBeginOffset"]) == ("OFFSET_RESET", "2")
        for answer in await asyncio.gather(*racing[:3]):
            assert answer.code == ResponseCode.SUCCESS
        after = [answer.remark for answer in await asyncio.gather(*racing[3:])]
        stored = await operator.committed("CG", "t")
        assert stored == (2 if set(after) == {IGNORED} else 6), "6 came behind the pull"

    remoting(story, seed=seed)


def test_of_resets_in_a_row_each_later_one_wins_and_is_told_once() -> None:
    async def story(room: Remoting) -> None:
        client = await filled(room)
        for targets in ((1, 4), (4, 1), (3, 3), (0, 5, 2)):
            for target in targets:
                assert (await client.reset("CG", "t", target)).code == ResponseCode.SUCCESS
                assert (await client.commit("CG", "t", 6)).remark == IGNORED
            await room.kill()
            client = await room.client()
            await client.committed("CG", "t")
            told = [await client.pull("t", 5, consumerGroup="CG") for _ in range(3)]
            assert [answer.remark for answer in told] == ["OFFSET_RESET", "FOUND", "FOUND"]
            assert (told[0].fields or {})["nextBeginOffset"] == str(targets[-1])
            assert await client.committed("CG", "t") == targets[-1]

    remoting(story)


# Rule 5


def test_a_group_switched_off_and_on_consumes_each_message_once() -> None:
    async def story(room: Remoting) -> None:
        client = await filled(room, 3)
        got: list[bytes] = []
        offset = 0

        async def consume() -> ResponseCode:
            nonlocal offset
            answer = await client.pull("t", offset, consumerGroup="CG", maxMsgNums=2, **PARKED)
            found = messages_in(answer) if answer.code == ResponseCode.SUCCESS else []
            got.extend(message.body for message in found)
            offset += len(found)
            if found:
                await client.commit("CG", "t", offset)
            return ResponseCode(answer.code)

        for round_ in range(3):
            while len(got) < 3 + 2 * round_:
                assert await consume() is ResponseCode.SUCCESS
            parked = asyncio.ensure_future(consume())
            await asyncio.sleep(0.05)
            await switched(client, False)
            assert await parked is ResponseCode.NO_PERMISSION
            for number in range(2):
                await client.send("t", b"%d-%d" % (round_, number))
            assert await consume() is ResponseCode.NO_PERMISSION
            assert await client.committed("CG", "t") == offset
            await switched(client, True)
        while len(got) < 9:
            assert await consume() is ResponseCode.SUCCESS
        sent = [message.body for message in await client.pulled("t")]
        assert got == sent
        assert len(set(got)) == 9

    remoting(story)


# Rule 6


@pytest.mark.parametrize("rule", ["5", "4.9", "new-queue"])
def test_a_group_misses_nothing_of_queues_added_while_messages_come(rule: str) -> None:
    async def story(room: Remoting) -> None:
        producer, member = await room.client("producer"), await room.client("member")

        async def size(queues: int) -> None:
            named = {"topic": "t", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
            answer = await member.call(RequestCode.UPDATE_AND_CREATE_TOPIC, named)
            assert answer.code == ResponseCode.SUCCESS, answer.remark

        await size(3)
        await member.heartbeat("m", "CG", {"t": "*"})
        await member.commit("CG", "t", 0)
        sent: list[int] = []

        async def produce() -> None:
            for number in range(300):
                # Before each route that shows them, the new queues have messages.
                answer = await producer.send("t", b"%d" % number, e=-1)
                assert answer.code == ResponseCode.SUCCESS
                sent.append(int((answer.fields or {})["queueId"]))
                await asyncio.sleep(0.01)

        producing = asyncio.ensure_future(produce())
        await asyncio.sleep(1)
        await size(6)
        await asyncio.sleep(1)
        for queue in (3, 4, 5):
            named = {"consumerGroup": "CG", "topic": "t", "queueId": queue}
            answer = await member.call(RequestCode.QUERY_CONSUMER_OFFSET, named)
            assert (answer.code, answer.fields) == (ResponseCode.SUCCESS, {"offset": "0"})
        await producing
        for queue in (3, 4, 5):
            found = messages_in(
                await member.pull("t", 0, consumerGroup="CG", queueId=queue, maxMsgNums=500)
            )
            assert len(found) == sent.count(queue) > 0

    remoting(story, {"rocketmq.zero.offset.rule": rule})


async def sized(client: SimRemotingClient, topic: str, queues: int) -> None:
    """Create a topic, or add queues to it."""
    named = {"topic": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6}
    answer = await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, named)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    await asyncio.sleep(0.1)


async def begins_at_zero(client: SimRemotingClient, group: str, topic: str, queue: int) -> bool:
    """Return whether the broker answers 0 for a group without an offset."""
    named = {"consumerGroup": group, "topic": topic, "queueId": queue}
    answer = await client.call(RequestCode.QUERY_CONSUMER_OFFSET, named)
    if answer.code == ResponseCode.SUCCESS:
        assert answer.fields == {"offset": "0"}
    return answer.code == ResponseCode.SUCCESS


NEW_QUEUE = {"rocketmq.zero.offset.rule": "new-queue"}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("known_by", ["heartbeat", "commit", "nothing"])
def test_a_queue_added_before_the_first_send_and_pull_is_new_to_a_group_that_began(
    known_by: str, restarted: bool
) -> None:
    """The rule asks for the group's first heartbeat or commit, not for the topic's first use."""

    async def begin(client: SimRemotingClient) -> None:
        if known_by == "heartbeat":
            await client.heartbeat("m", "CG", {"t": "*"})
        elif known_by == "commit":
            await client.heartbeat("m", "CG", {"other": "*"})
            named = {"consumerGroup": "CG", "topic": "t", "queueId": 0, "commitOffset": 0}
            answer = await client.call(RequestCode.UPDATE_CONSUMER_OFFSET, named)
            assert answer.code == ResponseCode.SUCCESS

    async def story(room: Remoting) -> None:
        client = await room.client()
        await sized(client, "t", 1)
        await begin(client)
        await asyncio.sleep(1)
        if restarted:
            await room.kill()
            client = await room.client()
            await begin(client)
            await asyncio.sleep(1)
        await sized(client, "t", 3)
        await client.heartbeat("l", "later", {"t": "*"})
        for queue in (1, 2):
            assert await begins_at_zero(client, "CG", "t", queue) is (known_by != "nothing")
            assert not await begins_at_zero(client, "later", "t", queue)
        assert await begins_at_zero(client, "CG", "t", 0) is (known_by == "commit")

    remoting(story, NEW_QUEUE)


def test_a_queue_added_after_a_restart_is_not_new_to_a_group_that_begins_later() -> None:
    """The time of adding is noted at once, though no client has used the topic since the start."""

    async def story(room: Remoting) -> None:
        client = await room.client()
        await sized(client, "t", 1)
        await client.send("t", b"a")
        await client.commit("old", "t", 1)
        await room.kill()
        client = await room.client()
        await sized(client, "t", 2)
        await asyncio.sleep(10)
        await client.heartbeat("m", "CG", {"t": "*"})
        await asyncio.sleep(1)
        assert not await begins_at_zero(client, "CG", "t", 1)
        assert await begins_at_zero(client, "old", "t", 1)

    remoting(story, NEW_QUEUE)


def test_a_topic_created_after_a_group_subscribed_is_new_to_it() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        await client.heartbeat("m", "CG", {"t": "*", "%RETRY%CG": "*"})
        await asyncio.sleep(1)
        await client.send("t", b"the first")
        await asyncio.sleep(1)
        await client.heartbeat("l", "later", {"t": "*"})
        assert await begins_at_zero(client, "CG", "t", 0)
        assert not await begins_at_zero(client, "later", "t", 0)
        await room.kill()
        client = await room.client()
        await client.heartbeat("m", "CG", {"t": "*"})
        assert not await begins_at_zero(client, "CG", "t", 0), "no offset says that it was before"

    remoting(story, NEW_QUEUE)


# Rule 19


def test_a_group_whose_messages_expired_goes_on_at_the_first_offset() -> None:
    async def story(room: Remoting) -> None:
        client = await filled(room, 5)
        await client.commit("CG", "t", 1)
        for _ in range(30):
            await client.send("t", bytes(100_000))
        partition = room.served.broker.partition("t", 0)
        await asyncio.sleep(4000)
        client = await room.client()
        first = int(partition.log_start_offset)
        assert first > 5
        moved = await client.pull("t", 1, consumerGroup="CG", **PARKED)
        assert (moved.code, moved.remark) == (
            ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL",
        )  # fmt: skip
        assert (moved.fields or {})["nextBeginOffset"] == str(first)
        assert (moved.fields or {})["minOffset"] == str(first)
        await client.send("t", b"after")
        found = messages_in(await client.pull("t", first, consumerGroup="CG"))
        assert found[0].queue_offset == first

    remoting(story, {"log.segment.bytes": "1048576", "rocketmq.file.reserved.hours": "1"})
