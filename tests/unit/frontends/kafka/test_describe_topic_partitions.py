"""DescribeTopicPartitions, page by page."""

from pathlib import Path

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.metadata import describe_topic_partitions
from tests.support.admin import ask, codes, nested, tell
from tests.support.net.served import served
from tests.support.processes.broker import Room

API = served(describe_topic_partitions)


def test_describe_topic_partitions_pages_through_everything_once(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        sizes = {"a": 3, "b": 1, "c": 4}
        await here.controller.create_topics([NewTopic(name, size) for name, size in sizes.items()])
        seen: list[tuple[str, int]] = []
        cursor = None
        pages = 0
        while True:
            answer = await ask(
                here, API, 0, topics=(), response_partition_limit=2,
                cursor=cursor,
            )  # fmt: skip
            pages += 1
            for topic in answer.topics:
                seen += [(topic.name, one.partition_index) for one in topic.partitions]
                assert all(one.eligible_leader_replicas == () for one in topic.partitions)
            if answer.next_cursor is None:
                break
            cursor = nested(
                API, 0, "Cursor",
                topic_name=answer.next_cursor.topic_name,
                partition_index=answer.next_cursor.partition_index,
            )  # fmt: skip
        assert seen == [(name, at) for name, size in sizes.items() for at in range(size)]
        assert pages == 4
        asked = tuple(nested(API, 0, "TopicRequest", name=name) for name in ("b", "nope", "a/b"))
        answer = await ask(
            here, API, 0, topics=asked, response_partition_limit=2000,
            cursor=None,
        )  # fmt: skip
        expected = {
            "a/b": "INVALID_TOPIC_EXCEPTION",
            "b": "NONE",
            "nope": "UNKNOWN_TOPIC_OR_PARTITION",
        }
        names = [topic.name for topic in answer.topics]
        assert dict(zip(names, codes(answer.topics), strict=True)) == expected

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("asked", "cursor", "code"),
    [
        (("b", "c"), ("a", 0), "INVALID_REQUEST"),
        (("b", "c"), ("b", -1), "INVALID_REQUEST"),
        (("b", "c"), ("c", 0), "NONE"),
    ],
)
def test_a_page_begins_at_a_topic_that_is_asked_for(
    tmp_path: Path, asked: tuple[str, ...], cursor: tuple[str, int], code: str
) -> None:
    async def story(here: Room) -> None:
        await here.controller.create_topics([NewTopic(name, 1) for name in "abc"])
        answer = await ask(
            here, API, 0, response_partition_limit=9,
            topics=tuple(nested(API, 0, "TopicRequest", name=name) for name in asked),
            cursor=nested(API, 0, "Cursor", topic_name=cursor[0], partition_index=cursor[1]),
        )  # fmt: skip
        named = asked if code != "NONE" else ("c",)
        assert [topic.name for topic in answer.topics] == list(named)
        assert set(codes(answer.topics)) == {code}
        assert answer.next_cursor is None

    tell(tmp_path, story)
