"""Rules of sends, retries and delays, on a simulated broker."""

import asyncio

import pytest

from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.properties import decode_properties
from tests.support.rocketmq.simulated import (
    Remoting,
    SimRemotingClient,
    place_in,
    remoting,
)

SEEDS = range(1, 9)


async def delayed(client: SimRemotingClient, body: str, ms: int) -> RemotingCommand:
    """Send a delayed message; return the answer."""
    properties = f"UNIQ_KEY\x01{body}\x02TIMER_DELAY_MS\x01{ms}\x02"
    answer = await client.send("t", body.encode(), i=properties)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer


# Rule 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_message_that_was_send_ok_survives_a_power_cut(seed: int) -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        for number in range(6):
            answer = await client.send("t", b"%d" % number)
            assert answer.code == ResponseCode.SUCCESS
            if number % 2:
                await room.cut_power()
                client = await room.client()
        assert await client.bodies("t") == [str(number) for number in range(6)]

    remoting(story, seed=seed)


def test_send_ok_and_a_parked_pull_wait_for_the_flush() -> None:
    async def story(room: Remoting) -> None:
        client, reader = await room.client(), await room.client("reader")
        await client.send("t", b"first")
        parked = reader.ask_pull("t", 1, sysFlag=6, suspendTimeoutMillis=20_000)
        await asyncio.sleep(0.1)
        room.cluster.worlds[0].sim_disk.stall(5.0)
        sent = client.ask_send("t", b"slow")
        await asyncio.sleep(4)
        assert not sent.done()
        assert not parked.done(), "the watermark wakes it, not the append"
        # A send of another connection to another topic does not wait for the parked pull.
        await asyncio.sleep(2)
        assert (await sent).code == ResponseCode.SUCCESS
        assert (await parked).remark == "FOUND"

    remoting(story)


# Rules 8 and 9


@pytest.mark.parametrize("seed", SEEDS)
def test_a_message_sent_back_survives_a_power_cut_once_it_is_answered(seed: int) -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        places = [place_in(await client.send("t", b"%d" % number)) for number in range(4)]
        for number, place in enumerate(places):
            answer = await client.send_back(place, "CG", 1 if number % 2 else -1)
            assert answer.code == ResponseCode.SUCCESS
            await room.cut_power()
            client = await room.client()
        await asyncio.sleep(3)
        assert await client.bodies("%DLQ%CG") == ["0", "2"]
        assert sorted(set(await client.bodies("%RETRY%CG"))) == ["1", "3"]

    remoting(story, seed=seed)


def test_two_answers_that_are_lost_make_two_dead_letters_with_one_key() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        place = place_in(await client.send("t", b"poison", i="UNIQ_KEY\x01u\x02"))
        for _ in range(2):
            lost = client.ask(
                RequestCode.CONSUMER_SEND_MSG_BACK,
                {"group": "CG", "offset": place, "delayLevel": -1, "maxReconsumeTimes": 16},
            )
            await asyncio.sleep(1)
            client.close()  # the answer has come, and the consumer has not read it
            assert lost.done()
            client = await room.client()
        letters = await client.pulled("%DLQ%CG")
        assert [letter.body for letter in letters] == [b"poison"] * 2
        assert {decode_properties(letter.properties)["UNIQ_KEY"] for letter in letters} == {"u"}

    remoting(story)


def test_a_dead_letter_keeps_its_properties_byte_by_byte_through_all_attempts() -> None:
    odd = "empty\x01\x02größe\x01ü€\U0001f98a\x02a=b\x01 c \x02KEYS\x01k1 k2\x02TAGS\x01A\x02"

    async def story(room: Remoting) -> None:
        client = await room.client()
        first = await client.send("t", b"\x00poison\xff", i=f"UNIQ_KEY\x01u\x02{odd}", h=7)
        place = place_in(first)
        for attempt in range(3):
            limit = {"maxReconsumeTimes": 2, "group": "CG", "offset": place, "delayLevel": 1}
            answer = await client.call(RequestCode.CONSUMER_SEND_MSG_BACK, limit)
            assert answer.code == ResponseCode.SUCCESS
            await asyncio.sleep(2)
            retries = await client.pulled("%RETRY%CG")
            assert len(retries) == min(attempt + 1, 2)
            place = retries[-1].physical_offset
        (letter,) = await client.pulled("%DLQ%CG", "CG_operator")
        assert (letter.body, letter.flag, letter.reconsume_times) == (b"\x00poison\xff", 7, 3)
        assert letter.properties.startswith(f"UNIQ_KEY\x01u\x02{odd}".encode())
        found = decode_properties(letter.properties)
        assert found["RETRY_TOPIC"] == "t"
        assert found["ORIGIN_MESSAGE_ID"] == (first.fields or {})["msgId"]
        route = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "%DLQ%CG"})
        assert b'"perm":6,"readQueueNums":1,"topicSysFlag":0,"writeQueueNums":1' in route.body

    remoting(story)


# Rule 10


def test_delays_follow_jumps_of_the_clock() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        await delayed(client, "early", 60_000)
        await delayed(client, "late", 7_200_000)
        room.jump(-30_000)
        await asyncio.sleep(61)
        assert await client.bodies("t") == [], "none before its time"
        await asyncio.sleep(30)
        assert await client.bodies("t") == ["early"], "late by the jump at most"
        room.jump(7_200_000)
        await asyncio.sleep(1.1)
        assert await client.bodies("t") == ["early", "late"]
        await delayed(client, "third", 10_000)
        room.jump(-5_000)
        await room.kill()
        await asyncio.sleep(12)
        client = await room.client()
        assert await client.bodies("t") == ["early", "late"]
        await asyncio.sleep(4)
        assert await client.bodies("t") == ["early", "late", "third"]

    remoting(story)


def test_delays_come_in_the_order_of_time_and_ties_in_that_of_arrival() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        await client.send("t", b"0", i="UNIQ_KEY\x01first\x02TIMER_DELIVER_MS\x010\x02")
        due_ms = room.now_ms + 50_000
        order = [3, 1, 2, 1, 3, 2, 1]
        for number, seconds in enumerate(order):
            at = f"UNIQ_KEY\x01u{number}\x02TIMER_DELIVER_MS\x01{due_ms + seconds * 7000}\x02"
            await client.send("t", f"{seconds}{number}".encode(), i=at)
        await room.kill()
        await asyncio.sleep(80)
        client = await room.client()
        found = (await client.bodies("t"))[1:]
        assert found == sorted(found)
        assert len(found) == len(order)

    remoting(story)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recall_that_races_the_delivery_removes_the_message_or_is_refused(seed: int) -> None:
    async def story(room: Remoting) -> None:
        client, other = await room.client(), await room.client("other")
        recalled: dict[str, bool] = {}
        for number in range(12):
            answer = await delayed(client, str(number), 300)
            named = {"producerGroup": "PG", "topic": "t",
                     "recallHandle": (answer.fields or {})["recallHandle"]}  # fmt: skip
            await asyncio.sleep(0.27 + number / 250)
            both = [each.ask(RequestCode.RECALL_MESSAGE, named) for each in (client, other)]
            codes = [answer.code for answer in await asyncio.gather(*both)]
            assert codes.count(ResponseCode.SUCCESS) <= 1
            recalled[str(number)] = ResponseCode.SUCCESS in codes
        await asyncio.sleep(5)
        delivered = await client.bodies("t")
        assert delivered == [body for body, gone in recalled.items() if not gone]
        assert len(set(recalled.values())) == 2, "some of both"

    remoting(story, {"rocketmq.recall.message.enable": "true"}, seed)


def test_delays_of_a_topic_that_is_deleted_and_made_again() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        await delayed(client, "gone", 5_000)
        await delayed(client, "later", 60_000)
        deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        assert deleted.code == ResponseCode.SUCCESS
        await asyncio.sleep(10)
        await client.send("t", b"of the next")
        await asyncio.sleep(60)
        # As in RocketMQ a delayed message names its topic, not one lifetime of it.
        assert await client.bodies("t") == ["of the next", "later"]
        delays = room.served.held.delays.value
        assert delays is not None
        assert (delays.discarded, len(delays)) == (1, 0)

    remoting(story)


# A second thing at the same time


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_sent_back_while_their_group_is_deleted_are_stored(seed: int) -> None:
    async def story(room: Remoting) -> None:
        client, operator = await room.client(), await room.client("operator")
        places = [place_in(await client.send("t", b"%d" % number)) for number in range(8)]
        await client.commit("CG", "t", 3)
        backs = [
            asyncio.ensure_future(client.send_back(place, "CG", -1 if number % 2 else 1))
            for number, place in enumerate(places)
        ]
        named = {"groupName": "CG", "cleanOffset": "true"}
        deleted = await operator.call(RequestCode.DELETE_SUBSCRIPTIONGROUP, named)
        assert deleted.code == ResponseCode.SUCCESS, deleted.remark
        for answer in await asyncio.gather(*backs):
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        await asyncio.sleep(3)
        assert sorted(await client.bodies("%RETRY%CG")) == ["0", "2", "4", "6"]
        assert sorted(await client.bodies("%DLQ%CG")) == ["1", "3", "5", "7"]
        assert await client.committed("CG", "t") is None

    remoting(story, seed=seed)


def test_an_attempt_to_open_a_log_serves_all_sends_that_wait_for_it() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        await client.send("t", b"first")
        controller = room.served.controller
        create, calls = controller.create_topics, 0

        async def slow(*args: object, **more: object) -> object:
            nonlocal calls
            calls += 1
            await asyncio.sleep(10)
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "no controller")

        controller.create_topics = slow  # type: ignore[method-assign, assignment]
        waiting = [asyncio.ensure_future(delayed_code(client, number)) for number in range(50)]
        codes = set(await asyncio.wait_for(asyncio.gather(*waiting), 15))
        assert codes == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert calls == 1
        controller.create_topics = create  # type: ignore[method-assign]
        assert await delayed_code(client, 50) == ResponseCode.SUCCESS

    remoting(story)


async def delayed_code(client: SimRemotingClient, number: int) -> int:
    """Send a delayed message; return the answer's code."""
    properties = f"UNIQ_KEY\x01{number}\x02TIMER_DELAY_MS\x015000\x02"
    return (await client.send("t", b"x", i=properties)).code
