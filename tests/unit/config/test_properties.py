"""The .properties syntax, against Java's own rules (java.util.Properties.load)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config.properties import parse, render
from headrace.model.errors import ConfigError

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.dictionaries(_TEXT, _TEXT, max_size=8))
def test_what_is_rendered_is_parsed_back(values: dict[str, str]) -> None:
    assert parse(render(values)) == values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1\nb: 2\nc 3\nd\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n! no\n\n   \n  a=1", {"a": "1"}),
        ("a=1,\\\n   2,\\\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\=b=c\\:d", {"a=b": "c:d"}),
        ("a\\ b c", {"a b": "c"}),
        ("a=\\u00e9\\t|", {"a": "é\t|"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=C\\:\\q", {"a": "C:q"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=  spaced out  ", {"a": "spaced out  "}),
        ("a=x\\\n# no comment here", {"a": "x# no comment here"}),
        ("a=1\\", {"a": "1"}),
        ("a=form\ffeed", {"a": "form\ffeed"}),
    ],
)
def test_java_reads_it_so(text: str, expected: dict[str, str]) -> None:
    assert parse(text) == expected


def test_a_broken_unicode_escape_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^a=.*four hexadecimal"):
        parse("a=\\u12g4")


@given(st.text(max_size=200))
def test_no_text_makes_it_fail_otherwise(text: str) -> None:
    try:
        parse(text)
    except ConfigError:
        assert "\\u" in text
