"""The Kafka topics of queues: partitions, replicas and settings."""

import pytest

from headrace.queues.model.arguments import queue_settings
from headrace.vhosts.queue_topics import new_topic, topic_config


@pytest.mark.parametrize(("replicas", "least"), [((3, 1), "2"), ((3, 1, 2), "2"), (range(5), "3")])
def test_writes_of_a_replicated_queue_need_a_majority(replicas: list[int], least: str) -> None:
    settings = queue_settings({}, "queue")
    topic = new_topic("t", settings, replicas)
    assert topic.assignment == {0: tuple(replicas)}
    assert topic.config["min.insync.replicas"] == least
    assert topic.config["unclean.leader.election.enable"] == "false"


def test_queue_with_priorities_has_a_partition_for_each() -> None:
    settings = queue_settings({"x-max-priority": 3}, "queue")
    topic = new_topic("t", settings, [2])
    assert topic.assignment == dict.fromkeys(range(4), (2,))
    assert topic.config == topic_config(settings)
