"""Retry topics in a query's checkpoint: what was deleted before any query read it."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import DataLossError
from headrace.spark.source.options import Strategy, Subscription
from headrace.spark.source.quarantine_topics import QuarantineTopics

SOURCE, RETRY = TopicPartition("t", 0), TopicPartition("shop.t.retry", 0)


def topics() -> QuarantineTopics:
    """Return the topics of a query that reads `t` and what is replayed of it."""
    options: Any = SimpleNamespace(
        quarantine=None, subscription=Subscription(Strategy.SUBSCRIBE, topics=("t",))
    )
    found = QuarantineTopics(options)
    found._subscription = Subscription(Strategy.SUBSCRIBE, topics=("t", "shop.t.retry"))
    return found


def test_replayed_records_deleted_before_a_query_read_them_are_loss() -> None:
    with pytest.raises(DataLossError) as raised:
        topics().refuse_unread_replays({SOURCE: 9}, {RETRY: 5})
    assert str(raised.value).startswith(
        "shop.t.retry-0: retention has deleted replayed records below offset 5 before the query"
        " read them"
    )


@pytest.mark.parametrize(
    ("before", "added"),
    [
        ({SOURCE: 9}, {RETRY: 0}),  # nothing was deleted
        ({SOURCE: 9}, {}),
        ({SOURCE: 9, RETRY: 3}, {RETRY: 5}),  # it was read, and made again since
        ({}, {SOURCE: 5}),  # a partition of the source's own
    ],
)
def test_other_changes_of_partitions_are_left_to_the_source(
    before: dict[TopicPartition, int], added: dict[TopicPartition, int]
) -> None:
    topics().refuse_unread_replays(before, added)


def test_deleted_retry_topic_is_new_again_and_loses_nothing() -> None:
    """The advice in the error: the next start makes the topic, whose first offset is 0."""
    topics().refuse_unread_replays({SOURCE: 9}, {SOURCE: 0, RETRY: 0})
