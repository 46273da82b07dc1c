"""Groups of reasons: like records have the same, and no group quotes a value."""

import pytest

from headrace.typed.reason_group import reason_group


@pytest.mark.parametrize(
    ("reason", "group"),
    [
        ('not JSON: unexpected "2026-11- (byte 7)', "not JSON"),
        ("not JSON: unexpected the end (byte 91)", "not JSON"),
        (
            "not JSON: begins with a byte order mark (byte 0)",
            "not JSON: begins with a byte order mark",
        ),
        ("text after the object: { (byte 9)", "text after the object"),
        ("expected an object, got [ (byte 0)", "expected an object, got an array"),
        (
            "total: expected a string, got 12.5 (byte 9)",
            "total: expected a string, got a number",
        ),
        (
            'total: expected a decimal number, got "a, got b (c" (byte 9)',
            "total: expected a decimal number, got a string",
        ),
        (
            'ok: expected true or false, got "no" (byte 6)',
            "ok: expected true or false, got a string",
        ),
        ("s: expected a string, got true (byte 6)", "s: expected a string, got true"),
        (
            'at: expected a time such as "2026-11-28T10:00:00Z", got 1764369135 (COMMENT'
            " 'epoch ms' declares its unit) (byte 6)",
            'at: expected a time such as "2026-11-28T10:00:00Z", got a number',
        ),
        (
            'a(b: expected an integer, got "secret)" (byte 9)',
            "a(b: expected an integer, got a string",
        ),
        ("n: 128 is beyond TINYINT (byte 5)", "n: … is beyond TINYINT"),
        ("price: 12.345 does not fit DECIMAL(4,2) (byte 9)", "price: … does not fit DECIMAL(4,2)"),
        (
            "at: \"2026-11-28\" has no zone (TIMESTAMP_NTZ, or COMMENT 'zone UTC') (byte 6)",
            "at: … has no zone (TIMESTAMP_NTZ, or COMMENT 'zone UTC')",
        ),
        ("id: null, but NOT NULL (byte 6)", "id: null, but NOT NULL"),
        ("empty value", "empty value"),
        ("check: amount is positive", "check: amount is positive"),
    ],
)
def test_a_group_has_the_kind_of_the_value_and_neither_value_nor_byte(
    reason: str, group: str
) -> None:
    assert reason_group(reason) == group


@pytest.mark.parametrize(
    ("reason", "group"),
    [
        ("no time, got 31/Feb/2026", "no time"),
        ("no time, got a, got b", "no time"),
        (
            "not enough values to unpack (expected 5, got 1)",
            "not enough values to unpack (expected 5, got 1)",
        ),
        ("wrong (a, got b) field, got c", "wrong (a, got b) field"),
        ("a :( line, got secret", "a :( line"),
        ("3 is beyond the header", "3 is beyond the header"),
        ("not in the combined format", "not in the combined format"),
    ],
)
def test_a_parsers_reason_is_cut_at_a_got_outside_parentheses(reason: str, group: str) -> None:
    assert reason_group(reason) == group
