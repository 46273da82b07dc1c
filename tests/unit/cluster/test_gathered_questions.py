"""Questions to another broker: what goes out together, and what comes of those that are lost."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from headrace.broker.metadata_image import BrokerInfo, Endpoint, ImageDelta, TopicInfo
from headrace.client.transport.port import Address
from headrace.cluster.other_brokers.gathered_questions import Codes, GatheredQuestions
from headrace.cluster.other_brokers.transactions import RemoteTransactions
from headrace.cluster.topics.creation import NewTopic
from headrace.coordination.transactions.markers import Marker
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
CODES = {HERE: ErrorCode.NONE}


class Named(NamedTuple):
    key: str


class HandClient:
    """A client whose answers come when the test gives them."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.closed = False
        self._answer: asyncio.Future[Sequence[Codes]] | None = None

    async def link_to(self, address: Address) -> None:
        await asyncio.sleep(0)

    async def ask(self, link: None, questions: Sequence[Named]) -> Sequence[Codes]:
        self.asked.append([question.key for question in questions])
        self._answer = asyncio.get_running_loop().create_future()
        return await self._answer

    async def answer(self) -> None:
        assert self._answer is not None
        self._answer.set_result([CODES] * len(self.asked[-1]))
        await settled()

    def close(self) -> None:
        self.closed = True


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def run(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(work)


def questions() -> tuple[HandClient, GatheredQuestions[Named]]:
    client: Any = HandClient()
    call_of: Any = list
    return client, GatheredQuestions(client, Address("there", 1), call_of, run)


def test_what_is_asked_while_a_request_is_under_way_goes_out_with_the_next() -> None:
    async def story() -> None:
        client, gathered = questions()
        told: list[Codes | ApiError] = []
        for name in "abc":
            gathered.ask(Named(name), told.append)
        await settled()
        gathered.ask(Named("d"), told.append)
        await settled()
        assert (client.asked, told) == ([["a", "b", "c"]], [])
        gathered.ask(Named("e"), told.append)
        await client.answer()
        assert client.asked == [["a", "b", "c"], ["d", "e"]]
        await client.answer()
        assert told == [CODES] * 5
        gathered.ask(Named("f"), told.append)
        await settled()
        assert client.asked[2:] == [["f"]], "after a rest too"
        await client.answer()

    asyncio.run(story())


def test_questions_that_answers_cannot_tell_apart_go_one_after_the_other() -> None:
    async def story() -> None:
        client, gathered = questions()
        told: list[Codes | ApiError] = []
        for name in ("a", "b", "a"):
            gathered.ask(Named(name), told.append)
        await settled()
        await client.answer()
        await client.answer()
        assert client.asked == [["a", "b"], ["a"]]
        assert told == [CODES] * 3

    asyncio.run(story())


def test_who_waits_is_told_when_the_broker_is_asked_no_more() -> None:
    async def story() -> None:
        client, gathered = questions()
        told: list[Codes | ApiError] = []
        gathered.ask(Named("a"), told.append)
        await settled()
        gathered.ask(Named("b"), told.append)
        gathered.close()
        await settled()
        codes = [answer.code for answer in told if isinstance(answer, ApiError)]
        assert codes == [ErrorCode.NETWORK_EXCEPTION] * 2
        assert client.closed
        assert client.asked == [["a"]]

    asyncio.run(story())


def test_a_broker_that_registered_anew_is_asked_anew() -> None:
    """What waits for its former self is told at once, whatever becomes of that connection."""

    async def story(cluster: SimCluster) -> None:
        for number in (1, 2):
            await cluster.start(number)
        broker = cluster.brokers[1].broker
        among = cluster.brokers[1].among_brokers
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
        among = cluster.brokers[1].among_brokers
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
