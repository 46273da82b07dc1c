"""Elections and moves of partitions as they are asked for and answered on the wire."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.controller_port import Reassigning
from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.admin import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from headrace.model.nouns import BrokerId, TopicPartition
from tests.support.admin import MINUTE, ask, codes, nested, tell
from tests.support.net.served import served
from tests.support.processes.broker import Room

SHORT = timedelta(milliseconds=30)


def topics_of(version: int, **by_name: tuple[int, ...]) -> tuple[Any, ...]:
    api = served(elect_leaders)
    return tuple(
        nested(api, version, "TopicPartitions", topic=name, partitions=indexes)
        for name, indexes in by_name.items()
    )


def moves_of(version: int, name: str, index: int, *replicas: int) -> tuple[Any, ...]:
    api = served(alter_partition_reassignments)
    partition = nested(
        api, version, "ReassignablePartition", partition_index=index, replicas=replicas
    )
    return (nested(api, version, "ReassignableTopic", name=name, partitions=(partition,)),)


def test_what_takes_longer_than_the_client_waits_is_timed_out_and_goes_on(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 1)])
        async with here.controller._change:  # somebody else's change takes its time
            answer = await ask(
                here, served(elect_leaders), 2, election_type=0,
                topic_partitions=topics_of(2, t=(0,)), timeout=SHORT,
            )  # fmt: skip
            (topic,) = answer.replica_election_results
            assert codes(topic.partition_result) == ["REQUEST_TIMED_OUT"]
            answer = await ask(
                here, served(alter_partition_reassignments), 1,
                topics=moves_of(1, "t", 0, 0), timeout=SHORT,
            )  # fmt: skip
            assert codes([answer]) == ["NONE"]
            assert codes(answer.responses[0].partitions) == ["REQUEST_TIMED_OUT"]

    tell(tmp_path, story)


def test_partitions_of_one_topic_are_answered_together_in_the_order_asked(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 3), NewTopic("u", 1)])
        answer = await ask(
            here, served(elect_leaders), 2, election_type=1,
            topic_partitions=topics_of(2, u=(0,), t=(2, 0)), timeout=MINUTE,
        )  # fmt: skip
        found = [
            (topic.topic, [partition.partition_id for partition in topic.partition_result])
            for topic in answer.replica_election_results
        ]
        assert found == [("u", [0]), ("t", [2, 0])]

    tell(tmp_path, story)


@pytest.mark.parametrize(("asked", "told"), [(None, ["t", "u"]), ({"u": (0, 1)}, ["u"])])
def test_moves_are_told_of_by_topic_and_only_those_asked_about(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: dict[str, tuple[int, ...]] | None,
    told: list[str],
) -> None:
    one, two, three = BrokerId(1), BrokerId(2), BrokerId(3)
    moving = [
        Reassigning(TopicPartition(name, 1), (one, two, three), (three,), (one,))
        for name in ("t", "u")
    ]

    async def story(here: Room) -> None:
        api = served(list_partition_reassignments)
        monkeypatch.setattr(here.controller.replicas, "reassigning", lambda: moving)
        wanted = asked and tuple(
            nested(api, 0, "ListPartitionReassignmentsTopics", name=name, partition_indexes=indexes)
            for name, indexes in asked.items()
        )
        answer = await ask(here, api, 0, topics=wanted, timeout=MINUTE)
        assert codes([answer]) == ["NONE"]
        assert [topic.name for topic in answer.topics] == told
        (partition,) = answer.topics[0].partitions
        assert (partition.partition_index, partition.replicas) == (1, (1, 2, 3))
        assert (partition.adding_replicas, partition.removing_replicas) == ((3,), (1,))

    tell(tmp_path, story)


@pytest.mark.parametrize("factor_may_change", [True, False])
def test_whether_the_number_of_replicas_may_change_is_told_back(
    tmp_path: Path, factor_may_change: bool
) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic("t", 1)])
        answer = await ask(
            here, served(alter_partition_reassignments), 1, topics=moves_of(1, "t", 0, 0),
            allow_replication_factor_change=factor_may_change, timeout=MINUTE,
        )  # fmt: skip
        assert answer.allow_replication_factor_change is factor_may_change
        assert codes(answer.responses[0].partitions) == ["NONE"]

    tell(tmp_path, story)
