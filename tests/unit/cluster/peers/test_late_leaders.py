"""Topics whose leaders answer late: who asked for them waits as long as he wants, nobody else."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headrace.client.calls.call import ColdCall, Maker
from headrace.cluster.peers.order_channels import ANSWER_SECONDS_MAX
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.kafka.api import ApiKey
from tests.support.cluster.peer_kit import Asker, cut_off, mend, play, started

ZERO, ONE = BrokerId(0), BrokerId(1)
A_WAY = 1.0
"""More than any message is under way."""


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("late", [True, False], ids=["in time", "never"])
def test_who_creates_a_topic_waits_for_its_late_leader_as_long_as_he_asks_to(late: bool) -> None:
    """And only he does: the controller goes on meanwhile."""

    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        cut_off(cluster, 0, 1)
        began = now()
        wanted = [NewTopic(name, assignment={0: [number]}) for name, number in
                  (("t", ONE), ("u", ZERO))]  # fmt: skip
        creating = asyncio.ensure_future(
            cluster.controller().create_topics(wanted, wait_seconds=10.0)
        )
        await asyncio.sleep(ANSWER_SECONDS_MAX + A_WAY)
        assert not isinstance(
            (await cluster.controller().create_topics([NewTopic("v", assignment={0: [ZERO]})]))[0],
            ApiError,
        )
        assert not creating.done()
        if late:
            mend(cluster, 0, 1)
        outcome = await creating
        assert not isinstance(outcome[1], ApiError)
        if late:
            assert now() - began < 10.0 - A_WAY
            assert not isinstance(outcome[0], ApiError)
            assert ("t", 0) in cluster.brokers[1].broker.partitions
        else:
            assert 10.0 <= now() - began < 10.0 + A_WAY
            assert isinstance(outcome[0], ApiError)
            assert outcome[0].code is ErrorCode.REQUEST_TIMED_OUT
            mend(cluster, 0, 1)

    play(story)


def test_a_request_to_create_topics_waits_for_late_leaders_until_its_own_timeout() -> None:
    async def story(cluster: SimCluster) -> None:
        await started(cluster, 0, 1)
        cut_off(cluster, 0, 1)
        asker = Asker(cluster, 0)
        for name, seconds in (("t", 5.0), ("u", 1.0)):
            began = now()
            answers = await asker.call(creation({name: ONE, f"{name}-here": ZERO}, seconds))
            assert now() - began < seconds + A_WAY
            if seconds > ANSWER_SECONDS_MAX:
                assert now() - began > seconds - A_WAY
                assert answers == {
                    name: ErrorCode.REQUEST_TIMED_OUT, f"{name}-here": ErrorCode.NONE
                }  # fmt: skip
        began = now()
        asyncio.get_running_loop().call_later(4.0, mend, cluster, 0, 1)
        assert await asker.call(creation({"v": ONE}, 20.0)) == {"v": ErrorCode.NONE}
        assert now() - began < 10.0
        asker.close()

    play(story)


def creation(leaders: dict[str, BrokerId], seconds: float) -> ColdCall[dict[str, ErrorCode]]:
    def build(maker: Maker) -> Any:
        topics = tuple(
            maker.part(
                "CreatableTopic", name=name, num_partitions=-1, replication_factor=-1, configs=(),
                assignments=(maker.part(
                    "CreatableReplicaAssignment", partition_index=0, broker_ids=(leader,)
                ),),
            )
            for name, leader in leaders.items()
        )  # fmt: skip
        return maker.request(topics=topics, timeout=timedelta(seconds=seconds), validate_only=False)

    def parse(response: Any) -> dict[str, ErrorCode]:
        return {topic.name: ErrorCode(topic.error_code) for topic in response.topics}

    return ColdCall(ApiKey.CREATE_TOPICS, build, parse, versions=(7, 7))
