"""`SendForm`: the bytes that all plain sends of a producer to a topic have in common.

Java's client writes each header of SEND_MESSAGE_V2 in the same order:

    {"code":310,"extFields":{"a":…,"b":…,"c":…,"d":…,"e":"QUEUE","f":"0","g":"BORN","h":"0",
    "i":"PROPERTIES","j":"0","k":"false","m":"false","n":…},"flag":0,"language":…,"opaque":OPAQUE,
    "serializeTypeCurrentRPC":"JSON","version":…}

Once a header was decoded as JSON, those that differ in the four values alone are read without it.
All others are decoded: of other clients, with flags, signatures or escapes.
"""

import re
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
_ESCAPED_NAME_END, _ESCAPED_ENTRY_END = rb"\u0001", rb"\u0002"
_BORN_DIGITS_MAX = 18
_OPAQUE_DIGITS_MAX = 9
"""A number of ten digits may be above 32 bits; it is checked."""
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


class SendForm(NamedTuple):
    """The bytes before and behind each of the four values."""

    head: bytes
    before_born: bytes
    before_properties: bytes
    before_opaque: bytes
    tail: bytes

    def read(self, data: bytes, at: int, end: int) -> SentFields | None:
        """Return the fields of the header in `data[at:end]`, None if it has another form."""
        if not data.startswith(self.head, at):
            return None
        at += len(self.head)
        stop = data.find(b'"', at, end)
        queue_id = data[at:stop]
        if not data.startswith(self.before_born, stop):
            return None
        at = stop + len(self.before_born)
        stop = data.find(b'"', at, end)
        born = data[at:stop]
        if not data.startswith(self.before_properties, stop):
            return None
        at = stop + len(self.before_properties)
        stop = data.find(self.before_opaque, at, end)
        properties = data[at:stop].replace(_ESCAPED_ENTRY_END, ENTRY_END)
        properties = properties.replace(_ESCAPED_NAME_END, NAME_END)
        at, after = stop + len(self.before_opaque), end - len(self.tail)
        opaque = data[at:after]
        if (
            stop < 0
            or b"\\" in properties
            or b'"' in properties
            or not (properties.isascii() and queue_id.isdigit() and born.isdigit())
            or len(born) > _BORN_DIGITS_MAX
            or not opaque.isdigit()
            or (len(opaque) > _OPAQUE_DIGITS_MAX and int(opaque) > _INT32_MAX)
            or not data.startswith(self.tail, after)
        ):
            return None
        found: SentFields = _new(SentFields, (queue_id, int(born), properties, opaque))
        return found


def send_form(header: bytes) -> SendForm | None:
    """Return the form of a send's header, None: it is no plain send, or another client's."""
    found = _SHAPE.fullmatch(header)
    return SendForm(*found.groups()) if found else None
