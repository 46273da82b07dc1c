"""Groups of reasons for which records are refused: the reason without the value and its byte.

Reasons of this room quote the value in known places. Those of parsers are free text, in which
`, got ` begins the value unless it is within parentheses.
"""

import re
from collections.abc import Iterator

_BYTE = re.compile(r" \(byte \d+\)\Z")
_NOT_JSON = re.compile(r"not JSON: unexpected .", re.DOTALL)
_TRAILING = re.compile(r"text after the object: .", re.DOTALL)
_EXPECTED = re.compile(
    r"(?P<head>(?:.*?: )?expected (?:(?:an?|another) [^,()]*?|true or false)), got (?P<got>.*)",
    re.DOTALL,
)
_OF_VALUE = re.compile(
    r"(?P<path>.+?): .*?(?P<why> is beyond [A-Z][^\s\"]*| does not fit [A-Z][^\s\"]*"
    r"| has (?:no|a) zone \(TIMESTAMP.*)\Z",
    re.DOTALL,
)
_GOT = ", got "
_KINDS = {
    "{": "an object",
    "[": "an array",
    '"': "a string",
    "t": "true",
    "f": "false",
    "n": "null",
}
"""Kinds of JSON values by the first character; all others begin a number."""


def reason_group(reason: str) -> str:
    """Return a reason without the value that it quotes, so that like records have the same.

    `total: expected a string, got 12.5 (byte 9)` becomes `total: expected a string, got a number`.
    """
    where = _BYTE.search(reason)
    if where is not None:
        own = _of_decoder(reason[: where.start()])
        if own is not None:
            return own
    return _of_parser(reason[: where.start()] if where else reason)


def _of_decoder(reason: str) -> str | None:
    """Return the group of a reason in the words of `refusal.py`; None for other words."""
    if _NOT_JSON.match(reason):
        return "not JSON"
    if _TRAILING.match(reason):
        return "text after the object"
    if (found := _EXPECTED.fullmatch(reason)) is not None:
        return f"{found['head']}, got {_KINDS.get(found['got'][:1], 'a number')}"
    if (found := _OF_VALUE.fullmatch(reason)) is not None:
        return f"{found['path']}: …{found['why']}"
    return None


def _of_parser(reason: str) -> str:
    """Return a parser's reason up to the first `, got ` that is within no parentheses."""
    for at in _places(reason):
        before = reason[:at]
        opened = before.count("(") - before.count(")")
        if opened <= 0 or reason.count(")", at) < opened:
            return before
    return reason


def _places(reason: str) -> Iterator[int]:
    at = reason.find(_GOT)
    while at >= 0:
        yield at
        at = reason.find(_GOT, at + 1)
