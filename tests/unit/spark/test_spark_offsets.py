"""What a checkpoint holds: it survives, older releases' are read, another source's are refused."""

import json
from typing import Any

import pytest

from headrace.model.nouns import TopicPartition
from headrace.spark.errors import SourceError
from headrace.spark.source.offsets import Position, id_of_text, starting_offsets, text_of_id

ONE, TWO = TopicPartition("b", 10), TopicPartition("a", 2)


def test_a_position_survives_json_and_always_reads_the_same() -> None:
    more: dict[str, Any] = {
        "cluster": "c",
        "parts": {ONE: 3},
        "skipped": {TWO: (4, 7)},
        "first": {ONE: 2, TWO: 0},
        "earliest": True,
    }
    position = Position("h:1", {ONE: 5, TWO: 7}, "g", {"b": "id"}, {TWO: 0}, **more)
    said = json.dumps(position.to_json())
    assert Position.of_json(json.loads(said)) == position
    turned = Position("h:1", {TWO: 7, ONE: 5}, "g", {"b": "id"}, {TWO: 0}, **more)
    assert json.dumps(turned.to_json()) == said


def test_offsets_of_the_first_release_are_read() -> None:
    old = {
        "headrace": {
            "bootstrap": "h:1",
            "group": "g",
            "ids": {"b": "id"},
            "added": {"a": {"2": 1}},
        },
        "offsets": {"a": {"2": 7}, "b": {"10": 5}},
    }
    position = Position.of_json(old)
    assert position == Position("h:1", {ONE: 5, TWO: 7}, "g", {"b": "id"}, {TWO: 1})
    assert position.parts is None
    assert position.to_json() == old


@pytest.mark.parametrize(
    "said", [{"t": {"0": 1}}, {"headrace": {"bootstrap": "h:1"}}, {"headrace": 1, "offsets": {}}]
)
def test_another_sources_offsets_are_refused(said: dict[str, object]) -> None:
    with pytest.raises(SourceError, match="no offsets of this source"):
        Position.of_json(said)


def test_topic_ids_are_written_as_kafkas_tools_print_them() -> None:
    topic_id = bytes(range(240, 256))
    assert text_of_id(topic_id) == "8PHy8_T19vf4-fr7_P3-_w"
    assert id_of_text(text_of_id(topic_id)) == topic_id
    for text in ("short", ""):
        with pytest.raises(SourceError, match="which is no topic id"):
            id_of_text(text)


def test_where_to_go_on_is_what_startingoffsets_takes() -> None:
    end = json.dumps(Position("b:1", {TopicPartition("orders", 1): 7}).to_json())
    assert starting_offsets([end]) == '{"orders":{"1":7}}'
    for other in ([], [end, end], ["-"], ['{"logOffset":3}']):
        assert starting_offsets(other) == ""


def test_the_text_is_the_same_in_whatever_order_topics_were_found() -> None:
    one, other = TopicPartition("a", 0), TopicPartition("b", 10)
    ids = {"a": "x", "b": "y"}
    position = Position("h:1", {one: 1, other: 2}, ids=ids, added={one: 1, other: 2}, parts={})
    turned = Position(
        "h:1",
        {other: 2, one: 1},
        ids=dict(reversed(ids.items())),
        added={other: 2, one: 1},
        parts={},
    )
    assert json.dumps(turned.to_json()) == json.dumps(position.to_json())
    assert position.to_json()["headrace"]["parts"] == {}, "cut by nothing, and that is known"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 21, "A" * 24])
def test_an_id_of_another_length_is_none(text: str) -> None:
    with pytest.raises(SourceError, match="is no topic id"):
        id_of_text(text)
