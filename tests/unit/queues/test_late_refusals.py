"""Targets that refuse single messages after they accepted them: confirms, commits, dead letters."""

from typing import Any

import pytest

from headrace.model.errors import HeadraceError
from headrace.queues.awaited import Awaited, note_number, when_all_stored
from headrace.queues.engine.dead_letter_publishing import RETRY_SECONDS
from headrace.queues.port import ALL_STORED, ALL_UNSTORED
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import (
    ChannelClose,
    ConfirmSelect,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    BasicReject,
    ExchangeDeclare,
    QueueBind,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.channels import QueueClient, QueueRoom
from tests.support.amqp.messages import publish_frames
from tests.support.queues.late_target import LateTarget, late_target


def publish(client: QueueClient, *keys: str) -> list[Any]:
    """Publish persistent messages in one pass, each with its routing key; return the answers."""
    header = make_header(1, Properties(delivery_mode=2))
    frames = [publish_frames(1, Message("", key, header, b"m"), 0) for key in keys]
    return [each.method for each in client.raw(b"".join(frames))]


def answers(client: QueueClient) -> list[Any]:
    return [each.method for each in client.heard()]


def test_refused_publishes_are_nacked_by_the_channels_numbers() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare("own")
    target = late_target(room, client)
    client.ask(ConfirmSelect())
    assert publish(client, "own", "late", "own", "late", "late") == []
    target.decide({2})
    assert answers(client) == [BasicAck(3, True), BasicNack(4, False, False), BasicAck(5, False)]


def test_refused_publishes_of_another_channel_are_not_nacked() -> None:
    room = QueueRoom()
    client, other = room.client(), room.client()
    target = late_target(room, client)
    for each in (client, other):
        each.ask(ConfirmSelect())
    publish(client, "late")
    publish(other, "late")
    target.decide({1})
    assert answers(client) == [BasicNack(1, False, False)]
    assert answers(other) == [BasicAck(1, False)]


def test_confirms_keep_their_order_across_targets() -> None:
    room = QueueRoom()
    client = room.client()
    late, later = late_target(room, client), late_target(room, client, "later")
    client.ask(ConfirmSelect())
    publish(client, "later")
    publish(client, "late")
    late.decide({1})
    assert answers(client) == []
    later.decide()
    assert answers(client) == [BasicAck(1, False), BasicNack(2, False, False)]


@pytest.mark.parametrize(("unstored", "answer"), [((), TxCommitOk), ({2}, ChannelClose)])
def test_commit_with_a_refused_message_closes_the_channel(unstored: Any, answer: type) -> None:
    room = QueueRoom()
    client = room.client()
    target = late_target(room, client)
    client.ask(TxSelect())
    publish(client, "late", "late")
    assert client.say(TxCommit()) == []
    target.decide(unstored)
    assert [type(each) for each in answers(client)] == [answer]


def test_unstored_numbers_of_several_targets_are_joined() -> None:
    one, other, own = LateTarget(), LateTarget(), LateTarget(numbers=False)
    awaited: Awaited = {own: None}
    for number, (target, target_number) in enumerate(((one, 1), (other, 1), (one, 2)), 10):
        note_number(awaited, target, target_number, number)
    told: list[Any] = []
    when_all_stored(awaited, told.append)
    one.decide({2, 3})
    own.decide()
    assert told == []
    other.decide(ALL_UNSTORED)
    assert told == [{11, 12}]


def test_target_without_numbers_loses_all_publishes_of_the_pass() -> None:
    one, own = LateTarget(), LateTarget(numbers=False)
    told: list[Any] = []
    when_all_stored({one: {1: 1}, own: None}, told.append)
    own.decide(ALL_UNSTORED)
    one.decide()
    assert told == [ALL_UNSTORED]
    when_all_stored({}, told.append)
    assert told[1] is ALL_STORED


def rejected(
    room: QueueRoom, *, numbers: bool = True, **arguments: object
) -> tuple[QueueClient, LateTarget]:
    """Reject a message of a queue whose dead letters go to a late target."""
    client = room.client()
    target = late_target(room, client, numbers=numbers)
    arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}
    client.declare(durable=True, arguments={"x-queue-type": "quorum", **arguments})
    publish(client, "q")
    (got,) = client.say(BasicGet(queue="q"))
    client.say(BasicReject(got.method.delivery_tag, False))
    assert target.bodies == [b"m"]
    return client, target


def unsettled(room: QueueRoom) -> int:
    (store,) = room.queues["q"].stores
    return len(store.read(0, 100)[1])


def test_dead_letter_refused_late_is_published_again_at_least_once() -> None:
    room = QueueRoom()
    overflow: dict[str, Any] = {
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    _, target = rejected(room, **overflow)
    target.decide({1})
    assert unsettled(room) == 1
    room.clock.advance(RETRY_SECONDS)
    assert target.bodies == [b"m", b"m"]
    assert unsettled(room) == 1
    target.decide()
    assert unsettled(room) == 0


def test_dead_letter_refused_late_is_dropped_at_most_once() -> None:
    room = QueueRoom()
    _, target = rejected(room)
    assert unsettled(room) == 1
    target.decide({1})
    assert unsettled(room) == 0
    room.clock.advance(RETRY_SECONDS)
    assert target.bodies == [b"m"]


@pytest.mark.parametrize("strategy", ["at-least-once", "at-most-once"])
def test_dead_letter_that_a_target_lost_is_published_again(strategy: str) -> None:
    room = QueueRoom()
    overflow: dict[str, Any] = {"x-dead-letter-strategy": strategy, "x-overflow": "reject-publish"}
    _, target = rejected(room, numbers=False, **overflow)
    for times in (1, 2):
        target.decide(ALL_UNSTORED)
        assert unsettled(room) == 1
        room.clock.advance(RETRY_SECONDS)
        assert target.bodies == [b"m"] * (times + 1)
    target.decide()
    assert unsettled(room) == 0


@pytest.mark.parametrize("failure", [None, "no space left on device"])
def test_lost_dead_letter_waits_for_a_failed_log_and_not_for_a_full_queue(
    failure: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = QueueRoom()
    _, target = rejected(room, numbers=False)
    target.decide(ALL_UNSTORED)

    def refuse(published: object, now: float) -> bool:
        if failure is not None:
            raise HeadraceError(failure)
        return False

    with monkeypatch.context() as patched:
        patched.setattr(target, "publish", refuse)
        room.clock.advance(RETRY_SECONDS)
        target.decide()
    assert unsettled(room) == (failure is not None)
    room.clock.advance(RETRY_SECONDS)
    target.decide()
    assert unsettled(room) == 0
    assert target.bodies == [b"m"] * (1 if failure is None else 2)


def test_lost_dead_letter_goes_once_to_a_queue_that_has_it() -> None:
    room = QueueRoom()
    client = room.client()
    late = late_target(room, client, numbers=False)
    client.ask(ExchangeDeclare(exchange="dead-letters", type="fanout"))
    client.declare("own")
    for name in ("own", "late"):
        client.ask(QueueBind(queue=name, exchange="dead-letters"))
    arguments = {"x-queue-type": "quorum", "x-dead-letter-exchange": "dead-letters"}
    client.declare(durable=True, arguments=arguments)
    publish(client, "q")
    (got,) = client.say(BasicGet(queue="q"))
    client.say(BasicReject(got.method.delivery_tag, False))
    late.decide(ALL_UNSTORED)
    room.clock.advance(RETRY_SECONDS)
    late.decide()
    assert late.bodies == [b"m", b"m"]
    assert room.queues["own"].ready == 1
    assert unsettled(room) == 0
