"""`SendForm`: the bytes that all plain sends of a producer to a topic have in common.

Java's client writes each header of SEND_MESSAGE_V2 in the same order:

    {"code":310,"extFields":{"a":…,"b":…,"c":…,"d":…,"e":"QUEUE","f":"0","g":"BORN","h":"0",
    "i":"PROPERTIES","j":"0","k":"false","m":"false","n":…},"flag":0,"language":…,"opaque":OPAQUE,
    "serializeTypeCurrentRPC":"JSON","version":…}

Once a header was decoded as JSON, those that differ in the four values alone are read without it.
All others are decoded: of other clients, with flags, signatures or escapes.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from headrace.wire.rocketmq.properties import ENTRY_END, NAME_END

PLAIN = b'{"code":310,'
"""The beginning of each header that may have a form."""
_SHAPE = re.compile(
    rb'(\{"code":310,"extFields":\{"a":"[^"\\]*","b":"[^"\\]*","c":"[^"\\]*","d":"[^"\\]*","e":")\d+'
    rb'(","f":"0","g":")\d+'
    rb'(","h":"0","i":")(?:[^"\\]|\\u000[12])*'
    rb'(","j":"0","k":"false","m":"false"(?:,"n":"[^"\\]*")?\},"flag":0,'
    rb'"language":"\w+","opaque":)\d+'
    rb'(,"serializeTypeCurrentRPC":"JSON","version":\d+\})'
)
_VALUES = rb"(\d{1,9})", rb"(\d{1,18})", rb"([ !#-\x7f]*)", rb"(\d{1,10})"
"""Queue id, time of birth, properties, opaque: the last may be above 32 bits, and is checked."""
_ESCAPED_NAME_END, _ESCAPED_ENTRY_END = rb"\u0001", rb"\u0002"
_OPAQUE_DIGITS_MAX = 9
"""A number of ten digits may be above 32 bits."""
_INT32_MAX = (1 << 31) - 1


class SentFields(NamedTuple):
    """The fields in which sends of one form differ."""

    queue_id: bytes
    """As digits."""
    born_at_ms: int
    properties: bytes
    """ASCII without quotes and backslashes, so that parts of it may stand in an answer's JSON."""
    opaque: bytes
    """As digits."""


_new = tuple.__new__  # makes a named tuple in two fifths of its constructor's time


class SendForm:
    """The bytes before and behind each of the four values."""

    __slots__ = ("_match",)

    def __init__(self, constants: Sequence[bytes]) -> None:
        """`constants`: the five parts of the header around the values."""
        pattern = re.escape(constants[0])
        for value, constant in zip(_VALUES, constants[1:], strict=True):
            pattern += value + re.escape(constant)
        self._match = re.compile(pattern).fullmatch

    def read(self, data: bytes, at: int, end: int) -> SentFields | None:
        """Return the fields of the header in `data[at:end]`, None if it has another form."""
        match = self._match(data, at, end)
        if match is None:
            return None
        queue_id, born, properties, opaque = match.groups()
        properties = properties.replace(_ESCAPED_ENTRY_END, ENTRY_END)
        properties = properties.replace(_ESCAPED_NAME_END, NAME_END)
        if b"\\" in properties:
            return None
        if len(opaque) > _OPAQUE_DIGITS_MAX and int(opaque) > _INT32_MAX:
            return None
        found: SentFields = _new(SentFields, (queue_id, int(born), properties, opaque))
        return found


def send_form(header: bytes) -> SendForm | None:
    """Return the form of a send's header, None: it is no plain send, or another client's."""
    found = _SHAPE.fullmatch(header)
    return SendForm(found.groups()) if found else None
