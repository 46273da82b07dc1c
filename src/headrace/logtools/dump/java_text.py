"""Text as a JVM prints it: invalid UTF-8 as in Java, JSON as by Jackson."""

import base64
import codecs
import re

from headrace.log import text_files
from headrace.wire.schema import Uuid

_ERRORS = "headrace-java"
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Return U+FFFD for the invalid bytes, and the position at which decoding continues.

    A codec error handler. The bytes of a surrogate are replaced together, as Java does; Python
    would replace each.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, at = error.object, error.start
    if data[at] == 0xED and at + 1 < len(data) and 0xA0 <= data[at + 1] <= 0xBF:
        third = at + 2 < len(data) and 0x80 <= data[at + 2] <= 0xBF
        return "�", at + (3 if third else 2)
    return "�", error.end


codecs.register_error(_ERRORS, _replace)


def text_of(data: bytes) -> str:
    """Decode bytes as Java's `new String(data, UTF_8)` does."""
    return data.decode("utf-8", _ERRORS)


def json_of(value: object) -> str:
    """Encode a value as Jackson encodes a tree: without blanks, bytes as base64."""
    match value:
        case dict():
            inner = ",".join(f"{json_of(name)}:{json_of(part)}" for name, part in value.items())
            return "{" + inner + "}"
        case list() | tuple():
            return "[" + ",".join(map(json_of, value)) + "]"
        case Uuid():
            return json_of(text_files.encode_uuid(value))
        case bytes():
            return json_of(base64.b64encode(value).decode())
        case str():
            return '"' + _ESCAPED.sub(_escape, value) + '"'
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return _SHORT.get(char) or f"\\u{ord(char):04X}"
