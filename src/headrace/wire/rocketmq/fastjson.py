"""The JSON of RocketMQ's bodies, which is not always JSON.

Its library writes maps with keys that are no text as they are:

    {"brokerAddrs":{0:"127.0.0.1:10911"}}            a number as a key, unquoted
    {"offsetTable":{{"queueId":0,"topic":"t"}:{…}}}  an object as a key

No parser of JSON reads these, and RocketMQ's clients expect them. `Keyed` is such a map: pairs in
order. Everything else is Python's usual form of JSON: dict, list, str, int, float, bool, None.
"""

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # public, but not in typeshed
from typing import NamedTuple

from headrace.model.errors import Malformed

DEPTH_MAX = 32
"""Deepest nesting of objects and lists; RocketMQ's own bodies have 6."""
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?\d{1,19}(\.\d{1,20})?([eE][-+]?\d{1,3})?(?![\w.])")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_quoted = json.JSONEncoder(ensure_ascii=False).encode


class Keyed(NamedTuple):
    """A map with keys that are not all text, in the order of its pairs."""

    pairs: "tuple[tuple[FastJson, FastJson], ...]"


FastJson = str | int | float | bool | None | Keyed | list["FastJson"] | dict[str, "FastJson"]


def encode_body(value: FastJson) -> bytes:
    """Encode a value without spaces, names in the order of the dict."""
    return _encoded(value).encode("utf-8", "replace")


def _encoded(value: FastJson) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Keyed(pairs):
            return "{" + ",".join(f"{_encoded(key)}:{_encoded(at)}" for key, at in pairs) + "}"
        case dict():
            return (
                "{" + ",".join(f"{_quoted(key)}:{_encoded(at)}" for key, at in value.items()) + "}"
            )
        case list():
            return "[" + ",".join(map(_encoded, value)) + "]"
        case str():
            return _quoted(value)
    return repr(value)


def decode_body(body: bytes | memoryview) -> FastJson:
    """Decode a body, standard JSON or RocketMQ's. Raises Malformed."""
    try:
        text = bytes(body).decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"a body is not UTF-8: {error}") from None
    reader = _Reader(text)
    value = reader.value(DEPTH_MAX)
    if reader.next_character():
        raise Malformed(f"{len(text) - reader.at} characters behind the value of a body")
    return value


class _Reader:
    """A text and the position in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def next_character(self) -> str:
        """Skip spaces; return the character at the position, empty at the end."""
        self.at = _SPACE.match(self._text, self.at).end()  # type: ignore[union-attr]  # matches
        return self._text[self.at : self.at + 1]

    def value(self, depth: int) -> FastJson:
        """Read the value at the position."""
        first = self.next_character()
        if first == '"':
            return self._string()
        if first in ("{", "["):
            if not depth:
                raise Malformed(f"a body is nested deeper than {DEPTH_MAX}")
            return self._map(depth - 1) if first == "{" else self._list(depth - 1)
        if number := _NUMBER.match(self._text, self.at):
            self.at = number.end()
            digits = number[0]
            return float(digits) if number[1] or number[2] else int(digits)
        for word, meaning in _WORDS.items():
            if self._text.startswith(word, self.at):
                self.at += len(word)
                return meaning
        raise Malformed(f"a body is not JSON at character {self.at}")

    def _string(self) -> str:
        try:
            text, self.at = scanstring(self._text, self.at + 1, True)
        except ValueError as error:
            raise Malformed(f"a body has a string that does not end: {error}") from None
        return str(text)

    def _list(self, depth: int) -> list[FastJson]:
        items: list[FastJson] = []
        self.at += 1
        if self.next_character() == "]":
            self.at += 1
            return items
        while True:
            items.append(self.value(depth))
            if self._separator("]"):
                return items

    def _map(self, depth: int) -> dict[str, FastJson] | Keyed:
        pairs: list[tuple[FastJson, FastJson]] = []
        self.at += 1
        if self.next_character() == "}":
            self.at += 1
            return {}
        while True:
            key = self.value(depth)
            if self.next_character() != ":":
                raise Malformed(f"a body has a key without a value at character {self.at}")
            self.at += 1
            pairs.append((key, self.value(depth)))
            if self._separator("}"):
                break
        named = {key: value for key, value in pairs if isinstance(key, str)}
        if all(isinstance(key, str) for key, _ in pairs):
            return named
        return Keyed(tuple(pairs))

    def _separator(self, last: str) -> bool:
        """Skip a comma, or `last`; return whether it was `last`."""
        found = self.next_character()
        if found not in (",", last) or not found:
            raise Malformed(f"a body has neither ',' nor '{last}' at character {self.at}")
        self.at += 1
        return found == last
