"""`--value-schema`: values are printed as the schema has them, refused ones by `--mode`."""

import json

import pytest

from headrace.cli.records.typed_values import typed_formatter, typed_values
from headrace.model.nouns import TopicPartition
from headrace.record.record import Record
from headrace.terminal.failure import CommandError, UsageError
from headrace.terminal.record_formats import text_formatter

pytest.importorskip("pyarrow")

PLACE = TopicPartition("t", 3)
DDL = "id BIGINT NOT NULL, price DECIMAL(20,2), at TIMESTAMP"
SOUND = b'{"at":"2026-11-28T10:00:00+02:00","id":1,"price":12345678901234567.25,"more":1}'
TYPED = '{"id":1,"price":12345678901234567.25,"at":"2026-11-28T08:00:00Z"}'


def records(*values: bytes | None) -> list[Record]:
    return [Record(5 + at, 7, b'"value":null', value) for at, value in enumerate(values)]


def pieces(
    mode: str | None, given: list[Record], ddl: str = DDL, text: str | None = "%o %v\n"
) -> list[tuple[str, int]]:
    plain = None if text is None else text_formatter(text)
    formatter = typed_formatter(typed_values(ddl, mode, ["offset"]), plain)
    return [(line.decode(), count) for line, count in formatter.pieces(PLACE, given)]


def test_values_are_printed_by_the_schema() -> None:
    assert pieces(None, records(SOUND, None)) == [(f"5 {TYPED}\n", 1), ("6 \n", 1)]


def test_json_has_the_fields_next_to_the_value() -> None:
    given = records(SOUND, None)
    given[0] = given[0]._replace(headers=[("h", None)])
    lines = [line for line, _ in pieces(None, given, text=None)]
    assert TYPED in lines[0], "digits are not lost on the way"
    first, tombstone = map(json.loads, lines)
    assert first == {
        "topic": "t", "partition": 3, "offset": 5, "timestamp": 7, "key": '"value":null',
        "value": SOUND.decode(), "headers": [{"key": "h", "value": None}],
        "fields": json.loads(TYPED),
    }  # fmt: skip
    assert (tombstone["value"], "fields" in tombstone) == (None, False)


def test_failfast_prints_the_records_before_the_refused_one() -> None:
    formatter = typed_formatter(typed_values(DDL, "failfast", ["offset"]), text_formatter("%o\n"))
    found = formatter.pieces(PLACE, records(SOUND, SOUND, b'{"id":"x"}', SOUND))
    assert [next(found), next(found)] == [(b"5\n", 1), (b"6\n", 1)]
    with pytest.raises(CommandError, match=r"^t-3@7: id: expected an integer, got .*--mode"):
        next(found)
    with pytest.raises(CommandError, match=r"^t-3@9: id: missing, but NOT NULL"):
        formatter(PLACE, Record(9, 7, None, b"{}"))


def test_permissive_prints_null_fields_and_the_text() -> None:
    ddl = f"{DDL}, _corrupt_record STRING"
    empty = '{"id":null,"price":null,"at":null,"_corrupt_record":"junk"}'
    sound = TYPED[:-1] + ',"_corrupt_record":null}'
    assert pieces("permissive", records(b"junk", SOUND), ddl) == [
        (f"5 {empty}\n", 1), (f"6 {sound}\n", 1),
    ]  # fmt: skip
    assert pieces("permissive", records(b"junk")) == [('5 {"id":null,"price":null,"at":null}\n', 1)]


def test_dropmalformed_leaves_refused_values_out_and_counts_them() -> None:
    found = pieces("dropmalformed", records(b"junk", SOUND, None, b"{}"))
    assert found == [("", 1), (f"6 {TYPED}\n", 1), ("7 \n", 1), ("", 1)]


def test_partitions_are_named_each_by_itself() -> None:
    formatter = typed_formatter(typed_values(DDL, None, ["offset"]), text_formatter("%p\n"))
    for partition in (1, 2):
        with pytest.raises(CommandError, match=f"^t-{partition}@5: "):
            list(formatter.pieces(TopicPartition("t", partition), records(b"junk")))


@pytest.mark.parametrize(
    ("ddl", "words"),
    [
        ("id LIGHT", "--value-schema: schema: expected a type"),
        ("_offset BIGINT", "--value-schema: _offset is a column of the record"),
        ("", "--value-schema: schema: no columns"),
    ],
)
def test_schema_that_cannot_be_used_is_a_usage_error(ddl: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        typed_values(ddl, None, ["offset"])
    assert str(refused.value).startswith(words)
