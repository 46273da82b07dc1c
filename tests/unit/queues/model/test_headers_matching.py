"""Headers: the four modes of a binding, and when a header's value is the binding's."""

import pytest

from headrace.queues.model.headers_matching import (
    check_match_argument,
    comparable_headers,
    headers_pattern,
)
from headrace.queues.refusals import Refused
from tests.support.queues.virtual_hosts import refusal


def matches(arguments: dict[str, object], headers: dict[str, object]) -> bool:
    return headers_pattern(arguments).matches(comparable_headers(headers))


def test_all_is_meant_where_nothing_is_said() -> None:
    assert matches({"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 0})
    assert not matches({"a": 1, "b": "x"}, {"a": 1})
    assert not matches({"x-match": "all", "a": 1}, {"a": 2})


def test_any_asks_for_one_that_fits() -> None:
    arguments: dict[str, object] = {"x-match": "any", "a": 1, "b": "x"}
    assert matches(arguments, {"b": "x"})
    assert not matches(arguments, {"a": 2, "b": "y"})


def test_a_binding_that_asks_for_nothing_matches_all_and_never_any() -> None:
    assert matches({}, {})
    assert matches({"x-match": "all"}, {"a": 1})
    assert not matches({"x-match": "any"}, {"a": 1})


def test_names_that_begin_with_x_count_where_the_mode_says_so() -> None:
    assert matches({"x-match": "all", "x-a": 1}, {})
    assert not matches({"x-match": "any", "x-a": 1}, {"x-a": 1})
    assert matches({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1})
    assert not matches({"x-match": "all-with-x", "x-a": 1}, {})


def test_void_asks_for_a_header_of_whatever_value() -> None:
    assert matches({"a": None}, {"a": "anything"})
    assert matches({"x-match": "any", "a": None}, {"a": None})
    assert not matches({"a": None}, {})


def test_values_are_equal_by_what_they_are() -> None:
    assert matches({"a": "1"}, {"a": b"1"})
    assert matches({"a": [1, "x"]}, {"a": [1, "x"]})
    assert matches({"a": {"k": 1}}, {"a": {"k": 1}})
    for value, other in ((1, True), (1, "1"), (1, 1.0), ([1], [True]), ({"k": 1}, {"k": "1"})):
        assert not matches({"a": value}, {"a": other})


def test_a_mode_that_is_none_is_refused() -> None:
    for mode in ("all", "any", "all-with-x", "any-with-x"):
        check_match_argument({"x-match": mode})
    check_match_argument({})
    wrong: tuple[tuple[object, str], ...] = (
        (
            "foo",
            'Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x',
        ),
        (5, "Invalid x-match field type signedint (value 5); expected longstr"),
        ([1], "Invalid x-match field type array (value [{signedint,1}]); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
    )
    for asked, told in wrong:
        with pytest.raises(Refused) as refused:
            check_match_argument({"x-match": asked})
        assert refusal(refused) == f"PRECONDITION_FAILED - {told}"
