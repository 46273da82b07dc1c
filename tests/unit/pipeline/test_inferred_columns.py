"""Columns inferred from a sample, and the project that is written with them."""

import json
from pathlib import Path

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
