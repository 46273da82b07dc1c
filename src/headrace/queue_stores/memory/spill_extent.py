"""Extents: messages of one store at neighbouring positions that are or will be on disk.

on disk     one record batch, as of a durable queue, then f64 expiries if any message expires
in memory   one object, and a byte for each message once some of them are settled
"""

from array import array
from collections.abc import Sequence
from itertools import islice
from math import inf
from typing import NamedTuple, Protocol, cast

from headrace.model.errors import ApiError, HeadraceError
from headrace.queue_stores.memory.message_run import Slots, Stretch, size_of
from headrace.queue_stores.record_messages import batch_of_messages, messages_in
from headrace.record.batch import crc_ok, parse_header
from headrace.record.batch_layout import HEADER_BYTES, OVERHEAD_BYTES
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import make_header

EXTENT_BYTES = 256 * 1024
"""Bytes of memory of an extent's messages, or a little more: the unit of reading back."""
MIN_SHARE = 1 / 64
"""Share of an extent below which messages stay in memory: writing them gains little."""
OBJECT_BYTES = 350
"""Bytes of memory of an extent without its messages; 300 were measured."""
_NO_MESSAGE = Message("", "", make_header(0), b"")
"""Placeholder for a message that was settled before the write."""


class DamagedExtent(HeadraceError):
    """The data read back from a spill file differs from the data written."""


class Content(NamedTuple):
    """The content of an extent on disk: messages and their expiries."""

    messages: Sequence[Message]
    expiries: "array[float] | None"
    """Expiry of each message in monotonic seconds, infinity: none; None: none expires."""


class ExtentOwner(Protocol):
    """The store whose spilled messages are in extents.

    Implemented by `spilled_messages.SpilledMessages`.
    """

    def loaded(self, extent: "Extent") -> None:
        """Note that the messages of an extent were read back."""

    def written(self, extent: "Extent") -> None:
        """Note that an extent is on disk: its messages may be freed in memory."""

    def release(self, extent: "Extent") -> None:
        """Free the messages of an extent that is on disk."""

    def failed(self, error: Exception) -> None:
        """Note that an extent cannot be read back."""


class SpillFile:
    """A file of extents; `spill_files` creates and deletes them."""

    __slots__ = ("end", "extents", "live", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.end = 0
        """Size of the file in bytes."""
        self.live = 0
        """Bytes of its extents that are still needed."""
        self.extents: dict[Extent, None] = {}


class Extent:
    """Messages at `count` positions from `base` on, of which `left` are not settled."""

    __slots__ = (
        "_settled", "at", "base", "count", "expiries", "file", "full", "held", "left", "messages",
        "owner", "size",
    )  # fmt: skip

    def __init__(
        self, owner: ExtentOwner, stretch: Stretch, expiries: "array[float] | None" = None
    ) -> None:
        base, slots, size = stretch
        self.owner = owner
        self.base = base
        self.count = self.left = len(slots)
        self.messages: Slots | None = slots
        """The messages; None: they are on disk only."""
        self.expiries = expiries
        """As in `Content`; None also while the messages are on disk only."""
        self._settled: bytearray | None = None
        if None in slots:
            self._settled = bytearray(message is None for message in slots)
            self.left -= sum(self._settled)
        self.full = self.held = size
        """`full`: bytes of memory of all messages; `held`: bytes they take now."""
        self.file: SpillFile | None = None
        """The file with the extent; None: not written."""
        self.at = 0
        """Byte position in the file; `size` is the number of bytes."""
        self.size = 0

    @property
    def end(self) -> int:
        """Position after the extent's last message."""
        return self.base + self.count

    @property
    def is_at_hand(self) -> bool:
        """Whether the extent's messages are in memory."""
        return self.messages is not None

    def lowest(self, position: int) -> int | None:
        """Return the lowest unsettled position from `position` on, or None."""
        at = max(position - self.base, 0)
        if self._settled is not None:
            at = self._settled.find(0, at)
        return self.base + at if 0 <= at < self.count else None

    def read(self, position: int, count: int) -> tuple[Sequence[int], Sequence[Message]]:
        """Return unsettled positions, and their messages, from `position` on; all are in memory."""
        base, settled = self.base, self._settled
        messages = cast(list[Message], self.messages)
        at = position - base
        if settled is None:
            stop = min(at + count, self.count)
            return range(position, base + stop), messages[at:stop]
        places = list(islice((i for i in range(at, self.count) if not settled[i]), count))
        return [base + i for i in places], [messages[i] for i in places]

    def expires_at(self, position: int) -> float | None:
        """Return the expiry of a message in memory, in monotonic seconds; None: none."""
        expires_at = inf if self.expiries is None else self.expiries[position - self.base]
        return None if expires_at == inf else expires_at

    def settle(self, positions: Sequence[int]) -> int:
        """Settle positions; return the bytes of memory that are freed."""
        if len(positions) == self.count:
            self.left = 0
        else:
            freed = self._settle_each(positions)
            if self.left:
                return freed
            self.held += freed
        return self.release()

    def _settle_each(self, positions: Sequence[int]) -> int:
        settled = self._settled
        if settled is None:
            settled = self._settled = bytearray(self.count)
        # Messages that are on disk as well are freed together.
        messages = self.messages if self.file is None else None
        freed = 0
        for position in positions:
            at = position - self.base
            if settled[at]:
                continue
            settled[at] = 1
            self.left -= 1
            if messages is not None:
                message, messages[at] = messages[at], None
                freed += size_of(cast(Message, message))
        self.held -= freed
        return freed

    def take(self, content: Content) -> int:
        """Take messages that were read back; return their bytes of memory."""
        self.messages, self.expiries = list(content.messages), content.expiries
        self.held = self.full
        return self.held

    def release(self) -> int:
        """Free the extent's messages in memory; return their bytes."""
        freed, self.held = self.held, 0
        self.messages = self.expiries = None
        return freed

    def content(self) -> Content:
        """Return the extent's messages and expiries, to be written to disk."""
        slots = cast(Slots, self.messages)
        return Content([each or _NO_MESSAGE for each in slots], self.expiries)


def encode(content: Content) -> bytes:
    """Encode the content of an extent as a record batch and expiries."""
    batch = batch_of_messages(content.messages, 0)
    return batch if content.expiries is None else batch + content.expiries.tobytes()


def decode(data: bytes, count: int) -> Content:
    """Decode the `count` messages of an extent; raise DamagedExtent."""
    view = memoryview(data)
    header = parse_header(view) if len(view) >= HEADER_BYTES else None
    size = 0 if header is None else header.batch_length + OVERHEAD_BYTES
    if header is None or not crc_ok(view[:size], header):
        raise DamagedExtent(f"a spilled batch of {len(view)} bytes is damaged: wrong header or CRC")
    try:
        messages = messages_in(view[:size], 0).messages
    except ApiError as error:
        raise DamagedExtent(str(error)) from error
    expiries = array("d", data[size:]) if len(view) > size else None
    if len(messages) != count or (expiries is not None and len(expiries) != count):
        raise DamagedExtent(f"{len(messages)} messages, {count} were written")
    return Content(messages, expiries)
