"""Decode records that are like the one before them: only the offset and the body differ.

The messages of a publisher mostly have equal keys, headers and body sizes. Their records then have
one layout, so the bytes around the body are compared as a whole:

    length | attributes | time | offset | key length | key | value length | body | headers
    \\___________ begin _________/ number \\_____________ middle ___________/      \\_ tail _/
"""

from headrace.record.record import Record, encoded_headers, short_numbers, sized, write_varint
from headrace.wire.amqp.content import Message

_ONE_BYTE = 64
"""Offsets in a batch below this one take one byte: others have another layout."""


class LikeRecords:
    """The bytes around the body of the record decoded last."""

    __slots__ = ("_begin", "_middle", "_numbers", "_size", "_tail")

    def __init__(self) -> None:
        self._numbers = short_numbers()
        self._begin = self._middle = self._tail = b""
        self._size = 0

    def learn(self, data: bytes, begin: int, end: int, record: Record, number: int) -> bool:
        """Note the layout of a record between two bytes of `data`, the batch's `number`th.

        Return False if no other record has its layout.
        """
        if record.value is None or number >= len(self._numbers):
            return False
        offset, size = self._numbers[number], len(record.value)
        tail = encoded_headers(record.headers)
        middle = sized(record.key) + write_varint(size)
        whole = 2 + len(offset) + len(middle) + size + len(tail)
        self._begin = write_varint(whole) + b"\x00\x00"
        self._middle, self._tail, self._size = middle, tail, size
        # Other programs may write longer numbers than needed, and records have other times.
        is_plain = end - begin == len(self._begin) + whole - 2
        return is_plain and data.startswith(self._begin + offset + middle, begin)

    def read(self, data: bytes, at: int, numbers: range, messages: list[Message]) -> int:
        """Add the messages of records of the layout from byte `at` on, as far as there are any.

        `numbers`: those of the batch's next records. `messages` ends with the message of the record
        before. Returns the byte behind the added ones.
        """
        like = messages[-1]
        begin, middle, tail, size = self._begin, self._middle, self._tail, self._size
        exchange, routing_key, header = like.exchange, like.routing_key, like.header
        first = numbers.start
        below = min(numbers.stop, _ONE_BYTE if first <= _ONE_BYTE else len(self._numbers))
        if first >= below:
            return at
        to_body = len(begin) + len(self._numbers[first]) + len(middle)
        length = to_body + size + len(tail)
        add, starts = messages.append, data.startswith
        for offset in self._numbers[first:below]:
            body_at = at + to_body
            body_end = body_at + size
            if not (starts(begin + offset + middle, at) and starts(tail, body_end)):
                break
            add(Message(exchange, routing_key, header, data[body_at:body_end]))
            at += length
        return at
