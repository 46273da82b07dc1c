"""`PullForm`: the bytes that a client's pulls from a topic have in common; answers with messages.

A client's headers of PULL_MESSAGE and LITE_PULL_MESSAGE for one topic differ in four numbers alone,
if it always writes the fields in the same order: Java's clients do. Once a header was decoded as
JSON, those of the same form are read without it.
"""

import re
from struct import Struct
from typing import NamedTuple

from headrace.wire.rocketmq.commands import PROTOCOL_VERSION
from headrace.wire.rocketmq.frames import LENGTH_BYTES

PLAIN = b'{"code":11,'
"""The beginning of each header that may have a form."""
_INT32_MAX = (1 << 31) - 1
_VARIABLES = ("queueId", "queueOffset", "commitOffset", "opaque")
_DIGITS_MAX = 18
_NUMBER = re.compile(rb'"(queueId|queueOffset|commitOffset|opaque)":("?)(-?\d+)\2')


class PulledFields(NamedTuple):
    """The fields in which pulls of one form differ."""

    queue_id: int
    queue_offset: int
    commit_offset: int
    opaque: int


class PullForm:
    """The form of a pull's header."""

    __slots__ = ("_match", "_places")

    def __init__(self, pattern: bytes, names: list[str]) -> None:
        self._match = re.compile(pattern).fullmatch
        self._places = tuple(names.index(name) for name in _VARIABLES)

    def read(self, header: bytes) -> PulledFields | None:
        """Return a header's fields, None if it has another form."""
        found = self._match(header)
        if found is None:
            return None
        numbers = found.groups()
        queue_id, queue_offset, commit_offset, opaque = self._places
        fields = PulledFields(
            int(numbers[queue_id]),
            int(numbers[queue_offset]),
            int(numbers[commit_offset]),
            int(numbers[opaque]),
        )
        return fields if fields.opaque <= _INT32_MAX and fields.queue_id <= _INT32_MAX else None


def pull_form(header: bytes) -> PullForm | None:
    """Return the form of a pull's header that was decoded, None: it has none.

    A header with a backslash has none: a value could hold the name of a field.
    """
    if not header.startswith(PLAIN) or b"\\" in header:
        return None
    names: list[str] = []
    pattern, at = b"", 0
    for found in _NUMBER.finditer(header):
        names.append(found[1].decode())
        sign = b"" if names[-1] in {"queueId", "opaque"} else b"-?"
        pattern += re.escape(header[at : found.start(3)])
        pattern += b"(%b\\d{1,%d})" % (sign, _DIGITS_MAX)
        at = found.end(3)
    if sorted(names) != sorted(_VARIABLES):
        return None
    return PullForm(pattern + re.escape(header[at:]), names)


_FOUND = (
    '{"code":0,"extFields":{"suggestWhichBrokerId":"0","groupSysFlag":"0","nextBeginOffset":"%d",'
    '"maxOffset":"%d","minOffset":"%d","topicSysFlag":"0"},"flag":1,"language":"JAVA","opaque":%d,'
    f'"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":{PROTOCOL_VERSION}}}'
)
_pack_head = Struct(">iI").pack


def found_head(next_offset: int, end: int, start: int, opaque: int, body_bytes: int) -> bytes:
    """Return length and header of a pull's answer with messages, as `encode_command` writes them.

    `end` and `start`: the queue's offsets.
    """
    header = (_FOUND % (next_offset, end, start, opaque)).encode()
    return _pack_head(LENGTH_BYTES + len(header) + body_bytes, len(header)) + header
