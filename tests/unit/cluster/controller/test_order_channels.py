"""One way to a broker: orders that are given side by side go there one after the other."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cluster.controller.term import ControllerTerm
from headrace.cluster.decisions.orders import Orders, Stop
from headrace.cluster.peers.order_channels import OrderChannel
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from tests.support.cluster.peer_kit import play, started

ONE = BrokerId(1)


def test_orders_given_at_once_go_one_after_the_other_and_each_of_them_once() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        term: Any = cluster.controller()._term
        way: Any = cluster.controller()._peers(ONE, term.facts)
        talk = way._conversation
        deliver = talk._exchange
        delivered: list[str] = []
        under_way: list[str] = []
        most = 0

        async def watched(peer: Any, deliveries: Any) -> Any:
            nonlocal most
            (stop,) = deliveries[0].orders.orders
            under_way.append(stop.topic_partition.topic)
            delivered.append(stop.topic_partition.topic)
            most = max(most, len(under_way))
            failed = await deliver(peer, deliveries)
            under_way.remove(stop.topic_partition.topic)
            return failed

        talk._exchange = watched
        head = term.facts.controller_epoch, cluster.brokers[1].controller.applier.broker_epoch
        names = [f"t{number}" for number in range(4)]
        stops = [Stop(TopicPartition(name, 0), bytes(16), LeaderEpoch(0), True) for name in names]
        await asyncio.gather(*(way.take(Orders(*head, [stop])) for stop in stops))
        assert sorted(delivered) == names
        assert most == 1

    play(story)


def test_a_bug_while_an_order_is_delivered_does_not_keep_the_next_ones_back() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        term: Any = cluster.controller()._term
        way: Any = cluster.controller()._peers(ONE, term.facts)
        talk = way._conversation
        deliver = talk._exchange

        async def broken(*_: Any) -> Any:
            raise ZeroDivisionError

        head = term.facts.controller_epoch, cluster.brokers[1].controller.applier.broker_epoch
        stops = [Stop(TopicPartition(name, 0), bytes(16), LeaderEpoch(0), True) for name in "ab"]
        talk._exchange = broken
        with pytest.raises(ApiError, match="not answered yet"):
            await way.take(Orders(*head, stops[:1]))
        talk._exchange = deliver
        with pytest.raises(ApiError, match="not answered yet"):  # it is behind the first one
            await way.take(Orders(*head, stops[1:]))
        await asyncio.sleep(1)
        assert talk.idle

    with pytest.raises(ZeroDivisionError):  # the conversation's task is not awaited
        play(story)


@pytest.mark.parametrize(
    ("leaving", "error", "level"),
    [
        (set(), ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "no listener"), "ERROR"),
        (set(), ApiError(ErrorCode.BROKER_NOT_AVAILABLE), "INFO"),
        (set(), ApiError(ErrorCode.STALE_BROKER_EPOCH), "INFO"),
        (set(), ApiError(ErrorCode.STALE_CONTROLLER_EPOCH), "INFO"),
        (set(), ApiError(ErrorCode.INVALID_REQUEST), "ERROR"),
        ({ONE}, ApiError(ErrorCode.INVALID_REQUEST), "INFO"),
    ],
)
def test_a_refusal_of_orders_is_an_error_unless_a_restart_explains_it(
    leaving: set[BrokerId], error: ApiError, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def take(orders: Orders) -> None:
        raise error

    facts = SimpleNamespace(leaving=leaving)
    term: Any = SimpleNamespace(
        facts=facts, _takers=lambda broker, known: SimpleNamespace(take=take)
    )
    stop = Stop(TopicPartition("t", 0), bytes(16), LeaderEpoch(0), True)
    with caplog.at_level("INFO"):
        failed = asyncio.run(ControllerTerm._tell(term, ONE, Orders(1, -1, [stop])))
    assert failed == {stop.topic_partition: error.code}
    (record,) = caplog.records
    assert record.levelname == level
    assert record.getMessage() == f"broker 1 did not accept the controller's orders: {error}"


@pytest.mark.parametrize(
    ("code", "level"),
    [(ErrorCode.STALE_BROKER_EPOCH, "INFO"), (ErrorCode.UNSUPPORTED_VERSION, "ERROR")],
)
def test_a_late_refusal_is_an_error_unless_the_broker_has_registered_again(
    code: ErrorCode, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    way: Any = SimpleNamespace(
        _closed=False,
        _conversation=SimpleNamespace(idle=True),
        broker=SimpleNamespace(broker_id=ONE),
    )
    delivery: Any = SimpleNamespace(waited_for=False)
    with caplog.at_level("INFO"):
        OrderChannel._end(way, delivery, ApiError(code))
    (record,) = caplog.records
    assert record.levelname == level
