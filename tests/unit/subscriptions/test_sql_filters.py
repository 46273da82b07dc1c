"""SQL92 filters: grammar, three-valued logic, types, bounds."""

import pytest

from headrace.subscriptions.sql.parser import DEPTH_MAX, sql_filter
from headrace.subscriptions.sql.tokens import SQL_CHARS_MAX, FilterInvalid


def wants(expression: str, **properties: str) -> bool:
    """Return whether a filter wants a message with these properties."""
    return sql_filter(expression).wants(properties)


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("a = 5", "5", True), ("a = 5", "6", False), ("5 = a", "5", True),
        ("a <> 5", "5", False), ("a <> 5", "6", True),
        ("a < 5", "4", True), ("a < 5", "5", False), ("a <= 5", "5", True), ("a <= 5", "6", False),
        ("a > 5", "6", True), ("a > 5", "5", False), ("a >= 5", "5", True), ("a >= 5", "4", False),
        ("5 < a", "6", True), ("5 < a", "5", False), ("a > 9", "10", True),
        ("a BETWEEN 2 AND 4", "2", True), ("a BETWEEN 2 AND 4", "4", True),
        ("a BETWEEN 2 AND 4", "1", False), ("a BETWEEN 2 AND 4", "5", False),
        ("a NOT BETWEEN 2 AND 4", "1", True), ("a NOT BETWEEN 2 AND 4", "5", True),
        ("a NOT BETWEEN 2 AND 4", "2", False), ("a NOT BETWEEN 2 AND 4", "4", False),
        ("a BETWEEN -2 AND 4", "-2", True), ("a = -5", "-5", True), ("a = +5", "5", True),
        ("a IN ('x', 'y')", "y", True), ("a IN ('x', 'y')", "z", False),
        ("a NOT IN ('x', 'y')", "y", False), ("a NOT IN ('x', 'y')", "z", True),
        ("a CONTAINS 'b'", "abc", True), ("a CONTAINS 'b'", "ac", False),
        ("a NOT CONTAINS 'b'", "abc", False), ("a NOT CONTAINS 'b'", "ac", True),
        ("a STARTSWITH 'ab'", "abc", True), ("a STARTSWITH 'b'", "abc", False),
        ("a NOT STARTSWITH 'ab'", "abc", False), ("a NOT STARTSWITH 'b'", "abc", True),
        ("a ENDSWITH 'bc'", "abc", True), ("a ENDSWITH 'b'", "abc", False),
        ("a NOT ENDSWITH 'bc'", "abc", False), ("a NOT ENDSWITH 'b'", "abc", True),
        ("a CONTAINS ''", "abc", False), ("a NOT CONTAINS ''", "abc", False),
        ("a IS NULL", "x", False), ("a IS NOT NULL", "x", True),
        ("a = 'it''s'", "it's", True), ("a = 'x'", "X", False),
        ("A = 'x'", "x", False), ("a = 'x' -- why\n", "x", True),
        ("a /* = 'y' */ = 'x'", "x", True),
        ("a > 5.5", "5.6", True), ("a > .5", "0.6", True), ("a = 5e2", "500", True),
        ("a = 5L", "5", True), ("a >= 2.", "2.5", True), ("a > 0.0", "1", True),
        ("a = TRUE", "True", True), ("a = TRUE", "yes", False), ("a = FALSE", "yes", True),
        ("a <> TRUE", "yes", True), ("a", "true", False), ("NOT a", "true", True),
        ("-a = 5", "5", False), ("NOT (-a = 5)", "5", False), ("(a > 5) = TRUE", "6", True),
        ("5 = 5.0", "", True), ("5 = 6", "", False), ("'x' = 5", "", False), ("TRUE", "", True),
        ("5 = TRUE", "", False), ("FALSE", "", False), ("NULL", "", False),
    ],
)  # fmt: skip
def test_each_operator_delivers_what_is_true(expression: str, value: str, expected: bool) -> None:
    assert wants(expression, a=value) is expected
    assert wants(f"({expression}) AND TRUE", a=value) is expected


@pytest.mark.parametrize(
    "comparison",
    [
        "a = 5", "a <> 5", "5 = a", "5 <> a", "a < 5", "a <= 5", "a > 5", "a >= 5", "5 > a",
        "a BETWEEN 1 AND 2", "a NOT BETWEEN 1 AND 2", "a IN ('x')", "a NOT IN ('x')",
        "a CONTAINS 'x'", "a NOT CONTAINS 'x'", "a STARTSWITH 'x'", "a NOT STARTSWITH 'x'",
        "a ENDSWITH 'x'", "a NOT ENDSWITH 'x'", "a = TRUE", "a", "a = b", "b = a", "a < b",
        "b < a", "-a = 1", "(a = 5) = TRUE", "NULL",
    ],
)  # fmt: skip
def test_a_missing_property_makes_a_comparison_unknown(comparison: str) -> None:
    assert not wants(comparison, b="1")
    assert not wants(f"NOT ({comparison})", b="1")
    assert wants(f"({comparison}) IS NULL", b="1")
    assert not wants(f"({comparison}) AND TRUE", b="1")
    assert wants(f"NOT (({comparison}) AND FALSE)", b="1")
    assert wants(f"({comparison}) OR TRUE", b="1")
    assert not wants(f"NOT (({comparison}) OR FALSE)", b="1")


def test_a_missing_property_is_null_and_an_empty_one_is_not() -> None:
    assert wants("a IS NULL")
    assert not wants("a IS NOT NULL")
    assert wants("a IS NOT NULL", a="")
    assert not wants("a IS NULL", a="")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a > 5", "x"), ("a = 5", ""), ("a = 5", "5.0"), ("a > 5", "9" * 19), ("a > 5.5", "nan"),
        ("a > 5.5", "6x"), ("a > b", "x"), ("a > 5.5", "6" * 65), ("a = 5", "٥"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_number_delivers_nothing(expression: str, value: str) -> None:
    assert not wants(f"{expression} OR TRUE", a=value, b="1")
    assert not wants(f"NOT ({expression}) OR TRUE", a=value, b="1")
    assert wants(f"TRUE OR {expression}", a=value, b="1"), "TRUE has decided"


def test_integers_of_properties_have_64_bits() -> None:
    assert wants("a > 5", a="9223372036854775807")
    assert wants("a = 1795860860391", a="1795860860391")
    assert wants("a < 9223372036854775807", a="9223372036854775806"), "without rounding"
    assert wants("a < b", a="9", b="10"), "two properties are compared as numbers"


def test_and_binds_more_tightly_than_or_and_not_than_comparisons() -> None:
    assert wants("TRUE OR FALSE AND FALSE")
    assert not wants("(TRUE OR FALSE) AND FALSE")
    assert wants("FALSE AND FALSE OR TRUE")
    assert not wants("NOT a = 6", a="5")
    assert wants("NOT (a = 6)", a="5")


@pytest.mark.parametrize(
    ("expression", "at", "reason"),
    [
        ("", 1, "a value"), ("*", 1, "no token"), ("a >", 4, "a value"), ("a > 5 b", 7, "the end"),
        ("(a > 5", 7, "expected )"), ("a > 'x'", 3, "order"), ("'x' < a", 5, "order"),
        ("a > TRUE", 3, "order"), ("a > (b = 1)", 3, "order"), ("a BETWEEN 'x' AND 5", 3, "order"),
        ("a BETWEEN 5 AND 1", 3, "empty"), ("a BETWEEN 1, 2", 12, "expected AND"),
        ("a IN ()", 7, "a text"), ("a IN (1)", 7, "a text"), ("5 IN ('x')", 3, "a property"),
        ("a IN ('x'", 10, "expected )"), ("a IN 'x'", 6, "expected ("),
        ("a CONTAINS b", 12, "a text"), ("a NOT = 5", 3, "the end"), ("a = NULL", 3, "IS NULL"),
        ("NULL = a", 6, "IS NULL"), ("TRUE = 5", 6, "TRUE"), ("5", 1, "a condition"),
        ("'x'", 1, "a condition"), ("-a", 1, "a condition"), ("5 AND TRUE", 1, "a condition"),
        ("TRUE OR 5", 9, "a condition"), ("NOT 5", 5, "a condition"), ("a = 'x", 5, "no token"),
        ("a = 9223372036854775808", 5, "64 bits"), ("a = 1e999", 5, "too large"),
        ("a IS 5", 3, "the end"), ("a; b", 2, "no token"), ("a = 5 AND", 10, "a value"),
        ("a = 007", 6, "the end"), ("größe = 1", 3, "no token"), ("AND", 1, "a value"),
    ],
)  # fmt: skip
def test_bad_sql_has_one_error_with_its_place(expression: str, at: int, reason: str) -> None:
    with pytest.raises(FilterInvalid, match=f"character {at}: ") as raised:
        sql_filter(expression)
    assert reason in str(raised.value)


def test_depth_and_length_are_bounded() -> None:
    def nested(levels: int) -> str:
        return "(" * levels + "a = 1" + ")" * levels

    assert wants(nested(DEPTH_MAX - 1), a="1")
    for too_deep in (nested(DEPTH_MAX), "NOT " * 2000 + "a", "- " * 4000 + "1 = 1", "(" * 8000):
        with pytest.raises(FilterInvalid, match="nested"):
            sql_filter(too_deep)
    with pytest.raises(FilterInvalid, match="nested"):
        sql_filter("a" + " IS NULL" * 1000)
    with pytest.raises(FilterInvalid, match="nested"):
        sql_filter("a" + " CONTAINS 'x'" * 600)
    long = "a = 0" + "".join(f" OR a = {n}" for n in range(1, 600))
    assert wants(long, a="599"), "a long chain is not deep"
    assert not wants(long, a="600")
    with pytest.raises(FilterInvalid, match=str(SQL_CHARS_MAX)):
        sql_filter("a" * (SQL_CHARS_MAX + 1))
    assert not wants("a" * SQL_CHARS_MAX)


def test_an_expression_is_compiled_once_and_its_cost_grows() -> None:
    assert sql_filter("a = 1") is sql_filter("a = 1")
    small, large = sql_filter("a = 1"), sql_filter("a = 1 OR a = 2 OR a = 3")
    assert 1 < small.cost < large.cost < sql_filter("a CONTAINS 'x' OR a = 2 OR a = 3").cost
