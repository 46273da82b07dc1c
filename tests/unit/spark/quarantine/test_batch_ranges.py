"""The ranges of offsets that a batch reads, from its query's checkpoint."""

import json
from pathlib import Path

import pytest

from headrace.model.nouns import TopicPartition
from headrace.spark.source.checkpoint import ranges_of_batch, topic_ids_of_batch
from headrace.spark.source.offsets import Position


def at(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(topic, partition)


def plan(checkpoint: Path, batch: int, *positions: Position | str) -> None:
    (checkpoint / "offsets").mkdir(exist_ok=True)
    lines = [each if isinstance(each, str) else json.dumps(each.to_json()) for each in positions]
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(["v1", '{"conf":{}}', *lines]))


def test_a_batch_reads_from_the_end_of_the_one_before(tmp_path: Path) -> None:
    plan(tmp_path, 0, Position("b", {at("t", 0): 5, at("u", 0): 1}))
    added = Position("b", {at("t", 0): 9, at("t", 1): 4, at("u", 0): 3}, added={at("t", 1): 2})
    plan(tmp_path, 1, added)
    assert ranges_of_batch(str(tmp_path), 1) == [
        (at("t", 0), 5, 9), (at("t", 1), 2, 4), (at("u", 0), 1, 3),
    ]  # fmt: skip
    recreated = Position("b", {at("t", 0): 3}, added={at("t", 0): 0})
    plan(tmp_path, 2, recreated)
    assert ranges_of_batch(tmp_path.as_uri(), 2) == [(at("t", 0), 0, 3)]


def test_each_source_of_a_query_has_its_ranges(tmp_path: Path) -> None:
    plan(tmp_path, 4, Position("b", {at("t", 0): 5}), Position("b", {at("t", 0): 6}))
    plan(tmp_path, 5, Position("b", {at("t", 0): 7}), Position("b", {at("t", 0): 8}))
    assert ranges_of_batch(str(tmp_path), 5) == [(at("t", 0), 5, 7), (at("t", 0), 6, 8)]


@pytest.mark.parametrize("before", ["missing", "another source", "no source"])
def test_ranges_that_are_not_known_are_none(tmp_path: Path, before: str) -> None:
    plan(tmp_path, 3, Position("b", {at("t", 0): 5}))
    if before == "another source":
        plan(tmp_path, 2, '{"t":{"0":4}}')
    elif before == "no source":
        plan(tmp_path, 2, "-")
    assert ranges_of_batch(str(tmp_path), 3) == []
    assert ranges_of_batch(str(tmp_path), 0) == []


def test_topics_of_a_batch_have_the_ids_that_its_plan_names(tmp_path: Path) -> None:
    known = Position("b", {at("t", 0): 5}, ids={"t": "id-t"})
    plan(tmp_path, 4, known, Position("b", {at("u", 0): 6}, ids={"u": "id-u"}))
    assert topic_ids_of_batch(str(tmp_path), 4) == {"t": "id-t", "u": "id-u"}
    assert topic_ids_of_batch(str(tmp_path), 5) == {}
    plan(tmp_path, 6, '{"another": "source"}')
    assert topic_ids_of_batch(str(tmp_path), 6) == {}
