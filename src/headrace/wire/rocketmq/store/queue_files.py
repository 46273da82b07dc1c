"""The files of a consume queue, and a commit log's: entries of 20 bytes, and messages.

    consumequeue/<topic>/<queue id>/<first byte, 20 digits>     commitlog/<first byte, 20 digits>

      0 physical offset, i64
      8 size of the message, i32; 0: behind the last entry
     12 tags code, i64: the hash of the message's tag, or when a delayed message is due, ms

A queue whose first file does not begin at 0 is filled with entries of the largest size up to its
first message. Files have a fixed size and are zero behind their end; a file of the commit log ends
with a filler of its own magic where the next message has no room.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from headrace.wire.rocketmq.stored_messages import MAGIC_V1, MAGIC_V2

ENTRY = struct.Struct(">qiq")
FILLER_MAGIC = 0xCBD43194
_FILLED = 0x7FFFFFFF
_HEAD = struct.Struct(">iI")
HEAD_BYTES = _HEAD.size
FILE_NAME_DIGITS = 20


class QueueEntry(NamedTuple):
    """Where the message of a queue offset is in the commit log."""

    physical_offset: int
    size: int
    tags_code: int

    @property
    def is_filled(self) -> bool:
        """Whether it stands for a message that was deleted before the queue's file was made."""
        return self.physical_offset == 0 and self.size == _FILLED


def decode_entries(data: bytes) -> Iterator[QueueEntry]:
    """Yield whole entries up to the end of the queue."""
    whole = len(data) - len(data) % ENTRY.size
    for fields in ENTRY.iter_unpack(data[:whole]):
        entry = QueueEntry(*fields)
        if entry.size <= 0:
            return
        yield entry


def message_size(head: bytes) -> int:
    """Return the size of the message that begins with these bytes; 0: none does.

    A filler has the size of the rest of its file, negative.
    """
    if len(head) < HEAD_BYTES:
        return 0
    size, magic = _HEAD.unpack_from(head)
    if magic == FILLER_MAGIC and size > 0:
        return -int(size)
    return int(size) if magic in (MAGIC_V1, MAGIC_V2) and size > 0 else 0
