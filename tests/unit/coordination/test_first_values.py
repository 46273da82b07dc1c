"""What groups and commits begin with, and which records are whose."""

from headrace.config.broker import load
from headrace.coordination.groups.consumer import records as consumer_records
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.messages import CommitRequest
from headrace.coordination.groups.modern.group import INITIAL_EPOCH
from headrace.coordination.groups.share import records as share_records
from headrace.coordination.groups.share.group import ShareGroup
from headrace.shards.shard import JournalLimits


def test_each_kind_of_group_replays_the_records_of_its_own_types() -> None:
    assert set(consumer_records.KEY_TYPES) == {3, 4, 5, 6, 7, 8, 16}
    assert set(share_records.KEY_TYPES) == {10, 11, 12, 13, 14, 15}


def test_a_new_group_knows_no_topics_and_has_no_target() -> None:
    for group in (ConsumerGroup("g"), ShareGroup("g")):
        assert (group.epoch, group.metadata_hash) == (INITIAL_EPOCH, 0)
        assert (group.target_epoch, group.target_timestamp_ms) == (INITIAL_EPOCH, 0)
        assert not group.members


def test_a_commit_that_says_nothing_of_retention_is_kept_as_the_broker_is_configured() -> None:
    commit = CommitRequest("g", -1, "", None, ())
    assert (commit.retention_ms, commit.version) == (-1, 9)


def test_a_batch_of_a_coordinator_is_half_of_what_a_topic_takes_by_default() -> None:
    """So that its head and one record more do not make it too large for the internal topics."""
    topic = load()[0].message_max_bytes
    assert JournalLimits(timeout_ms=1).bytes_max == 512 * 1024 <= topic // 2
