"""Where a batch begins after the one before: what is loss, what is none, whose checkpoint it is."""

from collections.abc import Iterable

import pytest

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.source.offsets import Ends, Position
from headrace.spark.source.options import Strategy, Subscription
from headrace.spark.source.resume import Resumption, refuse_another_origin, resume, skip_older

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
BOTH = Subscription(Strategy.SUBSCRIBE, topics=("a", "b"))
IDS = {"a": "id-a", "b": "id-b"}


def at(offsets: Ends, ids: dict[str, str] | None = None, cluster: str = "c1") -> Position:
    known = {topic: id_ for topic, id_ in IDS.items() if any(topic == p.topic for p in offsets)}
    return Position("h:1", offsets, ids=known if ids is None else ids, cluster=cluster)


def resumed(
    before: Position,
    latest: Position,
    subscription: Subscription = BOTH,
    earliest: Ends | None = None,
    ends: Ends | None = None,
) -> Resumption:
    def looked_up(known: Ends) -> "object":
        def of(partitions: Iterable[TopicPartition]) -> Ends:
            return {partition: known[partition] for partition in partitions}

        return of

    return resume(before, latest, subscription, looked_up(earliest or {}), looked_up(ends or {}))  # type: ignore[arg-type]


def test_partitions_go_on_where_they_were() -> None:
    found = resumed(at({A0: 5, B0: 7}), at({A0: 9, B0: 7}))
    assert found == Resumption({A0: 5, B0: 7}, {})


def test_a_new_partition_begins_at_its_earliest_offset_and_above_0_something_is_missed() -> None:
    found = resumed(at({A0: 5}), at({A0: 9, A1: 4}), earliest={A1: 0})
    assert (found.begin, found.added, found.losses) == ({A0: 5, A1: 0}, {A1: 0}, [])
    found = resumed(at({A0: 5}), at({A0: 9, A1: 4}), earliest={A1: 3})
    assert found.losses == ["new partition a-1 starts at 3, not at 0"]


def test_a_topic_made_again_is_loss_and_begins_anew() -> None:
    again = at({A0: 900}, {"a": "other"})
    found = resumed(at({A0: 5}), again, earliest={A0: 2})
    assert (found.begin, found.added) == ({A0: 2}, {A0: 2})
    assert found.losses == ["a was deleted and made again since it was read"]


def test_a_log_that_ends_before_what_was_read_is_loss_and_goes_on_at_its_end() -> None:
    found = resumed(at({A0: 50}), at({A0: 20}), ends={A0: 20})
    assert (found.begin, found.added) == ({A0: 20}, {A0: 20})
    assert found.losses == ["a-0 ends at 20, it was read to 50"]


@pytest.mark.parametrize("high_watermark", [50, 60])
def test_an_open_transaction_that_holds_readers_back_is_no_loss(high_watermark: int) -> None:
    found = resumed(at({A0: 50}), at({A0: 20}), ends={A0: high_watermark})
    assert found == Resumption({A0: 50}, {})


def test_a_subscribed_partition_that_is_gone_is_loss_and_another_is_dropped() -> None:
    before, latest = at({A0: 5, A1: 6, B0: 7}), at({A0: 9})
    found = resumed(before, latest)
    assert found.losses == [
        "a-1 was read to 6 and is gone", "b-0 was read to 7 and is gone"
    ]  # fmt: skip
    found = resumed(before, latest, Subscription(Strategy.ASSIGN, assigned=(("a", (0,)),)))
    assert (found.losses, found.dropped) == ([], [A1, B0])
    found = resumed(before, latest, Subscription(Strategy.PATTERN, pattern="a|ab"))
    assert (found.losses, found.dropped) == (["a-1 was read to 6 and is gone"], [B0])


def test_what_is_older_than_the_start_is_skipped_and_nothing_is_read_again() -> None:
    found = resumed(at({A0: 5, A1: 30, B0: 7}), at({A0: 90, A1: 90, B0: 7}))
    skip_older(found, {A0: 60, A1: 20, B0: 7})
    assert found.begin == {A0: 60, A1: 30, B0: 7}
    assert found.added == {A0: 60}
    assert found.skipped == {A0: (5, 60)}


def test_another_clusters_checkpoint_is_refused() -> None:
    latest = at({A0: 9}, {"a": "other"}, cluster="c2")
    with pytest.raises(SourceError, match=r"of cluster c1 and h:1 is cluster c2: give the query a"):
        refuse_another_origin(at({A0: 5}), latest)
    refuse_another_origin(at({A0: 5}, cluster=""), latest)
    refuse_another_origin(at({A0: 5}), at({A0: 9}, {"a": "other"}))
    refuse_another_origin(at({A0: 5}), at({A0: 9}, cluster="c2"))  # its files were carried over
    with pytest.raises(SourceError, match="new checkpointLocation"):
        refuse_another_origin(at({A0: 5}, {}), at({A0: 9}, {}, cluster="c2"))


def test_other_topics_checkpoint_is_refused() -> None:
    with pytest.raises(SourceError, match="of a and the query reads b: give the query a new check"):
        refuse_another_origin(at({A0: 5}), at({B0: 9}))
    refuse_another_origin(at({A0: 5}), at({A0: 9, B0: 9}))
    refuse_another_origin(at({}), at({B0: 9}))
    refuse_another_origin(at({A0: 5}), at({}))


def test_a_new_partition_that_begins_at_0_misses_nothing_and_one_at_1_does() -> None:
    for earliest, losses in ((0, 0), (1, 1)):
        found = resumed(at({A0: 5}), at({A0: 9, A1: 9}), earliest={A1: earliest})
        assert (len(found.losses), found.begin[A1]) == (losses, earliest)


def test_a_topic_whose_id_nobody_tells_is_the_one_it_was() -> None:
    found = resumed(at({A0: 5}), at({A0: 9}, ids={}))
    assert (found.losses, found.begin) == ([], {A0: 5})


def test_a_log_that_ends_where_it_was_read_to_has_lost_nothing() -> None:
    found = resumed(at({A0: 5}), at({A0: 3}), ends={A0: 5})
    assert (found.losses, found.added, found.begin) == ([], {}, {A0: 5})


@pytest.mark.parametrize(("count", "others"), [(5, False), (6, True)])
def test_a_few_topics_are_named_and_more_are_said_to_be(count: int, others: bool) -> None:
    read = {TopicPartition(f"t{number}", 0): 1 for number in range(count)}
    with pytest.raises(SourceError) as refusal:
        refuse_another_origin(at(read), at({A0: 1}))
    assert ("and others" in str(refusal.value)) is others
    assert "t4" in str(refusal.value)
    assert "t5" not in str(refusal.value)


def test_a_partition_that_was_not_assigned_is_dropped_without_a_loss() -> None:
    only = Subscription(Strategy.ASSIGN, assigned=(("a", (0,)),))
    found = resumed(at({A0: 5, A1: 6}), at({A0: 9}), only)
    assert (found.dropped, found.losses) == ([A1], [])
