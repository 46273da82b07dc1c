"""From lines of input to records: keys, headers, nulls, JSON objects."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.cli.failure import CommandError, UsageError
from headrace.record.record import Header


class Line(NamedTuple):
    """What one line of input asks to be sent."""

    value: bytes | None
    key: bytes | None
    headers: Sequence[Header]
    timestamp: int | None = None
    partition: int | None = None


@dataclass(frozen=True)
class LineParser:
    """How lines are read. `json`: each is an object as `headrace consume --json` prints it."""

    key: bytes | None = None
    separator: bytes | None = None
    null_marker: bytes | None = None
    headers: Sequence[Header] = ()
    json: bool = False

    def parse(self, line: bytes, number: int) -> Line:
        """Parse the record of line `number` (from 1), which comes without its end. CommandError."""
        if self.json:
            return self._parse_json(line, number)
        key, value = self.key, line
        if self.separator is not None:
            head, found, value = line.partition(self.separator)
            if not found:
                shown = self.separator.decode("utf-8", "replace")
                raise CommandError(f"line {number}: no key, there is no {shown!r} in it")
            key = self._or_null(head)
        return Line(self._or_null(value), key, self.headers)

    def _or_null(self, data: bytes) -> bytes | None:
        return None if self.null_marker is not None and data == self.null_marker else data

    def _parse_json(self, line: bytes, number: int) -> Line:
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise TypeError("not an object")
            headers = [
                (str(header["key"]), _bytes_of(header, "value"))
                for header in fields.get("headers") or ()
            ]
            return Line(
                _bytes_of(fields, "value"),
                self.key if self.key is not None else _bytes_of(fields, "key"),
                [*self.headers, *headers],
                _number(fields, "timestamp"),
                None,
            )
        except (ValueError, TypeError, KeyError) as error:
            raise CommandError(f"line {number}: no record in JSON: {error}") from None


def _bytes_of(fields: "dict[str, Any]", name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if isinstance(encoded, str):
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name}_base64: {error}") from None
    value = fields.get(name)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.encode()


def _number(fields: "dict[str, Any]", name: str) -> int | None:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def parse_headers(texts: Sequence[str]) -> list[Header]:
    """Parse headers from `name=value` or, as rpk takes them, `name:value`. UsageError."""
    headers: list[Header] = []
    for text in texts:
        at = min((text.find(mark) for mark in "=:" if mark in text), default=0)
        if at == 0:
            raise UsageError(f"-H {text}: must be name=value")
        headers.append((text[:at], text[at + 1 :].encode()))
    return headers


def unescape(text: str) -> str:
    r"""Replace `\t`, `\n`, `\r`, `\0`, `\\` and `\xHH`, hard in shells, by the characters."""
    marks = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}
    parts: list[str] = []
    at = 0
    while at < len(text):
        mark = text[at]
        following = text[at + 1 : at + 2]
        if mark == "\\" and following in marks and following:
            parts.append(marks[following])
            at += 2
        elif mark == "\\" and following == "x" and _is_hex(text[at + 2 : at + 4]):
            parts.append(chr(int(text[at + 2 : at + 4], 16)))
            at += 4
        else:
            parts.append(mark)
            at += 1
    return "".join(parts)


def _is_hex(digits: str) -> bool:
    return len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits)
