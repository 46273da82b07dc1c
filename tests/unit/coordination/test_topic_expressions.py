"""Expressions for topics: how long they may be, what is said of those that are none."""

import pytest

from headrace.model import regex
from headrace.model.errors import ApiError, ErrorCode


def refusal(expression: str, *field: str) -> ApiError:
    with pytest.raises(ApiError) as refused:
        regex.check(expression, *field)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    return refused.value


def test_an_expression_may_be_as_long_as_it_may() -> None:
    regex.check("a" * 4096)
    error = refusal("a" * 4097)
    assert error.message == (
        f"SubscribedTopicRegex `{'a' * 100}` is not a valid regular expression:"
        " longer than 4096 characters."
    )


def test_what_is_wrong_with_an_expression_is_told_with_the_field_it_came_in() -> None:
    assert refusal("a[").message == (
        "SubscribedTopicRegex `a[` is not a valid regular expression: missing ]: [."
    )
    assert str(refusal("a(", "Here").message).startswith("Here `a(` is not a valid")


def test_an_expression_that_needs_too_much_memory_is_refused() -> None:
    assert "too large" in str(refusal(r"\pL{1000}").message)


def test_whole_names_match_and_no_parts_of_them() -> None:
    assert regex.matching("a.", ["ab", "abc", "xab", "a", "ac"]) == {"ab", "ac"}
    assert regex.matching("a[", ["a["]) == frozenset()


def test_a_matcher_tells_of_each_whole_name() -> None:
    matches = regex.matcher("a|b+", "Topic")
    assert [matches(name) for name in ("a", "bb", "ab", "c")] == [True, True, False, False]
    with pytest.raises(ApiError, match="Topic `a\\[` is not"):
        regex.matcher("a[", "Topic")
