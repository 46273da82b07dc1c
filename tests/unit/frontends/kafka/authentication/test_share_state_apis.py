"""What brokers ask each other of share groups' state: each API, and what is refused."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from headrace.client.calls.call import ColdCall, Maker
from headrace.cluster.peers.share_state_calls import call_of
from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.questions import (
    Answer,
    Begin,
    Delete,
    Question,
    Read,
    ReadSummary,
    Write,
)
from headrace.coordination.share.share_states import ShareStates
from headrace.coordination.share.state_port import StateRead, StateSummary
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.record_states import RecordState, StateBatch
from headrace.frontends.kafka.authentication.authorisation import CLUSTER_ACTION
from headrace.model.errors import ApiError
from headrace.model.errors import ErrorCode as E
from headrace.model.nouns import SHARE_STATE_TOPIC
from headrace.shards.shard import ShardState
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.kafka.api import ApiKey
from tests.support.cluster.peer_kit import BROKERS, CLIENTS, Asker, play
from tests.support.security.authorisation import Rules
from tests.support.sim.cluster import until

ID = bytes(range(16))
KEY, OTHER = ShareKey("g", ID, 0), ShareKey("g", ID, 7)
DONE = StateBatch(5, 6, RecordState.ACKNOWLEDGED, 1)
AGAIN = StateBatch(8, 8, RecordState.AVAILABLE, 2)
EVERY_KIND: tuple[Question, ...] = (
    Begin(KEY, 1, 5), Read(KEY, 0), ReadSummary(KEY), Write(KEY, 1, 0, CursorState(5)), Delete(KEY),
)  # fmt: skip


async def begun(cluster: SimCluster) -> tuple[ShareStates, Asker]:
    """One broker that keeps all state, and who asks it as a broker."""
    server = await cluster.start(0)
    await server.controller.ensure_internal_topic(SHARE_STATE_TOPIC)
    states = server.coordinators.share.states
    await until(lambda: len(list(states.led)) == 3)
    await until(lambda: all(shard.state is ShardState.ACTIVE for shard in states.led))
    return states, Asker(cluster, 0)


def codes(answers: Sequence[Answer]) -> list[E]:
    return [answer.code if isinstance(answer, ApiError) else E.NONE for answer in answers]


def test_state_begins_once_in_an_epoch_and_is_deleted() -> None:
    async def story(cluster: SimCluster) -> None:
        _, asker = await begun(cluster)

        async def ask(*questions: Question) -> Sequence[Answer]:
            return await asker.call(call_of(questions))

        assert codes(await ask(Begin(KEY, 3, 5), Begin(OTHER, 3, NOT_SET))) == [E.NONE, E.NONE]
        assert codes(await ask(Write(KEY, 3, 1, CursorState(7)))) == [E.NONE]
        # The same asked again, and what leaves as it is what is kept.
        assert codes(await ask(Begin(KEY, 3, 5), Begin(OTHER, 3, NOT_SET))) == [E.NONE, E.NONE]
        assert codes(await ask(Begin(KEY, 4, NOT_SET))) == [E.NONE]
        assert codes(await ask(Begin(KEY, 2, 5))) == [E.FENCED_STATE_EPOCH]
        assert await ask(Read(KEY, 1)) == [StateRead(3, CursorState(7))]
        assert await ask(Read(OTHER, 1)) == [StateRead(3, CursorState(NOT_SET))]
        assert codes(await ask(Begin(KEY, 4, 2))) == [E.NONE]
        assert await ask(Read(KEY, 1)) == [StateRead(4, CursorState(2))]
        for _ in range(2):
            assert await ask(Delete(KEY)) == [None]
        assert await ask(Read(KEY, 1), Read(OTHER, 1)) == [
            None, StateRead(3, CursorState(NOT_SET)),
        ]  # fmt: skip

    play(story)


@pytest.mark.parametrize("version", [0, 1])
def test_who_leads_reads_what_was_written_and_leaders_before_are_refused(version: int) -> None:
    async def story(cluster: SimCluster) -> None:
        states, asker = await begun(cluster)

        async def ask(question: Question) -> Answer:
            call = call_of([question])
            if isinstance(question, Write):
                call.versions = version, version
            (answer,) = await asker.call(call)
            return answer

        await ask(Begin(KEY, 2, 5))
        change = CursorState(5, (DONE, AGAIN), 2)
        assert await ask(Write(KEY, 2, 4, change)) is None
        kept = states.led.of(KEY.coordinated_by).read(KEY)
        assert kept is not None
        assert kept.complete == (2 if version else 0)
        assert await ask(Read(KEY, 4)) == StateRead(2, CursorState(5, (DONE, AGAIN)))
        assert await ask(Read(KEY, 6)) == StateRead(2, CursorState(5, (DONE, AGAIN)))
        for late in (Write(KEY, 2, 4, CursorState(7)), Read(KEY, 5)):
            assert codes([await ask(late)]) == [E.FENCED_LEADER_EPOCH]
        assert codes([await ask(Write(KEY, 1, 6, CursorState(7)))]) == [E.FENCED_STATE_EPOCH]
        unknown = await ask(Write(OTHER, 2, 6, CursorState(7)))
        assert codes([unknown]) == [E.UNKNOWN_TOPIC_OR_PARTITION]
        assert await ask(Write(KEY, 2, 6, CursorState(7))) is None
        assert await ask(Read(KEY, 6)) == StateRead(2, CursorState(7, (AGAIN,)))

    play(story)


@pytest.mark.parametrize("version", [0, 1])
def test_how_far_a_group_is_is_told_in_every_version(version: int) -> None:
    async def story(cluster: SimCluster) -> None:
        _, asker = await begun(cluster)
        await asker.call(call_of([Begin(KEY, 2, 5)]))
        await asker.call(call_of([Write(KEY, 2, 4, CursorState(5, (DONE,), 2))]))
        call = call_of([ReadSummary(OTHER), ReadSummary(KEY)])
        call.versions = version, version
        assert await asker.call(call) == [None, StateSummary(2, 4, 5, 2 if version else 0)]

    play(story)


def test_what_a_leader_was_told_is_kept_by_the_next_coordinator_too() -> None:
    """A read is durable: who led before is refused after the coordinator has restarted."""

    async def story(cluster: SimCluster) -> None:
        _, asker = await begun(cluster)
        await asker.call(call_of([Begin(KEY, 2, 5)]))
        await asker.call(call_of([Write(KEY, 2, 4, CursorState(5))]))
        await asker.call(call_of([Read(KEY, 6)]))
        asker.close()
        await cluster.cut_power(0)
        _, asker = await begun(cluster)
        (late,) = await asker.call(call_of([Write(KEY, 2, 4, CursorState(7))]))
        assert codes([late]) == [E.FENCED_LEADER_EPOCH]

    play(story)


@pytest.mark.parametrize("question", EVERY_KIND, ids=lambda question: type(question).__name__)
@pytest.mark.parametrize("why", ["another listener", "not permitted"])
def test_whoever_is_no_broker_is_refused_and_nothing_is_done(question: Question, why: str) -> None:
    async def story(cluster: SimCluster) -> None:
        states, _ = await begun(cluster)
        if why == "not permitted":
            cluster.brokers[0].broker.authorizer = Rules(CLUSTER_ACTION)
        asker = Asker(cluster, 0, CLIENTS if why == "another listener" else BROKERS)
        answers = await asker.call(call_of([question]))
        assert codes(answers) == [E.CLUSTER_AUTHORIZATION_FAILED]
        assert states.led.of(KEY.coordinated_by).read(KEY) is None

    play(story)


@pytest.mark.parametrize("question", EVERY_KIND, ids=lambda question: type(question).__name__)
def test_who_does_not_keep_it_says_so_at_once(question: Question) -> None:
    async def story(cluster: SimCluster) -> None:
        states, asker = await begun(cluster)
        index = states.partition_for(KEY)
        shard = states.led.at(index)
        assert shard is not None
        shard.state = ShardState.LOADING
        answers = await asker.call(call_of([question]))
        assert codes(answers) == [E.COORDINATOR_LOAD_IN_PROGRESS]
        shard.state = ShardState.ACTIVE
        states.led.resign(index)
        assert codes(await asker.call(call_of([question]))) == [E.NOT_COORDINATOR]

    play(story)


@pytest.mark.parametrize(
    "question",
    [
        Read(KEY._replace(group=""), 0),
        Read(KEY._replace(topic_id=bytes(16)), 0),
        Read(KEY._replace(partition=-1), 0),
        Begin(KEY, -1, 5),
        Begin(KEY, 0, -2),
        Write(KEY, 0, 0, CursorState(0, (StateBatch(6, 5, RecordState.AVAILABLE, 1),))),
        Write(KEY, 0, 0, CursorState(0, (StateBatch(-1, 5, RecordState.AVAILABLE, 1),))),
        Write(KEY, 0, 0, CursorState(0, (StateBatch(1, 5, RecordState.ACQUIRED, 1),))),
        Write(KEY, 0, 0, CursorState(0, (StateBatch(1, 5, RecordState.AVAILABLE, -1),))),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(question: Question) -> None:
    async def story(cluster: SimCluster) -> None:
        _, asker = await begun(cluster)
        await asker.call(call_of([Begin(KEY, 0, 0)]))
        answers = await asker.call(call_of([question]))
        assert codes(answers) == [E.INVALID_REQUEST]

    play(story)


def test_a_partition_named_twice_is_answered_twice() -> None:
    def build(maker: Maker) -> Any:
        parts = tuple(maker.part("PartitionData", partition=0) for _ in range(2))
        topic = maker.part("DeleteStateData", topic_id=UUID(bytes=ID), partitions=parts)
        return maker.request(group_id="g", topics=(topic,))

    def parse(response: Any) -> list[tuple[int, int]]:
        (topic,) = response.results
        return [(part.partition, part.error_code) for part in topic.partitions]

    async def story(cluster: SimCluster) -> None:
        _, asker = await begun(cluster)
        call = ColdCall(ApiKey.DELETE_SHARE_GROUP_STATE, build, parse, versions=(0, 0))
        assert await asker.call(call) == [(0, 0), (0, 0)]

    play(story)
