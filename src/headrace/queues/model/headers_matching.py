"""Bindings of a headers exchange: the match of a message's headers.

    x-match        names beginning with x-    headers that must fit
    all (default)  ignored                    all
    any            ignored                    one
    all-with-x     compared                   all
    any-with-x     compared                   one

A value of type void asks only for the header's presence. Values are compared by `comparable`.
Unlike RabbitMQ 4.0, which multiplies a header's timestamp by a thousand, timestamps can be equal.
"""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from headrace.queues.field_values import comparable, kind_of, term
from headrace.queues.refusals import precondition_failed

MATCH_ARGUMENT = "x-match"
_MODES = ("all", "any", "all-with-x", "any-with-x")
_VOID = comparable(None)


class HeadersPattern(NamedTuple):
    """The header values that one binding to a headers exchange asks for."""

    any_of: bool
    """Whether one fitting header is enough; else all must fit."""
    present: tuple[str, ...]
    equal: tuple[tuple[str, Hashable], ...]

    def matches(self, headers: Mapping[str, Hashable]) -> bool:
        """Tell whether headers match, whose values were made `comparable`."""
        if self.any_of:
            return any(name in headers for name in self.present) or any(
                headers.get(name) == value for name, value in self.equal
            )
        return all(name in headers for name in self.present) and all(
            headers.get(name) == value for name, value in self.equal
        )


def headers_pattern(arguments: Mapping[str, object]) -> HeadersPattern:
    """Return the header pattern of a binding's arguments."""
    mode = arguments.get(MATCH_ARGUMENT, "all")
    with_x = mode in {"all-with-x", "any-with-x"}
    asked = [
        (name, comparable(value))
        for name, value in arguments.items()
        if name != MATCH_ARGUMENT and (with_x or not name.startswith("x-"))
    ]
    return HeadersPattern(
        mode in {"any", "any-with-x"},
        tuple(name for name, value in asked if value == _VOID),
        tuple((name, value) for name, value in asked if value != _VOID),
    )


def comparable_headers(headers: Mapping[str, object]) -> dict[str, Hashable]:
    """Return headers with `comparable` values, made once for each message."""
    return {name: comparable(value) for name, value in headers.items()}


def check_match_argument(arguments: Mapping[str, object]) -> None:
    """Raise Refused PRECONDITION_FAILED if `x-match` is invalid."""
    if MATCH_ARGUMENT not in arguments:
        return
    value = arguments[MATCH_ARGUMENT]
    kind = kind_of(value)
    if kind != "longstr":
        raise precondition_failed(
            f"Invalid x-match field type {kind} (value {term(value)}); expected longstr"
        )
    if value not in _MODES:
        raise precondition_failed(
            f"Invalid x-match field value {term(value)}; expected all, any, all-with-x,"
            " or any-with-x"
        )
