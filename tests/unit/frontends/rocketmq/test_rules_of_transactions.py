"""Rules of transactions on a simulated broker: decisions, questions, messages that are given up."""

import asyncio
import logging

import pytest

from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from tests.support.rocketmq.simulated import (
    COMMIT,
    ROLLBACK,
    Remoting,
    SimRemotingClient,
    place_in,
    remoting,
)

SEEDS = range(1, 9)
QUICK = {
    "rocketmq.transaction.timeout.ms": "3000",
    "rocketmq.transaction.check.interval.ms": "5000",
}


async def half(client: SimRemotingClient, body: str) -> int:
    """Send an undecided message; return its physical offset."""
    properties = f"UNIQ_KEY\x01{body}\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02"
    answer = await client.send("t", body.encode(), i=properties, f=4)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return place_in(answer)


def questions(client: SimRemotingClient) -> list[str]:
    """Return the messages about which a client was asked, and forget the questions."""
    notified, client.notified = client.notified, []
    return [
        (each.fields or {})["msgId"]
        for each in notified
        if each.code == RequestCode.CHECK_TRANSACTION_STATE
    ]


# Rules 11 and 12


def test_a_lost_decision_is_asked_for_and_each_live_producer_in_turn() -> None:
    async def story(room: Remoting) -> None:
        one, two = await room.client("one"), await room.client("two")
        await one.produces("p1", "PG")
        await two.produces("p2", "PG")
        place = await half(one, "u")
        asked: list[tuple[int, int]] = []
        for _ in range(4):
            await asyncio.sleep(5)
            asked.append((len(questions(one)), len(questions(two))))
        assert sorted(asked) == [(0, 1), (0, 1), (1, 0), (1, 0)]
        assert await one.bodies("t") == []
        one.close()
        await asyncio.sleep(10)
        assert questions(two) == ["u", "u"], "the one that lives is asked"
        assert (await two.end(place, COMMIT)).code == ResponseCode.SUCCESS
        await asyncio.sleep(20)
        assert questions(two) == []
        assert await two.bodies("t") == ["u"]

    remoting(story, QUICK)


def test_a_message_is_given_up_after_15_checks_counted_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        await client.produces("p", "PG")
        place = await half(client, "u")
        asked: list[str] = []
        for _ in range(30):
            await asyncio.sleep(5)
            await client.produces("p", "PG")
            asked += questions(client)
        assert asked == ["u"] * 15
        assert await client.bodies("TRANS_CHECK_MAX_TIME_TOPIC") == ["u"]
        assert (await client.end(place, COMMIT)).code == ResponseCode.SYSTEM_ERROR
        assert await client.bodies("t") == []
        given_up = room.served.broker.metrics.gauges["headrace_rocketmq_given_up_messages_total"]
        assert given_up.read() == 1

    with caplog.at_level(logging.WARNING, "headrace.subscriptions"):
        remoting(story, QUICK)
    (warning,) = [text for text in caplog.messages if "given up" in text]
    assert "15 times" in warning


@pytest.mark.parametrize("seed", SEEDS)
def test_decisions_at_once_and_with_a_question_decide_a_message_once(seed: int) -> None:
    async def story(room: Remoting) -> None:
        client, other = await room.client(), await room.client("other")
        await client.produces("p", "PG")
        for number in range(6):
            place = await half(client, str(number))
            await asyncio.sleep(2.95 + number / 100)  # the first question comes after 3 s
            decisions = (COMMIT, ROLLBACK, COMMIT) if number % 2 else (ROLLBACK, COMMIT, ROLLBACK)
            answers = await asyncio.gather(
                *(each.end(place, decision) for each, decision in zip(
                    (client, other, client), decisions, strict=True))
            )  # fmt: skip
            won = [
                decision
                for decision, answer in zip(decisions, answers, strict=True)
                if answer.code == ResponseCode.SUCCESS
            ]
            assert len(won) == 1
            assert (await client.bodies("t")).count(str(number)) == int(won == [COMMIT])
        await asyncio.sleep(20)
        assert len(questions(client)) <= 6
        await room.kill()
        client = await room.client()
        await client.produces("p", "PG")
        await asyncio.sleep(20)
        asked = questions(client)
        assert asked == [], "what was decided is not asked about after a restart"

    remoting(story, QUICK, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_answered_decision_holds_after_a_power_cut(seed: int) -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        for number in range(4):
            place = await half(client, str(number))
            decision = ROLLBACK if number % 2 else COMMIT
            assert (await client.end(place, decision)).code == ResponseCode.SUCCESS
            await room.cut_power()
            client = await room.client()
            for again in (COMMIT, ROLLBACK):
                assert (await client.end(place, again)).code == ResponseCode.SYSTEM_ERROR
        assert await client.bodies("t") == ["0", "2"]

    remoting(story, QUICK, seed)


def test_a_producer_that_is_away_for_long_is_asked_when_it_is_back() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        place = await half(client, "u")
        client.close()
        await asyncio.sleep(3600)
        await room.cut_power()
        await asyncio.sleep(3600)
        client = await room.client()
        await client.produces("p", "PG")
        await asyncio.sleep(6)
        assert set(questions(client)) == {"u"}
        assert (await client.end(place, ROLLBACK)).code == ResponseCode.SUCCESS
        refused = await client.end(place, COMMIT)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert await client.bodies("t") == []

    remoting(story, QUICK)


def test_a_message_whose_topic_was_deleted_is_rolled_back_or_given_up() -> None:
    async def story(room: Remoting) -> None:
        client = await room.client()
        await client.produces("p", "PG")
        kept, rolled = await half(client, "kept"), await half(client, "rolled")
        deleted = await client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        assert deleted.code == ResponseCode.SUCCESS
        assert (await client.end(rolled, ROLLBACK)).code == ResponseCode.SUCCESS
        assert (await client.end(kept, COMMIT)).code == ResponseCode.TOPIC_NOT_EXIST
        await room.kill()
        client = await room.client()
        for _ in range(30):
            await client.produces("p", "PG")
            assert "rolled" not in questions(client)
            await asyncio.sleep(5)
        assert await client.bodies("TRANS_CHECK_MAX_TIME_TOPIC") == ["kept"]
        half_messages = room.served.held.half.value
        assert half_messages is not None
        assert len(half_messages) == 0

    remoting(story, QUICK)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_jumps_72_hours_ahead_rolls_back_no_transaction(restarts: bool) -> None:
    """RocketMQ gives up all half messages then, by the age of 72 hours."""

    async def story(room: Remoting) -> None:
        client = await room.client()
        place = await half(client, "u")
        room.jump(80 * 3_600_000)
        client.close()
        if restarts:
            await room.kill()
        await asyncio.sleep(30)
        client = await room.client()
        await client.produces("p", "PG")
        await asyncio.sleep(6)
        assert set(questions(client)) == {"u"}
        assert (await client.end(place, COMMIT)).code == ResponseCode.SUCCESS
        assert await client.bodies("t") == ["u"]

    remoting(story, QUICK)


def test_a_message_without_a_producer_is_given_up_after_the_reserved_hours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As in RocketMQ; else one that names no group would stay."""

    async def story(room: Remoting) -> None:
        client = await room.client()
        await half(client, "of a group")
        await client.send("t", b"of none", i="UNIQ_KEY\x01n\x02TRAN_MSG\x01true\x02", f=4)
        await asyncio.sleep(3600)
        await room.kill()
        await asyncio.sleep(3590)
        half_messages = room.served.held.half.value
        assert half_messages is not None
        assert len(half_messages) == 2
        await asyncio.sleep(60)
        assert len(half_messages) == 2, "it is looked for a producer 15 times"
        await asyncio.sleep(40)
        assert len(half_messages) == 0
        client = await room.client()
        given_up = await client.bodies("TRANS_CHECK_MAX_TIME_TOPIC")
        assert sorted(given_up) == ["of a group", "of none"]
        assert await client.bodies("t") == []

    remoting(story, QUICK | {"rocketmq.file.reserved.hours": "2"})
    warnings = [text for text in caplog.messages if "given up" in text]
    assert len(warnings) == 2
    assert all("was asked 0 times" in text for text in warnings)
