"""Offsets to tasks: shares add up, splits cover their range once, and say the same every time."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.nouns import TopicPartition
from headrace.spark.source.plan import (
    OffsetRange,
    Splitting,
    backlog,
    limit_bytes,
    limit_rows,
    parts_of,
    split,
)

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 9))
ends = st.dictionaries(partitions, st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)))


@given(ends, st.integers(1, 10**5))
def test_a_limited_batch_moves_on_and_hardly_exceeds_its_limit(
    spans: dict[TopicPartition, tuple[int, int]], rows: int
) -> None:
    begin = {one: first for one, (first, _) in spans.items()}
    latest = {one: first + size for one, (first, size) in spans.items()}
    limited = limit_rows(begin, latest, rows)
    assert limited.keys() == latest.keys()
    taken = {one: limited[one] - begin[one] for one in limited}
    assert all(0 <= taken[one] <= spans[one][1] for one in spans)
    behind = sum(size > 0 for _, size in spans.values())
    assert sum(taken.values()) <= rows + behind
    total = sum(size for _, size in spans.values())
    if total:
        assert sum(taken.values()) >= 1
    if total <= rows:
        assert limited == latest
    weights = dict.fromkeys(begin, 10.0)
    assert sum(limit_bytes(begin, latest, rows * 10, weights).values()) == sum(limited.values())


numbered_ranges = st.tuples(st.integers(0, 9), st.integers(0, 1000), st.integers(0, 500))


@given(
    st.lists(numbered_ranges, unique_by=lambda one: one[0]),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 300),
)
def test_splits_cover_every_offset_once_and_do_not_depend_on_order(
    given_ranges: list[tuple[int, int, int]], least: int | None, most: int | None
) -> None:
    ranges = [OffsetRange("t", number, first, first + size) for number, first, size in given_ranges]
    parts = parts_of(ranges, Splitting(least, most))
    tasks = split(ranges, parts)
    turned = list(reversed(ranges))
    assert parts_of(turned, Splitting(least, most)) == parts
    assert tasks == split(turned, parts)
    covered = [(task.partition, at) for task in tasks for at in range(task.begin, task.end)]
    assert covered == sorted(
        (one.partition, at) for one in ranges for at in range(one.begin, one.end)
    )
    assert all(task.size > 0 for task in tasks)
    if most:
        assert all(task.size <= most for task in tasks)
    if least:
        assert len(tasks) >= min(least, len(covered))


def test_a_range_with_large_records_is_cut_by_bytes() -> None:
    ranges = [OffsetRange("t", 0, 100, 200), OffsetRange("t", 1, 0, 100), OffsetRange("t", 2, 5, 5)]
    weights = {TopicPartition("t", 0): 1000.0, TopicPartition("t", 1): 10.0}
    parts = parts_of(ranges, Splitting(max_bytes=30_000), weights)
    assert parts == {TopicPartition("t", 0): 4}
    assert split(ranges, parts) == [
        OffsetRange("t", 0, 100, 125), OffsetRange("t", 0, 125, 150),
        OffsetRange("t", 0, 150, 175), OffsetRange("t", 0, 175, 200), OffsetRange("t", 1, 0, 100),
    ]  # fmt: skip
    few = [OffsetRange("t", 0, 0, 3)]
    assert parts_of(few, Splitting(max_bytes=1), weights) == {TopicPartition("t", 0): 3}
    assert parts_of([OffsetRange("t", 0, 0, 1)], Splitting(max_bytes=1), weights) == {}


A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_a_partition_of_which_nobody_knows_where_it_begins_has_no_backlog() -> None:
    assert backlog({A: 3}, {A: 10, B: 1000}) == {A: 7}
    assert backlog({A: 10}, {A: 10}) == {}


def test_the_smallest_backlog_moves_on_though_its_share_is_less_than_one() -> None:
    begin = {A: 0, B: 0}
    assert limit_rows(begin, {A: 1000, B: 1}, 10) == {A: 9, B: 1}
    assert limit_bytes(begin, {A: 1000, B: 1}, 10, {A: 1.0, B: 1.0}) == {A: 9, B: 1}


def test_a_batch_takes_all_that_is_no_more_than_its_limit() -> None:
    for size, end in ((9, 9), (10, 10), (11, 10)):
        assert limit_rows({A: 0}, {A: size}, 10) == {A: end}
        assert limit_bytes({A: 0}, {A: size}, 10, {A: 1.0}) == {A: end}


def test_bytes_are_shared_out_by_what_is_behind_not_by_partitions() -> None:
    limited = limit_bytes({A: 0, B: 0}, {A: 100, B: 100}, 1100, {A: 10.0, B: 100.0})
    assert limited == {A: 10, B: 10}


def test_as_many_ranges_as_asked_for_stay_whole() -> None:
    ranges = [OffsetRange("t", 0, 0, 90), OffsetRange("t", 1, 0, 10)]
    assert parts_of(ranges, Splitting(min_partitions=2)) == {}
    assert parts_of(ranges, Splitting(min_partitions=3)) == {TopicPartition("t", 0): 3}


def test_of_several_reasons_to_cut_the_one_that_cuts_most_counts() -> None:
    place = TopicPartition("t", 0)
    ranges = [OffsetRange("t", 0, 0, 100)]
    for splitting, parts in (
        (Splitting(max_records=10, max_bytes=1000), 10),
        (Splitting(max_records=50, max_bytes=10), 10),
        (Splitting(min_partitions=4, max_records=50), 4),
        (Splitting(max_records=99), 2),
    ):
        assert parts_of(ranges, splitting, {place: 1.0}) == {place: parts}
