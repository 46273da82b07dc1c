"""Columns inferred from a sample, and the project that is written with them."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.inferred_columns import InferredColumns, infer_columns
from headrace.pipeline.new_project import (
    parsed_declarations,
    table_name,
    template,
    typed_declarations,
    write_project,
)
from headrace.pipeline.project import load_project
from headrace.pipeline.unreadable import Unreadable

COMBINED = [
    b'192.0.2.7 - ann [20/Nov/2026:19:04:43 +0100] "GET /a?b=1 HTTP/1.1" 200 138 "-" "Bot/1.0"',
    b'2001:db8::7 - - [20/Nov/2026:19:04:44 +0100] "-" 400 - "-" "-" 0.041 extra',
]


def inferred(*records: object) -> InferredColumns | None:
    return infer_columns([json.dumps(record).encode() for record in records])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, -5, None], "BIGINT"),
        ([2**63], "DECIMAL(38,0)"),
        ([10**40], "DOUBLE"),
        ([1, 2.5], "DOUBLE"),
        ([True, False], "BOOLEAN"),
        (["a", ""], "STRING"),
        ([None, None], "STRING"),
        (["2026-11-28T10:31:00Z", "2026-11-28 10:31:00+01:00"], "TIMESTAMP"),
        (["2026-11-28T10:31:00"], "TIMESTAMP_NTZ"),
        (["2026-11-28"], "DATE"),
        (["2026-11-28", "2026-11-28T10:31:00Z"], "STRING"),
        (["2026-11-28", "soon"], "STRING"),
        ([[1, 2], [], [3]], "ARRAY<BIGINT>"),
        ([[]], "ARRAY<STRING>"),
        (
            [{"a": 1, "b": "x"}, {"a": 2, "c": [1.5]}],
            "STRUCT<a: BIGINT, b: STRING, c: ARRAY<DOUBLE>>",
        ),
        ([{"odd name": 1}], "STRUCT<`odd name`: BIGINT>"),
    ],
)
def test_each_kind_of_value_has_its_type(values: list[object], kind: str) -> None:
    columns = inferred(*({"x": value} for value in values))
    assert columns is not None
    assert columns.ddl == (f"x {kind}",)
    assert columns.left_out == ()


@pytest.mark.parametrize("values", [[1, "a"], [True, 1], [[1], {}], [{}], [[1, "a"]]])
def test_a_key_without_a_common_type_is_left_out_and_named(values: list[object]) -> None:
    columns = inferred(*({"id": 1, "x": value} for value in values))
    assert columns is not None
    assert (columns.ddl, columns.left_out) == (("id BIGINT",), ("x",))


def test_keys_keep_their_order_and_the_first_time_partitions() -> None:
    columns = inferred({"b": 1}, {"a": "2026-11-28T10:31:00Z", "B": 2, "z": "2026-11-28T10:31:00Z"})
    assert columns is not None
    assert columns.ddl == ("b BIGINT", "a TIMESTAMP", "z TIMESTAMP")
    assert columns.left_out == ("B",), "Spark does not tell b and B apart"
    assert columns.event_time == "a"


def sampled(damaged: list[bytes], count: int = 100) -> InferredColumns | None:
    """Infer the columns of a sample whose last records are damaged."""
    good = [b'{"a": %d, "at": "2026-11-28T10:31:00Z"}' % number for number in range(count)]
    return infer_columns([*good[: count - len(damaged)], *damaged])


@pytest.mark.parametrize(
    "damaged",
    [b"junk", b'{"a": 1', b"[1]", b'{"a": "x"}', b'{"at": "soon"}', b'{"at": 5}', b"\xff"],
)
def test_a_tenth_of_the_records_may_be_damaged(damaged: bytes) -> None:
    columns = sampled([damaged] * 10)
    assert columns is not None
    assert columns.ddl == ("a BIGINT", "at TIMESTAMP")
    assert (columns.event_time, columns.refused) == ("at", 10)


def test_more_than_a_tenth_of_damaged_records_have_no_columns() -> None:
    assert sampled([b"junk"] * 11) is None


def test_more_than_a_tenth_of_other_values_change_the_type() -> None:
    columns = sampled([b'{"at": "soon"}'] * 11)
    assert columns is not None
    assert columns.ddl == ("a BIGINT", "at STRING")
    columns = sampled([b'{"a": "x"}'] * 11)
    assert columns is not None
    assert (columns.ddl, columns.left_out) == (("at TIMESTAMP",), ("a",))


@pytest.mark.parametrize(("rare", "kind"), [(b"2.5", "DOUBLE"), (b"%d" % 2**63, "DECIMAL(38,0)")])
def test_a_rare_number_is_not_damaged(rare: bytes, kind: str) -> None:
    columns = sampled([b'{"a": %s}' % rare])
    assert columns is not None
    assert columns.ddl[0] == f"a {kind}"
    assert columns.refused == 0


@pytest.mark.parametrize("value", [b"junk", b"[1]", b"5", b"null", b"{}", b'{"a": NaN'])
def test_values_that_are_no_objects_have_no_columns(value: bytes) -> None:
    assert infer_columns([b'{"a": 1}', value] if value != b"{}" else [value]) is None


def test_names_of_topics_become_names_of_tables() -> None:
    assert [table_name(name) for name in ("orders", "access-log", "shop.a b", "7up", "_x")] == [
        "orders",
        "access_log",
        "shop_a_b",
        "t_7up",
        "t__x",
    ]


@pytest.mark.parametrize(
    "declarations",
    [
        template(),
        parsed_declarations("access-log"),
        parsed_declarations("access-log", COMBINED),
        typed_declarations(
            "orders", InferredColumns(('`a"b\\c` BIGINT', "at TIMESTAMP"), ("x", "y"), "at")
        ),
        typed_declarations("orders", InferredColumns(("a BIGINT",), (), None)),
    ],
)
def test_written_declarations_are_python(tmp_path: Path, declarations: str) -> None:
    compile(declarations, "orders.py", "exec")
    write_project(tmp_path / "shop", declarations, "orders")
    project = load_project(tmp_path / "shop")
    assert project.name == "shop"
    assert [path.name for path in project.files()] == ["orders.py"]
    assert (tmp_path / "shop" / ".gitignore").read_text().startswith("data/\n")


def test_a_directory_that_is_used_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "file").touch()
    with pytest.raises(DeclarationError, match="is not empty"):
        write_project(tmp_path / "shop", "", "orders")
    with pytest.raises(DeclarationError, match="is no name for a pipeline"):
        write_project(tmp_path / "7 up", "", "orders")
    assert [path.name for path in tmp_path.rglob("*")] == ["shop", "file"]


def parse_of(sample: list[bytes]) -> Callable[[bytes], tuple[Any, ...]]:
    """Return the parser that the declarations of a sample's topic have."""
    text = parsed_declarations("access", sample)
    scope: dict[str, Any] = {}
    exec(text[: text.index("@dp.table")], scope)
    found: Callable[[bytes], tuple[Any, ...]] = scope["parse"]
    return found


def test_lines_of_the_combined_format_have_the_columns_of_a_request() -> None:
    parse = parse_of(COMBINED)
    at = datetime(2026, 11, 20, 18, 4, 43, tzinfo=UTC)
    assert parse(COMBINED[0]) == (
        *("192.0.2.7", "ann", at, "GET /a?b=1 HTTP/1.1", 200, 138),
        *(None, "Bot/1.0"),
    )
    assert parse(COMBINED[1])[3:] == ("-", 400, 0, None, None)
    text = parsed_declarations("access", COMBINED)
    assert '@dp.table(format="delta", partition_cols=["day(at)"])' in text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (COMBINED[0][:60], "not in the combined format"),
        (COMBINED[0].replace(b"200", b"abc"), "not in the combined format"),
        (COMBINED[0].replace(b"20/Nov", b"31/Feb"), "no time, got 31/Feb/2026:19:04:43 +0100"),
        (COMBINED[0].replace(b"Bot", b"\xff"), "not UTF-8, got invalid start byte at "),
        (b"", "not in the combined format"),
    ],
)
def test_a_damaged_line_of_the_combined_format_is_unreadable(line: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=re.escape(reason)):
        parse_of(COMBINED)(line)


def test_a_tenth_of_the_lines_of_a_combined_log_may_be_damaged() -> None:
    lines = [COMBINED[0]] * 90 + [b"junk"] * 10
    assert "class Request" in parsed_declarations("access", lines)
    assert "status: int" in parsed_declarations("access", lines)
    assert "status: int" not in parsed_declarations("access", [*lines, b"junk"])
    assert "status: int" not in parsed_declarations("access", [])
