"""Offsets to tasks: shares add up, splits cover their range once, and say the same every time."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.offsets import Position
from headrace.spark.plan import OffsetRange, limit_bytes, limit_rows, split

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
    tasks = split(ranges, least, most)
    assert tasks == split(list(reversed(ranges)), least, most)
    covered = [(task.partition, at) for task in tasks for at in range(task.begin, task.end)]
    assert covered == sorted(
        (one.partition, at) for one in ranges for at in range(one.begin, one.end)
    )
    assert all(task.size > 0 for task in tasks)
    if most:
        assert all(task.size <= most for task in tasks)
    if least:
        assert len(tasks) >= min(least, len(covered))


def test_a_position_survives_json_and_always_reads_the_same() -> None:
    one, two = TopicPartition("b", 10), TopicPartition("a", 2)
    position = Position("h:1", {one: 5, two: 7}, "g", {"b": "id"}, {two: 0})
    said = json.dumps(position.to_json())
    assert Position.of_json(json.loads(said)) == position
    turned = Position("h:1", {two: 7, one: 5}, "g", {"b": "id"}, {two: 0})
    assert json.dumps(turned.to_json()) == said
    with pytest.raises(SourceError, match="no offsets of this source"):
        Position.of_json({"t": {"0": 1}})
