"""Bindings to a headers exchange: which of them a message's headers match.

`x-match` says how: `all` and `any` leave names that begin with `x-` out, `all-with-x` and
`any-with-x` look at them too. A value of kind void asks that the header be there. Values are
compared as `comparable` says. RabbitMQ 4.0 takes a header's timestamp times a thousand, so that it
never equals the binding's: not done here.
"""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from headrace.queues.field_values import comparable, kind_of, term
from headrace.queues.refusals import precondition_failed

MATCH_ARGUMENT = "x-match"
_MODES = ("all", "any", "all-with-x", "any-with-x")
_VOID = comparable(None)


class HeadersPattern(NamedTuple):
    """What one binding asks of a message's headers."""

    any_of: bool
    """Whether one header that fits is enough; else all must fit."""
    present: tuple[str, ...]
    equal: tuple[tuple[str, Hashable], ...]

    def matches(self, headers: Mapping[str, Hashable]) -> bool:
        """Tell whether headers (values made `comparable`) match."""
        if self.any_of:
            return any(name in headers for name in self.present) or any(
                headers.get(name) == value for name, value in self.equal
            )
        return all(name in headers for name in self.present) and all(
            headers.get(name) == value for name, value in self.equal
        )


def headers_pattern(arguments: Mapping[str, object]) -> HeadersPattern:
    """Return what a binding's arguments ask for."""
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
    """Return headers as `HeadersPattern.matches` takes them: once for each message."""
    return {name: comparable(value) for name, value in headers.items()}


def check_match_argument(arguments: Mapping[str, object]) -> None:
    """Raise PRECONDITION_FAILED where `x-match` says nothing that is known."""
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
