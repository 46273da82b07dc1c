"""Lines of input parsed into records: keys, headers, nulls, JSON objects."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.record.record import Header
from headrace.terminal.failure import CommandError, UsageError


class Line(NamedTuple):
    """The record that one line of input stands for."""

    value: bytes | None
    """None: a null value (tombstone)."""
    key: bytes | None
    headers: Sequence[Header]
    timestamp: int | None = None
    """Milliseconds since 1970; None: the time of sending."""
    partition: int | None = None
    """None: chosen by the key."""


@dataclass(frozen=True)
class LineParser:
    """Parses lines; with `json` each line is an object as `headrace consume --json` prints it."""

    key: bytes | None = None
    separator: bytes | None = None
    null_marker: bytes | None = None
    headers: Sequence[Header] = ()
    json: bool = False

    @property
    def takes_whole_lines(self) -> bool:
        """Whether each line is a value as it is, and key and headers are the same for all."""
        return not self.json and self.separator is None and self.null_marker is None

    def parse(self, line: bytes, number: int) -> Line:
        """Return the record of line `number` (from 1), given without its line end.

        Raises CommandError.
        """
        if self.json:
            return self._parse_json(line, number)
        key, value = self.key, line
        if self.separator is not None:
            head, found, value = line.partition(self.separator)
            if not found:
                shown = self.separator.decode("utf-8", "replace")
                raise CommandError(f"line {number}: has no key: {shown!r} is missing")
            key = self._or_null(head)
        return Line(self._or_null(value), key, self.headers)

    def _or_null(self, data: bytes) -> bytes | None:
        return None if self.null_marker is not None and data == self.null_marker else data

    def _parse_json(self, line: bytes, number: int) -> Line:
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise TypeError("not an object")
            _check_names(fields, _RECORD_FIELDS, advice=_SEND_IT_WHOLE)
            if "value" not in fields and "value_base64" not in fields:
                raise ValueError(f'no "value" field; write null for a null value{_SEND_IT_WHOLE}')
            given = fields.get("headers")
            if not isinstance(given, list | None):
                raise TypeError("headers: must be a list of objects with key and value")
            return Line(
                _bytes_of(fields, "value"),
                self.key if self.key is not None else _bytes_of(fields, "key"),
                [*self.headers, *map(_header, given or ())],
                _number(fields, "timestamp"),
                _number(fields, "partition"),
            )
        except (ValueError, TypeError) as error:
            raise CommandError(f"line {number}: not a record in JSON: {error}") from None


_BYTES_FIELDS = frozenset({"key", "key_encoding", "key_base64"})
_HEADER_FIELDS = frozenset({"key", "value", "value_encoding", "value_base64"})
_RECORD_FIELDS = (
    _BYTES_FIELDS | _HEADER_FIELDS | {"topic", "partition", "offset", "timestamp", "headers"}
)
"""The fields that `headrace consume --json` prints; a record's topic and offset are ignored."""


_SEND_IT_WHOLE = "; to send the object itself as the value, omit -f json"


def _check_names(
    fields: "dict[str, Any]", known: frozenset[str], *, before: str = "", advice: str = ""
) -> None:
    for name in fields:
        if name not in known:
            shown = ", ".join(sorted(field for field in known if not field.endswith("_base64")))
            raise ValueError(f"{before}unknown field {name!r}; fields are {shown}{advice}")


def _header(header: object) -> Header:
    if not isinstance(header, dict):
        raise TypeError("headers: must be a list of objects with key and value")
    _check_names(header, _HEADER_FIELDS, before="headers: ")
    name = header.get("key")
    if not isinstance(name, str):
        raise TypeError("headers: key must be a string")
    return name, _bytes_of(header, "value")


def _bytes_of(fields: "dict[str, Any]", name: str) -> bytes | None:
    value, encoding = fields.get(name), fields.get(f"{name}_encoding")
    if f"{name}_base64" in fields:
        if name in fields or encoding is not None:
            raise ValueError(f"{name} and {name}_base64 cannot be combined")
        value, encoding = fields[f"{name}_base64"], "base64"
    if encoding == "base64":
        if not isinstance(value, str):
            raise TypeError(f"{name}: must be a base64 string")
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise ValueError(f"{name}: invalid base64: {error}") from None
    if encoding is not None:
        raise ValueError(f"{name}_encoding: only base64 is supported")
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.encode()


def _number(fields: "dict[str, Any]", name: str) -> int | None:
    """Return a number of 0 or more; None for null and for -1, which means no timestamp."""
    value = fields.get(name)
    if value is None or value == -1:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name}: must be a number, 0 or more")
    return value


def parse_headers(texts: Sequence[str]) -> list[Header]:
    """Return headers from `name=value` or, as in rpk, `name:value`. Raises UsageError."""
    headers: list[Header] = []
    for text in texts:
        at = min((text.find(mark) for mark in "=:" if mark in text), default=0)
        if at == 0:
            raise UsageError(f"-H {text}: must be name=value")
        headers.append((text[:at], text[at + 1 :].encode()))
    return headers
