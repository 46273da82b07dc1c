"""Edges of SQL on topics and of what is exported: samples, names, rows just enough."""

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.arrow.read.columns import HEADERS, schema
from headrace.arrow.sql.sql import TopicSql
from headrace.arrow.sql.sql_answer import Answer, _distinct
from headrace.arrow.sql.sql_columns import COLUMNS_MAX, expression, infer
from headrace.arrow.sql.topic_dataset import TopicDataset
from headrace.arrow.sql.topic_source import OpenTopic, Ranges
from headrace.arrow.write import topic_files
from headrace.arrow.write.json_lines import COLUMNS, json_lines
from headrace.arrow.write.topic_files import write_file
from headrace.model.errors import HeadraceError

duckdb = pytest.importorskip("duckdb")


def records(*values: bytes, partition: int = 0, base: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {"key": b"k", "value": value, "partition": partition, "offset": base + at,
             "timestamp": 1_700_000_000_000_000, HEADERS: None}
            for at, value in enumerate(values)
        ],
        schema=schema(COLUMNS),
    )  # fmt: skip


class Topic:
    """A topic of partitions with that many records each, a RecordBatch for each two."""

    def __init__(self, *counts: int) -> None:
        self.counts = counts
        self.error: HeadraceError | None = None

    def names(self) -> list[str]:
        return ["t"]

    def open(self, topic: str, isolation: Any) -> OpenTopic:
        ranges = {number: (0, count) for number, count in enumerate(self.counts)}
        return OpenTopic(topic, isolation, ranges, self._read)

    def _read(self, columns: Sequence[str], ranges: Ranges) -> Iterator[pa.RecordBatch]:
        for number, (begin, end) in ranges.items():
            for at in range(begin, end, 2):
                values = [b'{"n":%d}' % offset for offset in range(at, min(at + 2, end))]
                yield records(*values, partition=number, base=at).select(list(columns))
            if self.error is not None:
                raise self.error


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sample", "found"), [(1, [1, 1]), (3, [2, 2]), (6, [3, 3]), (99, [9, 5])])
def test_a_sample_is_of_all_partitions_and_not_less_than_asked(
    sample: int, found: list[int]
) -> None:
    topic = Topic(9, 0, 5)
    with TopicSql(topic, sample=sample) as session:
        batches = session._sampled(topic.open("t", "read_committed"))
    offsets = [batch.num_rows for batch in batches]
    assert sum(offsets) == sum(found)
    assert max(offsets) <= max(found)


@pytest.mark.parametrize(
    ("number", "kind"),
    [(-(2**63), "BIGINT"), (-(2**63) - 1, "JSON"), (2**63 - 1, "BIGINT"), (2**63, "JSON")],
)
def test_whole_numbers_of_64_bits_are_numbers(number: int, kind: str) -> None:
    assert infer([b'{"n":%d}' % number], ()).types == {"n": kind}


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_fields_become_columns_and_the_next_is_said(more: int) -> None:
    fields = {f"f{at}": at for at in range(COLUMNS_MAX + more)}
    found = infer([json.dumps(fields).encode()], ())
    assert (len(found.types), len(found.left_out)) == (COLUMNS_MAX, more)


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "more"), [(2, True), (3, False), (4, False)])
def test_there_are_more_rows_only_where_there_are(most: int, more: bool) -> None:
    relation = duckdb.connect().sql("select * from range(3)")
    rows, left = Answer(relation, lambda error: error).rows(most)
    assert (len(rows), left) == (min(most, 3), more)


def test_each_column_has_a_name_of_its_own() -> None:
    assert _distinct(["a", "a", "a_1", "a", "b"]) == ["a", "a_1", "a_1_1", "a_2", "b"]


def test_rows_are_counted_though_no_column_is_wanted() -> None:
    dataset = TopicDataset(Topic(5, 2).open("t", "read_committed"), as_text=frozenset())
    assert dataset.scanner(columns=[]).count_rows() == 7


def test_an_error_of_a_reading_is_the_querys() -> None:
    topic = Topic(3)
    with TopicSql(topic) as session:
        session.answer("select 1 from t")
        topic.error = HeadraceError("the broker is gone")
        with pytest.raises(HeadraceError, match="the broker is gone"):
            session.answer("select count(value) from t").rows(5)


# --- files ----------------------------------------------------------------------------------------


def row_line(row: dict[str, Any]) -> bytes:
    raise AssertionError("a plain row needs no line of its own")


@pytest.mark.parametrize("control", [[], [b"\x01", b"\x1f"]])
def test_texts_in_lines_of_json_are_read_back(control: list[bytes]) -> None:
    texts = [b'a\\"b', b"\\n", b"line\nend\r\t", b'"', b"\\", "é☃".encode(), b""]
    values = [*texts, *control]
    lines = bytes(json_lines(records(*values), "t", row_line)).splitlines()
    assert [json.loads(line)["value"].encode() for line in lines] == values
    assert [json.loads(line)["timestamp"] for line in lines] == [1_700_000_000_000] * len(values)


def test_headers_of_one_row_are_written_though_the_others_have_none() -> None:
    plain = records(b"a", b"b").to_pylist()
    plain[1][HEADERS] = [{"key": "h", "value": b"1"}]
    batch = pa.RecordBatch.from_pylist(plain, schema=schema(COLUMNS))
    seen: list[Any] = []

    def line(row: dict[str, Any]) -> bytes:
        seen.append(row[HEADERS])
        return b"line\n"

    assert bytes(json_lines(batch, "t", line)) == b"line\nline\n"
    assert seen == [None, [{"key": "h", "value": b"1"}]]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_all_records_are_written_and_counted(form: Any) -> None:
    out = io.BytesIO()
    batches = iter([records(b"a", b"b"), records(b"c"), records(b"d", b"e", b"f")])
    assert write_file(out, batches, form, "t", row_line) == 6
    out.seek(0)
    if form == "parquet":
        assert pq.read_table(out).column("value").to_pylist() == [
            b"a",
            b"b",
            b"c",
            b"d",
            b"e",
            b"f",
        ]
    else:
        assert len(out.getvalue().splitlines()) == (7 if form == "csv" else 6)


@pytest.mark.parametrize("by", ["ROW_GROUP_ROWS_MAX", "ROW_GROUP_BYTES_MAX"])
def test_row_groups_are_gathered_anew_after_each(monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    one = records(b"a")
    bound = 3 if by == "ROW_GROUP_ROWS_MAX" else 3 * one.nbytes
    monkeypatch.setattr(topic_files, by, bound)
    assert [rows.num_rows for rows in topic_files._gathered(iter([one] * 7))] == [3, 3, 1]


@pytest.mark.parametrize(
    ("type_", "number", "fits"),
    [
        ("DOUBLE", "1.5", True), ("DOUBLE", "2", True), ("DOUBLE", "-2", True),
        ("DOUBLE", '"2"', False), ("BIGINT", "2", True), ("BIGINT", "-2", True),
        ("BIGINT", "2.5", False), ("BOOLEAN", "true", True), ("BOOLEAN", "1", False),
        ("VARCHAR", '"x"', True), ("VARCHAR", "1", False), ("DOUBLE", "null", True),
    ],
)  # fmt: skip
def test_value_fits_a_column_by_each_of_the_kinds_that_json_has(
    type_: str, number: str, fits: bool
) -> None:
    query = f"select {expression('t', 'n', type_, 'object')} from (select ?::json as object)"
    asked = duckdb.connect()
    if fits:
        (found,) = asked.execute(query, [f'{{"n": {number}}}']).fetchall()
        assert found == (json.loads(number),)
    else:
        with pytest.raises(duckdb.Error, match=f"a value of n is no {type_}"):
            asked.execute(query, [f'{{"n": {number}}}']).fetchall()
