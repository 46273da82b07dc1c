"""Conversations with another broker: gathered questions, lost answers, limits, closing."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from headrace.broker.metadata_image import BrokerInfo, Endpoint, ImageDelta, TopicInfo
from headrace.client.transport.peer import Peer, fixed
from headrace.client.transport.port import Address, ConnectionLost
from headrace.cluster.peers.conversation import DEFAULT_LIMITS, Conversation, Limits, one_request
from headrace.cluster.peers.registrations import Registrations
from headrace.cluster.peers.remote_transactions import RemoteTransactions
from headrace.cluster.topics.creation import NewTopic
from headrace.coordination.transactions.markers import Marker
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
Answer = str | ApiError


class HandClient:
    """A client whose answers come when the test gives them."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.closed = False
        self._answers: list[asyncio.Future[Sequence[str]]] = []

    async def link_to(self, address: Address) -> None:
        await asyncio.sleep(0)

    async def ask(self, link: None, questions: Sequence[str], wait_seconds: float) -> Sequence[str]:
        self.asked.append([*questions])
        self._answers.append(asyncio.get_running_loop().create_future())
        return await self._answers[-1]

    async def answer(self, request: int = -1) -> None:
        names = self.asked[request]
        self._answers[request].set_result([f"answer to {name}" for name in names])
        await settled()

    async def fail(self, error: Exception) -> None:
        self._answers[-1].set_exception(error)
        await settled()

    def close(self) -> None:
        self.closed = True


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def run(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(work)


def conversation(
    limits: Limits = DEFAULT_LIMITS, group_of: Callable[[str], str] = lambda _: ""
) -> tuple[HandClient, Conversation[str, str]]:
    """Questions are told apart by their first letter."""
    client: Any = HandClient()
    call_of: Any = list
    peer = Peer(client, fixed(Address("there", 1)))
    made = Conversation(
        peer, one_request(call_of), run, key_of=lambda name: name[0], group_of=group_of,
        limits=limits,
    )  # fmt: skip
    return client, made


def codes(told: Sequence[Answer]) -> list[ErrorCode]:
    return [answer.code for answer in told if isinstance(answer, ApiError)]


def test_questions_asked_while_a_request_is_in_flight_go_out_with_the_next() -> None:
    async def story() -> None:
        client, talk = conversation()
        told: list[Answer] = []
        for name in "abc":
            talk.ask(name, told.append)
        await settled()
        talk.ask("d", told.append)
        await settled()
        assert (client.asked, told) == ([["a", "b", "c"]], [])
        talk.ask("e", told.append)
        await client.answer()
        assert client.asked == [["a", "b", "c"], ["d", "e"]]
        idle = [talk.idle]
        await client.answer()
        idle.append(talk.idle)
        assert told == [f"answer to {name}" for name in "abcde"]
        assert idle == [False, True]
        talk.ask("f", told.append)
        await settled()
        assert client.asked[2:] == [["f"]], "after a rest too"
        await client.answer()

    asyncio.run(story())


def test_questions_with_equal_keys_go_out_one_after_the_other() -> None:
    async def story() -> None:
        client, talk = conversation()
        told: list[Answer] = []
        for name in ("a1", "b", "a2", "a3"):
            talk.ask(name, told.append)
        await settled()
        for _ in range(3):
            await client.answer()
        assert client.asked == [["a1", "b"], ["a2"], ["a3"]]
        assert len(told) == 4

    asyncio.run(story())


def test_requests_of_several_groups_are_in_flight_together() -> None:
    async def story() -> None:
        client, talk = conversation(Limits(requests_max=2), group_of=lambda name: name[-1])
        told: list[Answer] = []
        for name in ("a1", "b2", "c1", "d3"):
            talk.ask(name, told.append)
        await settled()
        assert client.asked == [["a1", "c1"], ["b2"]]
        await client.answer(1)
        assert client.asked[2:] == [["d3"]], "as soon as a request is free"
        await client.answer(0)
        await client.answer(2)
        assert told == [f"answer to {name}" for name in ("b2", "a1", "c1", "d3")]

    asyncio.run(story())


def test_no_request_has_more_questions_than_its_limit() -> None:
    async def story() -> None:
        client, talk = conversation(Limits(questions_max=2))
        told: list[Answer] = []
        for name in "abcde":
            talk.ask(name, told.append)
        await settled()
        for _ in range(3):
            await client.answer()
        assert client.asked == [["a", "b"], ["c", "d"], ["e"]]
        assert told == [f"answer to {name}" for name in "abcde"]

    asyncio.run(story())


def test_questions_beyond_the_bound_are_refused_until_others_left() -> None:
    async def story() -> None:
        client, talk = conversation(Limits(questions_max=1, waiting_max=2))
        told: list[Answer] = []
        talk.ask("a", told.append)
        await settled()
        for name in "bcd":
            talk.ask(name, told.append)
        assert codes(told) == [ErrorCode.NETWORK_EXCEPTION]
        await client.answer()
        talk.ask("e", told.append)
        for _ in range(3):
            await client.answer()
        assert [[name] for name in "abce"] == client.asked
        assert len(told) == 5

    asyncio.run(story())


def test_a_lost_answer_and_a_refusal_reach_each_asker_of_the_request() -> None:
    async def story() -> None:
        client, talk = conversation()
        told: list[Answer] = []
        for error, code in (
            (ConnectionLost("gone"), ErrorCode.NETWORK_EXCEPTION),
            (Malformed("torn"), ErrorCode.NETWORK_EXCEPTION),
            (ApiError(ErrorCode.NOT_COORDINATOR), ErrorCode.NOT_COORDINATOR),
        ):
            for name in "ab":
                talk.ask(name, told.append)
            await settled()
            await client.fail(error)
            assert codes(told) == [code] * 2
            told.clear()
        talk.ask("c", told.append)
        await settled()
        await client.answer()
        assert told == ["answer to c"]

    asyncio.run(story())


def test_close_tells_each_asker_and_later_ones_at_once() -> None:
    async def story() -> None:
        client, talk = conversation()
        told: list[Answer] = []
        talk.ask("a", told.append)
        await settled()
        talk.ask("b", told.append)
        talk.close()
        await settled()
        assert codes(told) == [ErrorCode.NETWORK_EXCEPTION] * 2
        assert client.closed
        assert client.asked == [["a"]]
        talk.ask("c", told.append)
        assert codes(told) == [ErrorCode.NETWORK_EXCEPTION] * 3

    asyncio.run(story())


def test_questions_of_a_request_that_met_a_bug_go_out_with_the_next() -> None:
    async def story() -> None:
        failing: list[Exception] = [ZeroDivisionError()]

        async def exchange(peer: Peer, questions: Sequence[str]) -> Sequence[str]:
            if failing:
                raise failing.pop()
            return questions

        client: Any = HandClient()
        peer = Peer(client, fixed(Address("there", 1)))
        talk: Conversation[str, str] = Conversation(peer, exchange, run, limits=Limits(1, 1))
        told: list[Answer] = []
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        talk.ask("a", told.append)
        await settled()
        assert told == []
        talk.ask("b", told.append)
        await settled()
        assert told == ["a", "b"]

    asyncio.run(story())


def test_a_later_registration_of_a_broker_has_another_conversation() -> None:
    """An asker of the former one that asks again at once is answered by the new one."""

    class Talk:
        def __init__(self) -> None:
            self.closed = False

        def close(self) -> None:
            self.closed = True
            asked_again.append(known.of(later, Talk))

    known: Registrations[Talk] = Registrations()
    asked_again: list[Talk] = []
    former = BrokerInfo(BrokerId(1), (Endpoint("L", "x", 1),), None, 1)
    later = BrokerInfo(BrokerId(1), (Endpoint("L", "x", 2),), None, 1)
    first = known.of(former, Talk)
    assert known.of(former, Talk) is first
    second = known.of(later, Talk)
    assert first.closed
    assert asked_again == [second]
    known.keep([later])
    assert not second.closed


def test_a_broker_that_registered_again_is_asked_again() -> None:
    """An asker of its former incarnation is told at once, whatever happens to that connection."""

    async def story(cluster: SimCluster) -> None:
        for number in (1, 2):
            await cluster.start(number)
        broker = cluster.brokers[1].broker
        among = cluster.brokers[1].cluster_links
        assert among is not None
        remote = among.replicating.others.transactions
        assert isinstance(remote, RemoteTransactions)
        while BrokerId(2) not in broker.image.brokers:  # noqa: ASYNC110 - so soon
            await asyncio.sleep(0.01)
        told: list[tuple[TopicPartition, ErrorCode]] = []

        def done(partition: TopicPartition, error: ApiError | None) -> None:
            told.append((partition, ErrorCode.NONE if error is None else error.code))

        cluster.network.cut("broker-2", "broker-1")
        remote.write_markers(BrokerId(2), Marker(7, 0, True, 1), [HERE], done)
        await asyncio.sleep(0.1)
        assert told == []
        known = broker.image.brokers[BrokerId(2)]
        again = BrokerInfo(known.broker_id, known.endpoints, known.rack, known.epoch + 1)
        broker.publish(ImageDelta(brokers=[broker.image.brokers[BrokerId(1)], again]))
        assert told == [(HERE, ErrorCode.NETWORK_EXCEPTION)]
        cluster.network.mend("broker-2", "broker-1")
        remote.write_markers(BrokerId(2), Marker(7, 0, True, 1), [HERE], done)
        await asyncio.sleep(1)
        assert told[1:] == [(HERE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        gone = BrokerInfo(known.broker_id, (Endpoint("OTHER", "x", 1),), None, 99)
        broker.publish(ImageDelta(brokers=[broker.image.brokers[BrokerId(1)], gone]))
        remote.write_markers(BrokerId(2), Marker(7, 0, True, 1), [HERE], done)
        assert told[2:] == [(HERE, ErrorCode.NETWORK_EXCEPTION)], "it has no listener for brokers"
        for number in (1, 2):
            await cluster.stop(number)

    loop = SimLoop(1)
    loop.play(story(SimCluster(loop, 1)))


def test_a_marker_is_given_up_on_a_broker_that_does_not_answer_once_it_leads_no_longer() -> None:
    """Of what it leads still, the answer is waited for; each partition is told of once."""

    async def story(cluster: SimCluster) -> None:
        for number in (1, 2):
            await cluster.start(number)
        wanted = [NewTopic("t", assignment=dict.fromkeys(range(2), (BrokerId(2),)))]
        (made,) = await cluster.controller().create_topics(wanted)
        assert isinstance(made, TopicInfo)
        broker = cluster.brokers[1].broker
        among = cluster.brokers[1].cluster_links
        assert among is not None
        told: list[tuple[TopicPartition, ErrorCode]] = []

        def done(partition: TopicPartition, error: ApiError | None) -> None:
            told.append((partition, ErrorCode.NONE if error is None else error.code))

        cluster.network.cut("broker-2", "broker-1")
        others = among.replicating.others.transactions
        others.write_markers(BrokerId(2), Marker(7, 0, True, 1), [HERE, THERE], done)
        await asyncio.sleep(0.1)
        broker.publish(ImageDelta(topics=[made]))
        assert told == []
        moved = replace(made.partitions[0], leader=BrokerId(1), leader_epoch=LeaderEpoch(1))
        broker.publish(ImageDelta(partitions={"t": [moved]}))
        assert told == [(HERE, ErrorCode.NETWORK_EXCEPTION)]
        cluster.network.mend("broker-2", "broker-1")
        await asyncio.sleep(1)
        assert told[1:] == [(THERE, ErrorCode.NONE)]
        observers = len(broker.image.observers)
        others.close()
        assert len(broker.image.observers) == observers - 2
        vars(among.replicating.others).pop("transactions")
        for number in (1, 2):
            await cluster.stop(number)

    loop = SimLoop(1)
    loop.play(story(SimCluster(loop, 1)))
