"""Spark's DDL: types, names, declared units, and what is refused."""

import pytest

from headrace.typed.ddl import NESTED_MAX, SchemaError, parse_ddl
from headrace.typed.types import Kind, Unit


def test_a_schema_is_printed_as_it_was_declared() -> None:
    ddl = (
        "id BIGINT NOT NULL, `a b` DECIMAL(12,2), s STRUCT<x: INT, `y``z`: ARRAY<MAP<STRING, DATE>>"
        " NOT NULL>"
    )
    printed = str(parse_ddl(ddl))
    assert printed == (
        "STRUCT<id: BIGINT NOT NULL, `a b`: DECIMAL(12,2), s: STRUCT<x: INT, `y``z`:"
        " ARRAY<MAP<STRING, DATE>> NOT NULL>>"
    )
    assert str(parse_ddl(printed.removeprefix("STRUCT<").removesuffix(">").replace(": ", " ")))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("long", Kind.BIGINT), ("integer", Kind.INT), ("short", Kind.SMALLINT),
        ("byte", Kind.TINYINT), ("real", Kind.FLOAT), ("numeric(3)", Kind.DECIMAL),
        ("timestamp_ltz", Kind.TIMESTAMP), ("Double", Kind.DOUBLE),
    ],
)  # fmt: skip
def test_types_have_sparks_other_names_in_any_case(name: str, kind: Kind) -> None:
    (field,) = parse_ddl(f"v {name}").fields
    assert field.type.kind is kind


def test_a_decimal_has_sparks_default_and_bounds() -> None:
    decimals = [field.type for field in parse_ddl("a DECIMAL, b DECIMAL(38,38), c DEC(5)").fields]
    assert [(one.precision, one.scale) for one in decimals] == [(10, 0), (38, 38), (5, 0)]
    for wrong in ("DECIMAL(39,0)", "DECIMAL(0,0)", "DECIMAL(4,5)"):
        with pytest.raises(SchemaError, match="is beyond"):
            parse_ddl(f"a {wrong}")


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("TIMESTAMP COMMENT 'epoch s'", Unit.SECONDS),
        ("TIMESTAMP NOT NULL COMMENT 'Epoch MS of the payment'", Unit.MILLIS),
        ('TIMESTAMP COMMENT "epoch us"', Unit.MICROS),
        ("TIMESTAMP COMMENT 'epoch ns'", Unit.NANOS),
        ("TIMESTAMP COMMENT 'zone UTC'", Unit.ISO_UTC),
        ("TIMESTAMP COMMENT 'the customer''s'", Unit.ISO),
        ("TIMESTAMP COMMENT 'epoch seconds'", Unit.ISO),
        ("DATE COMMENT 'epoch days'", Unit.DAYS),
        ("BIGINT COMMENT 'epoch ms'", Unit.ISO),
    ],
)
def test_a_comment_declares_how_times_are_written(column: str, unit: Unit) -> None:
    (field,) = parse_ddl(f"v {column}").fields
    assert field.type.unit is unit


def test_a_comment_reaches_the_times_in_arrays_and_maps() -> None:
    (field,) = parse_ddl("v ARRAY<MAP<STRING, TIMESTAMP>> COMMENT 'epoch ms'").fields
    assert field.type.part.type.part.type.unit is Unit.MILLIS
    (inner,) = parse_ddl("v STRUCT<t: TIMESTAMP COMMENT 'epoch s'>").fields[0].type.fields
    assert inner.type.unit is Unit.SECONDS


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("", "no columns"),
        ("id", "expected a type"),
        ("id BIGINT,", "expected a column's name, found the end|expected a column's name"),
        ("id VARIANT", "expected a type of JSON values"),
        ("id INTERVAL DAY", "expected a type"),
        ("id BIGINT NOT", "expected NULL after NOT"),
        ("id BIGINT id STRING", "expected the end, found 'id'"),
        ("id BIGINT, id INT", "'id' is declared twice"),
        ("n INT, id BIGINT, at DATE, id INT", "'id' is declared twice"),
        ("m MAP<INT, STRING>", "keys of a MAP are STRING"),
        ("a ARRAY<INT", "expected '>'"),
        ("s STRUCT<>", "no columns|expected a column's name"),
        ("s STRUCT<x INT", "expected '>'"),
        ("d DECIMAL(x)", "expected a number of digits"),
        ("c INT COMMENT 5", "expected a comment's text"),
        ("c INT; DROP TABLE x", "cannot parse"),
        ("t TIMESTAMP COMMENT 'epoch days'", "TIMESTAMP cannot be 'epoch days'"),
        ("t TIMESTAMP_NTZ COMMENT 'epoch ms'", "TIMESTAMP_NTZ cannot be 'epoch ms'"),
        ("d DATE COMMENT 'zone UTC'", "DATE cannot be 'zone UTC'"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_place(ddl: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        parse_ddl(ddl)


def test_nested_types_have_a_bound() -> None:
    parse_ddl(f"a {'ARRAY<' * NESTED_MAX}INT{'>' * NESTED_MAX}")
    with pytest.raises(SchemaError, match="nested types"):
        parse_ddl(f"a {'ARRAY<' * (NESTED_MAX + 1)}INT{'>' * (NESTED_MAX + 1)}")
