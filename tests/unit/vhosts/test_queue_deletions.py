"""Deleted queues of a cluster: their topics are deleted before their names are free."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import pytest

from headrace.cluster.peers.controller_link import ControllerLink
from headrace.cluster.peers.queue_topic_calls import Outcomes, QueueTopicChanges
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done
from headrace.queues.queue_names import QueueName, queue_topic
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.declarations.coordinator import Coordinator
from headrace.vhosts.declarations.messages import Answer, Command, CommandKind, Result
from headrace.vhosts.declarations.new_records import Deleted
from headrace.vhosts.declarations.queue_deletions import QueueDeletions
from headrace.wire.amqp.model_methods import QueueDeclare, QueueDelete
from tests.support.cluster.peer_kit import play, started
from tests.support.sim.amqp import serve_amqp
from tests.support.sim.cluster import until
from tests.unit.server.test_cluster_declarations import ask, declarations, shown
from tests.unit.vhosts.test_replicated_topics import publish

TOPIC = queue_topic("/", "q")
DECLARE, DELETE = QueueDeclare(queue="q", durable=True), QueueDelete(queue="q")
BROKERS = (0, 1, 2)


def played(story: Callable[[SimCluster], Awaitable[None]]) -> None:
    async def whole(cluster: SimCluster) -> None:
        serve_amqp(cluster)
        await started(cluster, *BROKERS)
        await story(cluster)

    play(whole)


def ids(cluster: SimCluster) -> list[str]:
    """Return the ids of the queue's topic on the brokers that have it."""
    images = [server.broker.image for server in cluster.brokers.values()]
    return [image.topics[TOPIC].topic_id.hex() for image in images if TOPIC in image.topics]


async def used(cluster: SimCluster, number: int) -> str:
    """Publish to the queue; return the id of its topic, which all brokers have."""
    publish(cluster, number)
    await until(lambda: len(ids(cluster)) == len(cluster.brokers))
    (topic_id,) = set(ids(cluster))
    return topic_id


def is_deleted(cluster: SimCluster, number: int) -> bool:
    """Whether a broker has nothing of the queue."""
    return not declarations(cluster, number).tables.of_vhost("/").records


class Held:
    """Requests to delete topics, held back until `go`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[QueueTopicChanges] = []
        self.go = asyncio.Event()
        change = ControllerLink.change_queue_topics

        async def held(link: ControllerLink, changes: QueueTopicChanges) -> Outcomes:
            if changes.deleted:
                self.asked.append(changes)
                await self.go.wait()
            return await change(link, changes)

        monkeypatch.setattr(ControllerLink, "change_queue_topics", held)


@pytest.mark.parametrize("known", [True, False])
def test_redeclared_queue_has_another_topic(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    if not known:  # as if the coordinator had not heard of the topic
        monkeypatch.setattr(Coordinator, "_topic_id", lambda *_: "")

    async def story(cluster: SimCluster) -> None:
        before: set[str] = set()
        for number in BROKERS:
            at = declarations(cluster, number)
            assert (await ask(at, DECLARE)).created
            assert TOPIC not in cluster.controller().broker.image.topics
            before.add(await used(cluster, number))
            await ask(declarations(cluster, (number + 1) % 3), DELETE)
            assert shown(at) == set()
        assert len(before) == len(BROKERS)
        await until(lambda: all(is_deleted(cluster, number) for number in BROKERS))
        await until(lambda: ids(cluster) == [])

    played(story)


def test_deletion_that_is_confirmed_late_does_not_delete_the_queue_of_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = QueueDeletions.begin
    begun: list[Callable[[], None]] = []

    def noted(deletions: QueueDeletions, shard: Any, queues: Mapping[bytes, Deleted]) -> None:
        begun.append(partial(begin, deletions, shard, dict(queues)))
        begin(deletions, shard, queues)

    monkeypatch.setattr(QueueDeletions, "begin", noted)

    async def story(cluster: SimCluster) -> None:
        at = declarations(cluster, 0)
        await ask(at, DECLARE)
        await used(cluster, 0)
        await ask(at, DELETE)
        await ask(at, DECLARE)
        later = await used(cluster, 1)
        for again in tuple(begun):
            again()
        await asyncio.sleep(5)
        assert shown(at) == {("queue", "q")}
        assert set(ids(cluster)) == {later}

    played(story)


def test_declaration_waits_for_the_deletion_of_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def story(cluster: SimCluster) -> None:
        at = declarations(cluster, 1)
        await ask(at, DECLARE)
        await used(cluster, 0)
        await ask(at, DELETE)
        declaring = asyncio.ensure_future(ask(declarations(cluster, 2), DECLARE))
        await asyncio.sleep(5)
        assert not declaring.done()
        assert held.asked
        assert shown(at) == set()
        held.go.set()
        assert (await declaring).created
        assert shown(at) == {("queue", "q")}
        assert TOPIC not in cluster.controller().broker.image.topics

    played(story)


def test_next_coordinator_continues_a_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)

    async def story(cluster: SimCluster) -> None:
        at = declarations(cluster, 0)
        await ask(at, DECLARE)
        await used(cluster, 0)
        leader = at.coordinator.leader_of("/")
        await ask(declarations(cluster, leader), DELETE)
        await until(lambda: held.asked)
        cluster.kill(leader)
        held.go.set()
        left = [number for number in BROKERS if number != leader]
        await until(lambda: all(is_deleted(cluster, number) for number in left))
        await until(lambda: ids(cluster) == [])

    played(story)


def test_late_request_of_a_former_coordinator_deletes_no_later_topic() -> None:
    async def story(cluster: SimCluster) -> None:
        at = declarations(cluster, 0)
        await ask(at, DECLARE)
        former = await used(cluster, 0)
        await ask(at, DELETE)
        await ask(at, DECLARE)
        await until(lambda: ids(cluster) == [])
        later = await used(cluster, 1)
        assert later != former
        for number in BROKERS:
            links = cluster.brokers[number].cluster_links
            assert links is not None
            for topic_id in (former, ""):
                changes = QueueTopicChanges(deleted={TOPIC: topic_id})
                (refused,) = await links.link.change_queue_topics(changes)
                assert isinstance(refused, ApiError)
                assert refused.code is ErrorCode.INCONSISTENT_TOPIC_ID
                assert refused.message == later
        assert set(ids(cluster)) == {later}

    played(story)


def test_deletion_that_the_controller_refuses_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    change = ControllerLink.change_queue_topics
    refusals = [ApiError(ErrorCode.NOT_CONTROLLER), ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)]

    async def refused(link: ControllerLink, changes: QueueTopicChanges) -> Outcomes:
        if not changes.deleted or not refusals:
            return await change(link, changes)
        refusal = refusals.pop()
        if refusals:
            raise refusal
        return [refusal]

    monkeypatch.setattr(ControllerLink, "change_queue_topics", refused)

    async def story(cluster: SimCluster) -> None:
        at = declarations(cluster, 0)
        await ask(at, DECLARE)
        await used(cluster, 0)
        await ask(at, DELETE)
        await ask(at, DECLARE)
        assert not refusals
        await until(lambda: ids(cluster) == [])

    played(story)


def test_queue_that_ends_by_itself_has_its_topic_deleted() -> None:
    async def story(cluster: SimCluster) -> None:
        at = declarations(cluster, 0)
        await ask(at, DECLARE)
        await used(cluster, 0)
        asked: list[object] = []
        at.ask(at.command("/", CommandKind.QUEUE_ENDED, DELETE), asked.append)
        await until(lambda: all(is_deleted(cluster, number) for number in BROKERS))
        await until(lambda: ids(cluster) == [])
        assert isinstance(asked[0], Result)
        assert at.planned(QueueName("/", "q")) == ()

    played(story)


def test_queue_that_was_declared_again_does_not_end_as_the_one_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: SimCluster) -> None:
        at = declarations(cluster, 0)
        await ask(at, DECLARE)
        leader = at.coordinator.leader_of("/")
        other = declarations(cluster, next(number for number in BROKERS if number != leader))
        lost: list[Command] = []

        def lose(command: Command, done: Done[Answer | ApiError]) -> None:
            lost.append(command)
            done(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))

        with monkeypatch.context() as patched:
            patched.setattr(other._ask, "ask", lose)
            other._queue_ended("/", "q")
        assert len(lost) == 1
        await ask(at, DELETE)
        await ask(at, DECLARE)
        await asyncio.sleep(10)
        assert ("queue", "q") in shown(other)

    played(story)
