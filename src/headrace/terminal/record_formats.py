"""Formats of a printed record: placeholders, JSON."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from headrace.model.nouns import TopicPartition
from headrace.record.record import Header, Record
from headrace.terminal.failure import UsageError

_Part = Callable[[TopicPartition, Record], bytes]
_OfMany = Callable[[TopicPartition, Sequence[Record]], bytes | None]


class Formatter:
    """Converts records to the bytes to print."""

    def __init__(self, of_record: _Part, of_many: _OfMany | None = None) -> None:
        """Create a formatter of records.

        `of_many`: faster conversion of many records at once.

        Returns None if it cannot convert them.
        """
        self._of_record = of_record
        self._of_many = of_many

    def __call__(self, where: TopicPartition, record: Record) -> bytes:
        """Return the printed text of one record."""
        return self._of_record(where, record)

    def pieces(
        self, where: TopicPartition, records: Sequence[Record]
    ) -> Iterator[tuple[bytes, int]]:
        """Yield the text of records in pieces, each with its number of records."""
        text = None
        if self._of_many is not None and len(records) > 1:
            text = self._of_many(where, records)
        if text is not None:
            yield text, len(records)
            return
        for record in records:
            yield self._of_record(where, record), 1


_PLACEHOLDERS: dict[str, _Part] = {
    "t": lambda where, record: where.topic.encode(),
    "p": lambda where, record: b"%d" % where.partition,
    "o": lambda where, record: b"%d" % record.offset,
    "k": lambda where, record: b"" if record.key is None else record.key,
    "v": lambda where, record: b"" if record.value is None else record.value,
    "s": lambda where, record: b"" if record.value is None else record.value,
    "h": lambda where, record: _headers(record),
    "d": lambda where, record: b"%d" % record.timestamp,
    "T": lambda where, record: b"%d" % record.timestamp,
    "D": lambda where, record: shown_time(record.timestamp).encode(),
    "K": lambda where, record: b"%d" % (-1 if record.key is None else len(record.key)),
    "V": lambda where, record: b"%d" % (-1 if record.value is None else len(record.value)),
    "S": lambda where, record: b"%d" % (-1 if record.value is None else len(record.value)),
    "%": lambda where, record: b"%",
}


def text_formatter(text: str) -> Formatter:
    """Return the formatter of a text with `%` placeholders and backslash escapes.

    Raises UsageError.
    """
    parts: list[_Part | bytes] = []
    for literal, mark in re.findall(r"([^%]*)(%.?|$)", unescape(text), re.DOTALL):
        if literal:
            parts.append(literal.encode())
        if mark:
            if mark[1:] not in _PLACEHOLDERS:
                known = " ".join(f"%{name}" for name in _PLACEHOLDERS if name not in "sST")
                raise UsageError(f"--format: {mark} is not one of {known}")
            parts.append(_PLACEHOLDERS[mark[1:]])
    if len(parts) == 2 and parts[0] is _PLACEHOLDERS["v"] and isinstance(parts[1], bytes):
        end = parts[1]
        return Formatter(
            lambda where, record: (record.value or b"") + end,
            lambda where, records: end.join([record.value or b"" for record in records]) + end,
        )

    def format_(where: TopicPartition, record: Record) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(where, record) for part in parts)

    return Formatter(format_)


def _headers(record: Record) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"" if value is None else value) for name, value in record.headers
    )


def shown_time(timestamp: int) -> str:
    """Return a timestamp in ms since 1970 as ISO 8601 in UTC; empty if it is negative."""
    if timestamp < 0:
        return ""
    try:
        when = datetime.fromtimestamp(timestamp / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_formatter() -> Formatter:
    """Return the formatter of one JSON object per line (docs/schemas/consume.json).

    Bytes that are not UTF-8 are base64, marked by `key_encoding` or `value_encoding`.
    """

    def format_(where: TopicPartition, record: Record) -> bytes:
        return _dumps(record_json(where, record)).encode() + b"\n"

    return Formatter(format_, _json_lines)


_dumps = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_DELETE = "\x7f"
"""A separator: JSON does not escape it, and it is rare in texts."""


def json_line(where: TopicPartition, record: Record, fields: bytes | None) -> bytes:
    """Return the line of a record with the JSON of its decoded value; None: it has no value."""
    line = _dumps(record_json(where, record)).encode()
    return line + b"\n" if fields is None else b'%s,"fields":%s}\n' % (line[:-1], fields)


def _json_lines(where: TopicPartition, records: Sequence[Record]) -> bytes | None:
    """Return the lines of records without headers; None if they must be converted one by one."""
    for record in records:
        if record.headers:
            return None
    keys = _literals([record.key for record in records])
    values = _literals([record.value for record in records])
    if keys is None or values is None:
        return None
    head = f'{{"topic":{_dumps(where.topic)},"partition":{where.partition},"offset":'
    lines = [
        f'{head}{record.offset},"timestamp":{record.timestamp},"key":{key},"value":{value},'
        '"headers":[]}\n'
        for record, key, value in zip(records, keys, values, strict=True)
    ]
    return "".join(lines).encode()


def _literals(fields: list[bytes | None]) -> list[str] | None:
    """Return texts as JSON literals, encoded in one call; None for bytes or a mix with null."""
    there = [data for data in fields if data is not None]
    if not there:
        return ["null"] * len(fields)
    if len(there) < len(fields):
        return None
    try:
        text = _DELETE.encode().join(there).decode()
    except UnicodeDecodeError:
        return None
    if text.count(_DELETE) >= len(there):
        return None
    return _dumps(text).replace(_DELETE, f'"{_DELETE}"').split(_DELETE)


def record_json(where: TopicPartition, record: Record) -> dict[str, object]:
    """Return a record as all commands print it in JSON; `headers` is always present."""
    row: dict[str, object] = {
        "topic": where.topic,
        "partition": where.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    put_bytes(row, "key", record.key)
    put_bytes(row, "value", record.value)
    row["headers"] = headers_json(record.headers) if record.headers else []
    return row


def headers_json(headers: Iterable[Header]) -> list[dict[str, object]]:
    """Return headers as a list of objects, as names may repeat."""
    found: list[dict[str, object]] = []
    for name, value in headers:
        header: dict[str, object] = {"key": name}
        put_bytes(header, "value", value)
        found.append(header)
    return found


def put_bytes(row: "dict[str, object]", name: str, data: bytes | None) -> None:
    """Add bytes to a row as text, or as base64 with `NAME_encoding` next to it."""
    if data is None:
        row[name] = None
        return
    try:
        row[name] = data.decode()
    except UnicodeDecodeError:
        row[name] = base64.b64encode(data).decode()
        row[f"{name}_encoding"] = "base64"


def jsonable_line(row: object) -> str:
    """Return plain values and bytes as one line of JSON; bytes as text, or as base64."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=_jsonable)


def _jsonable(value: object) -> object:
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(data).decode()}
        return text if text.isprintable() else {"base64": base64.b64encode(data).decode()}
    return str(value)


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
